"""Stated numbers beside those of the reference plan: by how many decades each is off, and what that would cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchwright.doctor.finding import LEVERS, MEASURED, WARNING, Finding, figure, flag
from batchwright.doctor.run_history import Facts, RunHistory
from batchwright.doctor.value_level import BEHIND, BEYOND, value_level

LEAST_DECADES = 0.45
"""A factor of 3 is a suspect."""
SHARPEST_DECADES = 2.0
SMALL_KL, LARGE_KL = 1e-3, 0.05
"""Nats per iteration; about 0.01 is typical."""
ZERO = 1e-3
"""What a setting of 0 counts as, relative to its reference."""

SHOWN_BY_VALUES = 0.12
"""What values far from the worth of returns, or that explain nothing, add to the confidence in a cause of it."""
UNEXPLAINED = 0.1
"""Explained variance below which values say nothing of returns."""
VALUES_BEHIND = frozenset({"learning-rate-too-low", "target-too-slow", "huber-limit-too-small", "replay-ratio"})
VALUES_BEYOND = frozenset({"learning-rate-too-high", "target-too-fast", "replay-ratio", "gamma-too-long"})

Distance = Callable[[float, float], float]


def decades(value: float, reference: float) -> float:
    """log10 of the ratio."""
    if reference <= 0:
        return 0.0 if value <= 0 else SHARPEST_DECADES
    return math.log10(max(value / reference, ZERO))


def horizon_decades(value: float, reference: float) -> float:
    """log10 of the ratio of horizons 1 / (1 - gamma)."""
    return math.log10(max(1 - reference, 1e-5) / max(1 - value, 1e-5))


def trace_decades(value: float, reference: float) -> float:
    """The same of lambda, whose horizon ends at 1."""
    return math.log10(max(1 - reference, 0.0) + 0.005) - math.log10(max(1 - value, 0.0) + 0.005)


def above(floor: float) -> Distance:
    """Decades above a reference that may be 0."""
    return lambda value, reference: math.log10(max(value, floor) / max(reference, floor))


def nats(value: float, reference: float) -> float:
    """Logarithms already: 1.5 nats count as a decade."""
    return (value - reference) / 1.5


@dataclass(frozen=True)
class Lever:
    """One number of a plan, and the findings that it causes where it is far below or above its reference."""

    name: str
    distance: Distance
    low: str | None
    high: str | None
    low_cause: str = ""
    high_cause: str = ""
    drivers: tuple[str, ...] = ()
    """Settings of which the user must have stated one; the number itself where empty."""
    flags: tuple[str, ...] = ()
    """Settings to put back; the number itself where empty."""
    replay: bool | None = None
    """Whether it belongs to replay (True), to on-policy training (False), or to both."""


ON_POLICY_LEVERS = (
    Lever("clip_range", decades, "clip-range-too-small", "clip-range-too-large",
          "transitions lose their gradient as soon as the policy changes", "nothing bounds the probability ratio"),
    Lever("gae_lambda", trace_decades, "gae-lambda-too-low", "gae-lambda-too-high",
          "advantages rest on the critic alone, which is wrong at first", "advantages are as noisy as whole returns"),
    Lever("entropy_start", above(0.01), None, "entropy-coef-too-high",
          "", "the entropy bonus outweighs the reward"),
    Lever("max_grad_norm", decades, "gradient-clip-too-tight", None,
          "clipped gradients are so small that Adam's epsilon counts"),
    Lever("value_weight", decades, "values-not-learned", "value-weight-too-high",
          "the critic is hardly trained", "the value loss takes the whole clipped gradient"),
    Lever("minibatch_transitions", decades, "minibatch-too-small", None,
          "each gradient averages too few transitions", drivers=("minibatch_transitions", "minibatches")),
    Lever("epochs", decades, None, "too-many-epochs", "", "updates overfit one rollout"),
    Lever("updates_per_transition", decades, "too-few-updates", None,
          "each rollout is hardly learned from", drivers=("epochs", "minibatch_transitions", "minibatches"),
          flags=("epochs", "minibatch_transitions")),
    Lever("rollout_transitions", decades, "rollout-too-small", "rollout-too-large",
          "each update rests on a handful of transitions", "the policy is updated too rarely within this run",
          drivers=("num_envs", "rollout_steps", "rollout_transitions"),
          flags=("num_envs", "rollout_steps", "minibatch_transitions")),
    Lever("log_std_start", nats, "entropy-collapse", "actions-clipped",
          "actions hardly vary, so the policy does not explore", "most actions end up at a bound"),
)  # fmt: skip
REPLAY_LEVERS = (
    Lever("target_speed", decades, "target-too-slow", "target-too-fast",
          "targets lag behind what has been learned", "targets follow every error of the critic",
          drivers=("polyak", "updates_per_target"), flags=("polyak", "updates_per_target")),
    Lever("updates_per_step", decades, "replay-ratio", "replay-ratio",
          "collected data is hardly learned from", "the critic overfits a buffer that hardly changes",
          drivers=("updates_per_iteration", "rollout_steps", "num_envs", "updates_per_step"),
          flags=("num_envs", "rollout_steps", "updates_per_iteration")),
    Lever("transitions_per_update", decades, "minibatch-too-small", None,
          "each gradient averages too few transitions"),
    Lever("buffer_used", decades, "replay-buffer-too-small", None,
          "the buffer forgets what was learned a moment ago", drivers=("replay_transitions",),
          flags=("replay_transitions",)),
    Lever("warmup_steps", decades, None, "warm-up-too-long",
          "", "most of the run collects random actions and learns nothing"),
    Lever("temperature_fixed", decades, "temperature-too-low", "temperature-too-high",
          "nothing keeps the policy exploring", "entropy outweighs the reward",
          drivers=("temperature_start", "learn_temperature"), flags=("learn_temperature", "temperature_start")),
    Lever("epsilon_end", above(0.02), None, "epsilon-too-high", "", "too many actions are random to the end"),
    Lever("epsilon_share", decades, None, "epsilon-too-high", "", "actions stay random for most of the run"),
    Lever("epsilon_start", above(0.1), "epsilon-too-low", None, "no action is random: nothing is explored",
          flags=("epsilon_start", "epsilon_end")),
    Lever("huber_limit", decades, "huber-limit-too-small", None,
          "errors beyond the limit hardly move the values"),
    Lever("max_grad_norm", decades, "gradient-clip-too-tight", None,
          "clipped gradients are so small that Adam's epsilon counts"),
    Lever("steps_per_iteration", decades, None, "rollout-too-large",
          "", "the policy that collects is updated too rarely within this run",
          drivers=("num_envs", "rollout_steps"), flags=("num_envs", "rollout_steps", "updates_per_iteration")),
    Lever("exploration_noise", decades, "exploration-noise-too-low", "exploration-noise-too-high",
          "actions hardly vary, so the policy does not explore", "actions are mostly noise"),
    Lever("target_entropy", nats, "target-entropy-too-low", "target-entropy-too-high",
          "the policy may become deterministic before it has explored", "the policy has to stay random"),
    Lever("reward_learning_rate", decades, "reward-rate-too-low", "reward-rate-too-high",
          "the reward network hardly learns within this run", "the reward network follows single episodes"),
    Lever("rrd_timesteps_per_update", decades, "reward-timesteps-too-few", None,
          "each update of the reward network sees a few timesteps of one episode",
          drivers=("rrd_timesteps_per_update", "subsequence_timesteps"),
          flags=("rrd_timesteps_per_update", "subsequence_timesteps")),
)  # fmt: skip
SHARED_LEVERS = (
    Lever("learning_rate", decades, "learning-rate-too-low", "learning-rate-too-high",
          "updates are too small to learn within this run", "updates are too large for this task"),
    Lever("gamma", horizon_decades, "gamma-too-myopic", "gamma-too-long",
          "rewards beyond the horizon hardly count", "values become large and are learned slowly"),
)  # fmt: skip
LEVER_FINDINGS = frozenset(
    name for lever in (*SHARED_LEVERS, *ON_POLICY_LEVERS, *REPLAY_LEVERS) for name in (lever.low, lever.high) if name
)
FIXED_TEMPERATURE = 0.2
"""Of SAC where it is not learned: a common choice for rewards of about 1."""


def stated_numbers(history: RunHistory) -> list[Finding]:
    """One hint for each stated number that is far from its reference."""
    facts = history.facts
    if not facts.reference:
        return []
    levers = (*SHARED_LEVERS, *(REPLAY_LEVERS if facts.get("regime") == "replay" else ON_POLICY_LEVERS))
    return [finding for lever in levers if (finding := _hint(history, lever)) is not None]


def off_by(history: RunHistory, lever: Lever) -> float:
    """Decades by which a stated number is below (-) or above (+) its reference; 0 where nobody stated it."""
    facts = history.facts
    if not facts.pinned & set(lever.drivers or (lever.name,)):
        return 0.0
    value, reference = _value(facts.values, lever.name), _value(facts.reference, lever.name)
    return 0.0 if value is None or reference is None else lever.distance(value, reference)


def fine_tunes(facts: Facts) -> bool:
    """Whether the run starts from parameters of another one: a lower learning rate than usual is then meant."""
    return facts.get("init_from") is not None


def _value(values: Mapping[str, Any], name: str) -> float | None:
    """A number of a plan, or one that is made of several."""

    def number(of: str) -> float | None:
        found = values.get(of)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    def over(upper: str, lower: str) -> float | None:
        top, bottom = number(upper), number(lower)
        return top / bottom if top is not None and bottom else None

    if name == "updates_per_transition":
        return over("updates_per_iteration", "rollout_transitions")
    if name == "target_speed":
        return over("polyak", "updates_per_target")
    if name == "buffer_used":
        size, steps = number("replay_transitions"), number("total_steps")
        return size if size is None or steps is None else min(size, steps)
    if name == "temperature_fixed":
        learned = values.get("learn_temperature")
        return FIXED_TEMPERATURE if learned is not False else number("temperature_start")
    return number(name)


def _hint(history: RunHistory, lever: Lever) -> Finding | None:
    off = off_by(history, lever)
    name, cause = (lever.low, lever.low_cause) if off < 0 else (lever.high, lever.high_cause)
    facts = history.facts
    if abs(off) < LEAST_DECADES or name is None or (lever.name == "learning_rate" and off < 0 and fine_tunes(facts)):
        return None
    stated = [one for one in (lever.flags or (lever.name,)) if one in facts.reference]
    value, reference = _value(facts.values, lever.name), _value(facts.reference, lever.name)
    shown = _shown_by_values(history, name)
    return Finding(
        name,
        WARNING,
        min(0.95, _confidence(history, lever, off) + (SHOWN_BY_VALUES if shown else 0.0)),
        f"{lever.name} is {figure(value)}; the reference for this task has {figure(reference)}.{shown}",
        cause,
        f"{LEVERS}; {MEASURED}",
        (_put_back(history, stated),),
        {lever.name: value, "reference": reference},
        hint=not _shown_by_kl(history, lever, off),
        seen=bool(shown),
    )


def _confidence(history: RunHistory, lever: Lever, off: float) -> float:
    """From 0.5 at a factor of 3 to 0.9 at one of 100; less where KL speaks against a learning rate."""
    confidence = min(0.9, 0.4 + 0.25 * min(abs(off), SHARPEST_DECADES))
    if lever.name == "learning_rate" and (kl := history.typical("kl", 0.0, 0.5)) is not None:
        against = kl < 0.002 if off > 0 else kl > 0.02
        confidence *= 0.7 if against else 1.0
    return confidence


def _shown_by_values(history: RunHistory, name: str) -> str:
    """The sentence that says so where values lag behind returns, exceed or do not explain them, as the cause would."""
    explained = history.typical("explained_variance", 0.3)
    if name == "gamma-too-long" and explained is not None and explained < UNEXPLAINED:
        return f" The explained variance is {figure(explained)}: values of so long a horizon are not learned."
    level = value_level(history) if name in VALUES_BEHIND or name in VALUES_BEYOND else None
    if level is None:
        return ""
    behind, beyond = level.ratio < BEHIND and name in VALUES_BEHIND, level.ratio > BEYOND and name in VALUES_BEYOND
    if not behind and not beyond:
        return ""
    return f" Q values average {figure(level.q)}; recent returns are worth {figure(level.expected)} at this gamma."


def _shown_by_kl(history: RunHistory, lever: Lever, off: float) -> bool:
    """Whether updates are as small, or as large, as the learning rate makes expect."""
    kl = history.typical("kl", 0.0, 0.5)
    if lever.name != "learning_rate" or kl is None or abs(off) < LEAST_DECADES:
        return False
    return kl > LARGE_KL if off > 0 else kl < SMALL_KL


def _put_back(history: RunHistory, names: Sequence[str]) -> str:
    """Flags that set stated numbers to their references."""
    facts = history.facts
    changed = [name for name in names if facts.reference[name] != facts.get(name)]
    return " ".join(flag(name, facts.reference[name]) for name in changed or names)
