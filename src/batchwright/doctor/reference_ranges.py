"""Where each number usually lies, and by how many decades a run's number lies outside: who is to blame."""

from __future__ import annotations

import math
from typing import Any

from batchwright.config.presets import read_preset, tuned_preset
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.defaults import DEFAULTS
from batchwright.planning.split import auto_minibatch

# S2's grids and rules of thumb, widened to what published settings use (RL Baselines3 Zoo, CleanRL, rl_games).
BANDS: dict[str, tuple[float, float]] = {
    "learning_rate": (5e-5, 5e-3),
    "epochs": (1, 20),
    "clip_range": (0.05, 0.5),
    "minibatch_transitions": (32, 65_536),
    "rollout_transitions": (256, 200_000),
    "max_grad_norm": (0.05, 50.0),
    "value_weight": (0.05, 5.0),
    "entropy_start": (0.0, 0.1),
}
# What moves the policy further from the one that collected: larger ones, and for the minibatch a smaller one.
MOVERS = {"learning_rate": 1, "epochs": 1, "clip_range": 1, "minibatch_transitions": -1, "rollout_transitions": -1}


def outside(case: RunHistory, name: str) -> float:
    """Decades by which a number lies above (+) or below (-) its band; 0 inside, or where it is not known."""
    value = case.facts.number(name)
    if value is None:
        return 0.0
    low, high = BANDS[name]
    if value > high:
        return math.log10(value / high)
    if value < low:
        return math.log10(max(value, low * 1e-6) / low)
    return 0.0


def most_blamed_mover(case: RunHistory) -> str | None:
    """The number that most pushes the policy too far, by decades outside its band; None where all lie inside."""
    blame = {name: sign * outside(case, name) for name, sign in MOVERS.items()}
    name = max(blame, key=lambda key: blame[key])
    return name if blame[name] > 0 else None


def tuned(case: RunHistory, name: str) -> Any:
    """The value in the preset that is tuned for this environment and algorithm; None where there is none."""
    env, algo = case.facts.get("env"), case.facts.get("algo")
    preset = tuned_preset(env, algo) if isinstance(env, str) and isinstance(algo, str) else None
    return None if preset is None else read_preset(preset).values.get(name)


def usual_learning_rate(case: RunHistory) -> float:
    return float(tuned(case, "learning_rate") or DEFAULTS[_algo(case)].learning_rate)


def usual_rollout(case: RunHistory) -> int:
    """Transitions that the planner would collect."""
    defaults = DEFAULTS[_algo(case)]
    return defaults.num_envs * defaults.rollout_steps


def advised_rollout_steps(case: RunHistory) -> int:
    """Steps for as many transitions as the tuned preset collects, else the planner."""
    envs, steps = tuned(case, "num_envs"), tuned(case, "rollout_steps")
    transitions = envs * steps if envs and steps else usual_rollout(case)
    return -(-int(transitions) // int(case.facts.number("num_envs") or 8))


def usual_minibatch(case: RunHistory) -> int:
    """That of the tuned preset, else the planner's rule within S2's 32-256, which suits small networks."""
    rollout = int(case.facts.number("rollout_transitions") or usual_rollout(case))
    return min(rollout, tuned(case, "minibatch_transitions") or max(32, min(256, auto_minibatch(rollout))))


def _algo(case: RunHistory) -> str:
    algo = case.facts.get("algo")
    return algo if algo in DEFAULTS else "ppo"
