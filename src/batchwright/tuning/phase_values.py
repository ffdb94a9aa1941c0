"""Values that the phases of the playbook try: plain ones, or multiples of a default that is known later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from batchwright.planning.network_plan import parse_hidden
from batchwright.planning.plan import Plan

LEARNING_RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
GAMMAS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
EPOCHS = (1, 2, 4)
HALF_AND_DOUBLE = (0.5, 1.0, 2.0)
ROLLOUTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
LEAST_MINIBATCH = 8
NETWORKS = ("64,64", "256,256")


@dataclass(frozen=True)
class Wish:
    """Values to try before the default is known: plain ones, or multiples of the default."""

    name: str
    values: tuple[Any, ...] = ()
    factors: tuple[float, ...] = ()
    instead_of_zero: float = 0.0
    """What factors multiply where the default is 0."""


def on_policy_wishes(plan: Plan) -> dict[str, tuple[Wish, ...]]:
    reuses = plan.algo == "ppo"
    return {
        "A": (
            Wish("rollout_steps", factors=ROLLOUTS),
            *((Wish("minibatch_transitions", _minibatches(plan)),) if reuses else ()),
            *_networks(plan),
        ),
        "B": (
            Wish("learning_rate", LEARNING_RATES),
            *((Wish("epochs", _epochs(plan)),) if reuses else ()),
            Wish("max_grad_norm", (0.5, 1.0, 2.0)),
        ),
        "C": (
            Wish("baseline", (True, False)),
            Wish("advantage_norm", ("rollout", "minibatch", "none")),
            Wish("normalize_rewards", (True, False)),
            Wish("value_rate_factor", (1.0, 2.0)),
            *((Wish("gae_lambda", (0.9, 0.98)), Wish("clip_range", (0.1, 0.2, 0.4))) if reuses else ()),
        ),
        "D": (
            Wish("gamma", _gammas(plan)),
            Wish("entropy_start", factors=(0.3, 1.0, 3.0), instead_of_zero=0.01 if plan.task.discrete else 0.001),
        ),
        "E": (*_polish(plan), Wish("weight_decay", (0.0, 1e-5)), Wish("warmup_updates", (0, 500))),
    }


def replay_wishes(plan: Plan) -> dict[str, tuple[Wish, ...]]:
    targets = (
        Wish("updates_per_target", factors=HALF_AND_DOUBLE)
        if plan.algo == "dqn"
        else Wish("polyak", factors=(0.4, 1.0, 4.0))
    )
    exploration = {
        "sac": (Wish("target_entropy", (-0.5, -1.0, -2.0)),),
        "td3": (Wish("exploration_noise", (0.05, 0.1, 0.2)),),
        "dqn": (Wish("epsilon_end", (0.01, 0.05, 0.1)), Wish("epsilon_share", factors=HALF_AND_DOUBLE)),
    }[plan.algo]
    rewards = (
        Wish("rrd_timesteps_per_update", factors=HALF_AND_DOUBLE),
        Wish("subsequence_timesteps", factors=HALF_AND_DOUBLE),
        Wish("reward_learning_rate", factors=(0.3, 1.0, 3.0)),
    )
    return {
        "B": (
            Wish("learning_rate", LEARNING_RATES),
            Wish("updates_per_iteration", factors=HALF_AND_DOUBLE),
            Wish("transitions_per_update", factors=HALF_AND_DOUBLE),
        ),
        "C": (targets, Wish("warmup_steps", factors=HALF_AND_DOUBLE), *(rewards if plan.get("redistribute") else ())),
        "D": (Wish("gamma", _gammas(plan)), *exploration),
        "E": _polish(plan),
    }


def _polish(plan: Plan) -> tuple[Wish, ...]:
    return (
        Wish("learning_rate_schedule", ("constant", "linear")),
        Wish("normalize_obs", (True, False)),
        Wish("adam_beta2", (0.99, 0.999)),
    )


def _minibatches(plan: Plan) -> tuple[int, ...]:
    """An eighth, a quarter and four times the default, if that is enough for a gradient and at most the rollout."""
    size, rollout = plan.get("minibatch_transitions"), plan.get("rollout_transitions")
    if not isinstance(size, int) or not isinstance(rollout, int):
        return ()
    return tuple(new for new in (size // 8, size // 4, size * 4) if LEAST_MINIBATCH <= new <= rollout)


def _epochs(plan: Plan) -> tuple[int, ...]:
    """The grid, and half and double of the default."""
    default = int(plan["epochs"])
    return tuple(sorted({*EPOCHS, max(1, default // 2), 2 * default}))


def _networks(plan: Plan) -> tuple[Wish, ...]:
    """Layers and activation of networks on vectors; images use one fixed network."""
    if "activation" not in plan.quantities or parse_hidden(str(plan["hidden"])) is None:
        return ()
    return Wish("hidden", NETWORKS), Wish("activation", ("tanh", "relu"))


def _gammas(plan: Plan) -> tuple[float, ...]:
    """The grid, and the horizon heuristic 1 - 1 / T where episodes of T steps are longer than 100."""
    steps = plan.task.episode_steps
    heuristic = {round(1 - 1 / steps, 4)} if steps is not None and steps > 100 else set()
    return tuple(sorted({*GAMMAS, *heuristic}))
