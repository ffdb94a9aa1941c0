"""What `--doctor act` changes in a running on-policy training.

Decisions depend on the record alone and fall at fixed iterations, so two runs of one plan, and a resumed one, are the
same to the bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from batchwright.core.errors import UserError
from batchwright.doctor.finding import figure
from batchwright.doctor.remedy import DOUBLE_ROLLOUT, HALVE_ROLLOUT, SLOW_ENTROPY
from batchwright.on_policy.on_policy_state import GoodState, OnPolicyState, Remedies
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED, Quantity
from batchwright.planning.split import near_equal_split
from batchwright.runs.learner import Doctor

LEARNING_RATE_AFTER_RESCUE = 0.3
MAX_RESCUES = 5
DECISIONS_PER_RUN = 10
LARGEST_CHANGE = 8
"""A rollout is made at most so many times larger or smaller than planned."""
LEAST_ITERATIONS_LEFT = 5
ENTROPY_PACE = 0.5


def start_remedies(state: OnPolicyState, rollout_steps: int) -> Remedies:
    """Nothing changed yet; the first state is the good one."""
    return Remedies(good_state(state), np.int64(0), np.int64(rollout_steps), np.float64(1.0), np.int64(-1))


def good_state(state: OnPolicyState) -> GoodState:
    return GoodState(state.train, state.obs, state.rewards, state.targets)


def refuse_unable_to_act(plan: Plan) -> None:
    """Remedies are written for on-policy rollouts by steps without reward components or memory."""
    if plan.get("doctor") != "act":
        return
    if plan.regime != "on-policy" or any(plan.get(name) for name in ("rollout_episodes", "components", "memory")):
        raise UserError(
            "--doctor act treats on-policy training by steps, without components or memory; elsewhere the doctor only "
            "speaks.",
            ["--doctor say"],
        )


def rescue(state: OnPolicyState, remedies: Remedies, reason: str) -> tuple[OnPolicyState, str] | None:
    """The good parameters with a lower learning rate, and a message; None where that was tried often enough.

    A lower learning rate does not help against non-finite numbers of the environment.
    """
    if int(remedies.rescues) >= MAX_RESCUES or reason.startswith(("observation", "reward")):
        return None
    good = remedies.good
    factor = state.train.learning_rate_factor * LEARNING_RATE_AFTER_RESCUE
    state = replace(
        state,
        train=good.train._replace(learning_rate_factor=factor),
        obs=good.obs,
        rewards=good.rewards,
        targets=good.targets,
        remedies=remedies._replace(rescues=remedies.rescues + 1),
        counters=state.counters._replace(bad_iterations=np.int64(0)),
    )
    lowered = f"learning rate x {LEARNING_RATE_AFTER_RESCUE} (x {figure(float(factor))} in all)"
    return state, f"back to the last good parameters, {lowered}: {reason}"


def decision_is_due(iterations: int | None, iteration: int, at_checkpoint: bool, resumes_from_state: bool) -> bool:
    """Whether a decision falls after this iteration; engines that cannot be saved change only where they restart."""
    if iterations is None:
        return False
    if resumes_from_state:
        return iteration % max(1, -(-iterations // DECISIONS_PER_RUN)) == 0
    return at_checkpoint


def apply_remedy(state: OnPolicyState, plan: Plan, doctor: Doctor) -> tuple[OnPolicyState, str | None]:
    """The state with what the doctor prescribes, and a message; one that goes well is what a rescue goes back to."""
    remedies, iteration = state.remedies, int(state.counters.iteration)
    assert remedies is not None
    if int(state.counters.bad_iterations) == 0:
        remedies = remedies._replace(good=good_state(state))
        state = replace(state, remedies=remedies)
    prescribed = doctor.remedy(plan, int(remedies.changed))
    if prescribed is None:
        return state, None
    remedy, finding = prescribed
    changed = slow_entropy(remedies, iteration) if remedy == SLOW_ENTROPY else _resize(state, plan, remedies, remedy)
    if changed is None:
        return state, None
    return replace(state, remedies=changed[0]), f"{changed[1]}: {finding.name}, {finding.message}"


def _resize(state: OnPolicyState, plan: Plan, remedies: Remedies, remedy: str) -> tuple[Remedies, str] | None:
    """Doubles or halves the rollout from here on."""
    steps = new_rollout_steps(plan, int(state.counters.env_steps), remedy)
    if steps is None:
        return None
    changed = remedies._replace(rollout_steps=np.int64(steps), changed=np.int64(state.counters.iteration))
    return changed, f"rollouts of {steps} steps instead of {int(remedies.rollout_steps)} from here on"


def slow_entropy(remedies: Remedies, iteration: int) -> tuple[Remedies, str] | None:
    """The entropy coefficient anneals at half its pace, at most twice."""
    pace = remedies.entropy_pace * ENTROPY_PACE
    if pace < ENTROPY_PACE**3:
        return None
    changed = remedies._replace(entropy_pace=pace, changed=np.int64(iteration))
    return changed, f"the entropy bonus anneals at {figure(float(pace))} of its pace"


def new_rollout_steps(plan: Plan, env_steps: int, remedy: str) -> int | None:
    """Rollout steps after doubling or halving; None beyond the limits, or where too little of the run is left."""
    steps, planned = plan["rollout_steps"], plan.get("planned_rollout_steps") or plan["rollout_steps"]
    steps = 2 * steps if remedy == DOUBLE_ROLLOUT else steps // 2
    left = (plan["actual_steps"] - env_steps) / max(1, steps * plan["num_envs"])
    small = steps * plan["num_envs"] * plan.get("num_agents", 1) < 2 * (plan["minibatch_transitions"] or 1)
    if not planned / LARGEST_CHANGE <= steps <= planned * LARGEST_CHANGE or left < LEAST_ITERATIONS_LEFT:
        return None
    return None if remedy == HALVE_ROLLOUT and small else steps


def resized_plan(plan: Plan, rollout_steps: int) -> Plan:
    """The same plan with longer or shorter rollouts, cut into minibatches of the same size."""
    rows = rollout_steps * plan["num_envs"] * plan.get("num_agents", 1)
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
