"""Rules of thumb for on-policy plans: one check each, with a message and a source. They warn and never refuse.

Only numbers that the user stated are held against a rule: a preset names its own source, and what the planner chose has
its reason in the plan.
"""

from __future__ import annotations

from batchwright.core.machine import Machine
from batchwright.planning.defaults import DEFAULTS
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import TaskFacts
from batchwright.planning.quantity import PINNED, PRESET, counted

GUIDE = "rule of thumb, docs/planning/on-policy.md"
# Rollouts to start with, in transitions.
STARTING_ROLLOUT = {True: (2_000, 8_200), False: (5_000, 20_500)}
"""By whether actions are discrete."""

MINIBATCH = ("minibatch_transitions", "minibatches")
ROLLOUT = ("num_envs", "rollout_steps", "rollout_episodes", "num_agents")


def check_on_policy(ledger: Ledger, task: TaskFacts, machine: Machine) -> None:
    """Every rule that has the figures it needs."""
    _minibatch_size(ledger, machine)
    _minibatches_per_epoch(ledger)
    _action_dimensions(ledger, task)
    _several_envs(ledger)
    _rollout_size(ledger, task)
    _episodes_per_rollout(ledger, task)
    _reused_without_ratio(ledger)


def offer_discount(ledger: Ledger, task: TaskFacts) -> None:
    """The discounts whose horizon suits the length of an episode, as flags."""
    length = task.episode_steps
    if length is None or length < 8:
        return
    for share, rule in ((0.25, "1 - 1/(0.25 T)"), (1.0, "1 - 1/T")):
        horizon = share * length
        # Two digits beyond the horizon's own, so that a long one does not round to 1.
        gamma = round(1 - 1 / horizon, len(str(int(horizon))) + 2)
        ledger.alternatives.append(f"--gamma {gamma}: {rule} for episodes of T = {length} steps")


def _number(ledger: Ledger, name: str) -> int | None:
    """A whole number of the plan, or None where it is unknown or comes from a preset."""
    quantity = ledger.quantities.get(name)
    if quantity is None or quantity.source == PRESET or not isinstance(quantity.value, int):
        return None
    return quantity.value


def _pinned(ledger: Ledger, *names: str) -> bool:
    """Whether the user stated one of these numbers: what the planner chose itself is not held against them."""
    return any(name in ledger.quantities and ledger.quantities[name].source == PINNED for name in names)


def _minibatch_size(ledger: Ledger, machine: Machine) -> None:
    size = _number(ledger, "minibatch_transitions")
    if size is None or machine.gpus or ledger.config.algo != "ppo":
        return
    ledger.check(
        "minibatch-size",
        32 <= size <= 256 or not _pinned(ledger, *MINIBATCH),
        f"a minibatch of {counted(size, 'transition')}; 32-256 suits small networks on a CPU",
        GUIDE,
    )


def _minibatches_per_epoch(ledger: Ledger) -> None:
    parts = _number(ledger, "minibatches")
    if parts is None or ledger.config.algo != "ppo" or ledger.quantities["minibatch_transitions"].source == PRESET:
        return
    rollout = ledger.quantities["rollout_transitions"].value
    better = 4 if parts < 4 else 32
    advice = ""
    if isinstance(rollout, int) and rollout % better == 0 and rollout >= 64:
        by_size = ledger.stated("minibatch_transitions") is not None
        advice = f": --minibatch-transitions {rollout // better}" if by_size else f": --minibatches {better}"
    noun = "minibatch" if parts == 1 else "minibatches"
    fits = 4 <= parts <= 32 or not _pinned(ledger, *MINIBATCH)
    ledger.check("minibatches-per-epoch", fits, f"{parts} {noun} per epoch; 4-32 is typical{advice}", GUIDE)


def _action_dimensions(ledger: Ledger, task: TaskFacts) -> None:
    size = _number(ledger, "minibatch_transitions")
    if size is None or task.action_size is None:
        return
    least = 10 * task.action_size
    ledger.check(
        "minibatch-for-actions",
        size >= least or not _pinned(ledger, *MINIBATCH),
        f"a minibatch of {size} for {task.action_size} action dimensions; at least 10 x {task.action_size} = {least}",
        GUIDE,
    )


def _several_envs(ledger: Ledger) -> None:
    envs = _number(ledger, "num_envs")
    if envs is None or "rollout_episodes" in ledger.quantities:
        return
    ledger.check(
        "several-envs",
        envs > 1 or not _pinned(ledger, "num_envs"),
        f"{envs} environment{'s' if envs > 1 else ''}: every minibatch should hold several, so that no single "
        "trajectory dominates it",
        GUIDE,
    )


def _rollout_size(ledger: Ledger, task: TaskFacts) -> None:
    """Transitions per update, for every algorithm; those of the default, also where they are held, are explained."""
    rollout = _number(ledger, "rollout_transitions")
    if rollout is None:
        return
    algo = ledger.config.algo
    defaults = DEFAULTS[algo]
    own = not _pinned(ledger, *ROLLOUT) or rollout == defaults.num_envs * defaults.steps(task.discrete)[0]
    if algo == "reinforce":
        ledger.check(
            "reinforce-rollout",
            rollout >= 1000 or own,
            f"{rollout} transitions per update; REINFORCE needs at least 1000",
            GUIDE,
        )
    if task.discrete is None:
        return
    kind, (low, high) = "discrete" if task.discrete else "continuous", STARTING_ROLLOUT[task.discrete]
    # Of whole episodes, what full length gives: shorter ones have fewer.
    most, at_most = (None, "at most ") if "rollout_episodes" in ledger.quantities else (high, "")
    standard = "; 2k-10k is standard for PPO" if algo == "ppo" and not task.discrete else ""
    usual = f"{low // 1000}k-{high // 1000}k{standard}"
    ledger.check(
        "starting-rollout",
        own or (low <= rollout and (most is None or rollout <= most)),
        f"{at_most}{rollout} transitions per update; {kind} actions start with {usual}",
        GUIDE,
    )


def _episodes_per_rollout(ledger: Ledger, task: TaskFacts) -> None:
    episodes, counted_at = _number(ledger, "rollout_episodes"), ""
    if episodes is None and ledger.config.algo == "reinforce" and task.episode_steps:
        rollout = _number(ledger, "rollout_transitions")
        episodes = None if rollout is None else rollout // task.episode_steps
        counted_at = " at full length"
    if episodes is None:
        return
    ledger.check(
        "episodes-per-rollout",
        16 <= episodes <= 64 or not _pinned(ledger, *ROLLOUT),
        f"{counted(episodes, 'episode')} per rollout{counted_at}; 16-64 keep long ones from dominating the update",
        GUIDE,
    )


def _reused_without_ratio(ledger: Ledger) -> None:
    updates = ledger.quantities.get("updates_per_iteration")
    if ledger.config.algo != "a2c" or updates is None or not isinstance(updates.value, int):
        return
    ledger.check(
        "a2c-one-update",
        updates.value == 1,
        f"{counted(updates.value, 'update')} per rollout; a2c has no ratio to correct for a policy that has moved: "
        "--algo ppo does",
        "Mnih et al., 2016",
    )
