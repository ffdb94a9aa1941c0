"""Reference ranges of settings, by how many decades a run lies outside of them, and reference values to go back to."""

from __future__ import annotations

import math
from typing import Any

from batchwright.config.presets import read_preset, tuned_preset
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.defaults import DEFAULTS
from batchwright.planning.split import auto_minibatch

# What published settings use (RL Baselines3 Zoo, CleanRL, rl_games), with a margin.
RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (5e-5, 5e-3),
    "epochs": (1, 20),
    "clip_range": (0.05, 0.5),
    "minibatch_transitions": (32, 65_536),
    "rollout_transitions": (256, 200_000),
    "max_grad_norm": (0.05, 50.0),
    "value_weight": (0.05, 5.0),
    "entropy_start": (0.0, 0.1),
}
# Settings that raise KL: with +1 a larger value does, with -1 a smaller one.
KL_DRIVERS = {"learning_rate": 1, "epochs": 1, "clip_range": 1, "minibatch_transitions": -1, "rollout_transitions": -1}


def outside(history: RunHistory, name: str) -> float:
    """Decades by which a setting lies above (+) or below (-) its range; 0 inside the range or where unknown."""
    value = history.facts.number(name)
    if value is None:
        return 0.0
    low, high = RANGES[name]
    if value > high:
        return math.log10(value / high)
    if value < low:
        return math.log10(max(value, low * 1e-6) / low)
    return 0.0


def main_kl_driver(history: RunHistory) -> str | None:
    """The setting that raises KL most, by decades outside its range; None where all lie inside."""
    excess = {name: sign * outside(history, name) for name, sign in KL_DRIVERS.items()}
    name = max(excess, key=lambda key: excess[key])
    return name if excess[name] > 0 else None


def tuned(history: RunHistory, name: str) -> Any:
    """The value of a setting in the preset tuned for this environment and algorithm; None without one."""
    env, algo = history.facts.get("env"), history.facts.get("algo")
    preset = tuned_preset(env, algo) if isinstance(env, str) and isinstance(algo, str) else None
    return None if preset is None else read_preset(preset).values.get(name)


def reference_learning_rate(history: RunHistory) -> float:
    """The learning rate of the tuned preset, else the planner's default."""
    return float(tuned(history, "learning_rate") or DEFAULTS[_algo(history)].learning_rate)


def advised_learning_rate(history: RunHistory, inside: float | None) -> float:
    """What to set the learning rate to: the reference where it is unknown or outside its range, else `inside`."""
    if inside is None or outside(history, "learning_rate"):
        return reference_learning_rate(history)
    return inside


def reference_rollout(history: RunHistory) -> int:
    """Transitions per rollout by the planner's defaults."""
    defaults = DEFAULTS[_algo(history)]
    discrete = history.facts.get("discrete")
    return defaults.num_envs * defaults.steps(discrete if isinstance(discrete, bool) else None)[0]


def advised_rollout_steps(history: RunHistory) -> int:
    """`rollout_steps` that collect as many transitions as the tuned preset, else as the planner's defaults."""
    envs, steps = tuned(history, "num_envs"), tuned(history, "rollout_steps")
    transitions = envs * steps if envs and steps else reference_rollout(history)
    return -(-int(transitions) // transitions_per_step(history))


def transitions_per_step(history: RunHistory) -> int:
    """Of one step of all environments: as many as they have agents."""
    return int(history.facts.number("num_envs") or 8) * int(history.facts.number("num_agents") or 1)


def reference_minibatch(history: RunHistory) -> int:
    """The minibatch of the tuned preset, else the planner's within 32-256, which suits small networks."""
    rollout = int(history.facts.number("rollout_transitions") or reference_rollout(history))
    return min(rollout, tuned(history, "minibatch_transitions") or _planned_minibatch(history, rollout))


def _planned_minibatch(history: RunHistory, rollout: int) -> int:
    steps = history.facts.number("rollout_steps")
    return max(32, min(256, auto_minibatch(rollout, None if steps is None else int(steps))))


def _algo(history: RunHistory) -> str:
    algo = history.facts.get("algo")
    return algo if algo in DEFAULTS else "ppo"
