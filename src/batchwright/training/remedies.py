"""What `--doctor act` changes in a running on-policy training, and what a checkpoint must know of it.

Decisions depend on the record alone and fall at fixed iterations, so two runs of one plan, and a resumed one, are the
same to the bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from batchwright.core.errors import UserError
from batchwright.doctor.finding import figure
from batchwright.doctor.remedy import DOUBLE_ROLLOUT, HALVE_ROLLOUT, SLOW_ENTROPY
from batchwright.planning.quantity import DERIVED, Plan, Quantity
from batchwright.planning.split import near_equal_split

RATE_AFTER_RESCUE = 0.3
MOST_RESCUES = 5
DECISIONS_PER_RUN = 10
LARGEST_CHANGE = 8
"""A rollout is made at most so many times larger or smaller than planned."""
LEAST_ITERATIONS_LEFT = 5
ENTROPY_PACE = 0.5


class Good(NamedTuple):
    """What a rescue goes back to: parameters and the statistics that belong to them."""

    learner: Any
    obs: Any
    rewards: Any
    targets: Any


class Remedies(NamedTuple):
    """What has been changed so far; part of every checkpoint of a run with `--doctor act`."""

    good: Good
    rescues: Any
    rollout_steps: Any
    entropy_pace: Any
    """The anneal of the entropy bonus goes at this share of its planned pace."""
    changed: Any
    """The iteration of the last change; -1 before the first."""


def first_remedies(plan: Plan, state: Any) -> Remedies:
    """Nothing changed yet; the fresh state is the good one."""
    steps = np.int64(plan["rollout_steps"])
    return Remedies(good_of(state), np.int64(0), steps, np.float64(1.0), np.int64(-1))


def good_of(state: Any) -> Good:
    return Good(state.learner, state.obs, state.rewards, state.targets)


def refuse_unable_to_act(plan: Plan) -> None:
    """Remedies are written for on-policy rollouts by steps without reward components."""
    if plan.get("doctor") != "act":
        return
    if plan.regime != "on-policy" or plan.get("rollout_episodes") or plan.get("components"):
        raise UserError(
            "--doctor act treats on-policy training by steps, without components; elsewhere the doctor only speaks.",
            ["--doctor say"],
        )


def rescue(state: Any, what: str) -> tuple[Any, str] | None:
    """The good parameters with a lower learning rate, and a word on it; None where that was tried often enough.

    What the environment did wrong no learning rate mends.
    """
    remedies: Remedies | None = state.remedies
    if remedies is None or int(remedies.rescues) >= MOST_RESCUES or what.startswith(("observation", "reward")):
        return None
    good = remedies.good
    factor = state.learner.rate_factor * RATE_AFTER_RESCUE
    state = state._replace(
        learner=good.learner._replace(rate_factor=factor),
        obs=good.obs,
        rewards=good.rewards,
        targets=good.targets,
        remedies=remedies._replace(rescues=remedies.rescues + 1),
        counters=state.counters._replace(bad_iterations=np.int64(0)),
    )
    lowered = f"learning rate x {RATE_AFTER_RESCUE} (x {figure(float(factor))} in all)"
    return state, f"back to the last good parameters, {lowered}: {what}"


def is_due(plan: Plan, iteration: int, at_checkpoint: bool, anywhere: bool) -> bool:
    """Whether a decision falls after this iteration; engines that are replayed change only where they start anew."""
    if anywhere:
        return bool(iteration % max(1, -(-plan["iterations"] // DECISIONS_PER_RUN)) == 0)
    return at_checkpoint


def treat(session: Any, state: Any, remedy: str) -> tuple[Any, str] | None:
    """The state after a remedy, with the session fitted to it, and a word on it; None where it cannot be applied."""
    remedies, iteration = state.remedies, int(state.counters.iteration)
    if remedy == SLOW_ENTROPY:
        pace = remedies.entropy_pace * ENTROPY_PACE
        if pace < ENTROPY_PACE**3:
            return None
        changed = remedies._replace(entropy_pace=pace, changed=np.int64(iteration))
        return state._replace(remedies=changed), f"the entropy bonus anneals at {figure(float(pace))} of its pace"
    steps = new_steps(session.plan, state, remedy)
    if steps is None:
        return None
    before = session.plan["rollout_steps"]
    session.resize(resized_plan(session.plan, steps))
    changed = remedies._replace(rollout_steps=np.int64(steps), changed=np.int64(iteration))
    return state._replace(remedies=changed), f"rollouts of {steps} steps instead of {before} from here on"


def new_steps(plan: Plan, state: Any, remedy: str) -> int | None:
    """Rollout steps after doubling or halving; None beyond the limits, or where too little of the run is left."""
    steps, planned = plan["rollout_steps"], plan.get("planned_rollout_steps") or plan["rollout_steps"]
    steps = 2 * steps if remedy == DOUBLE_ROLLOUT else steps // 2
    left = (plan["actual_steps"] - int(state.counters.env_steps)) / max(1, steps * plan["num_envs"])
    small = steps * plan["num_envs"] < 2 * (plan["minibatch_transitions"] or 1)
    if not planned / LARGEST_CHANGE <= steps <= planned * LARGEST_CHANGE or left < LEAST_ITERATIONS_LEFT:
        return None
    return None if remedy == HALVE_ROLLOUT and small else steps


def resized_plan(plan: Plan, rollout_steps: int) -> Plan:
    """The same plan with longer or shorter rollouts, cut into minibatches of the same size."""
    rows = rollout_steps * plan["num_envs"]
    split = near_equal_split(rows, min(rows, plan["minibatch_transitions"]))
    changed = {
        "planned_rollout_steps": plan.get("planned_rollout_steps") or plan["rollout_steps"],
        "rollout_steps": rollout_steps,
        "rollout_transitions": rows,
        "minibatches": split.parts,
        "minibatch_transitions": split.large,
        "updates_per_iteration": split.parts * plan["epochs"],
    }
    made = {name: Quantity(name, value, "", "changed by the doctor", DERIVED) for name, value in changed.items()}
    return replace(plan, quantities={**plan.quantities, **made})
