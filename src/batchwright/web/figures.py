"""Which metrics are drawn in one figure, and its title; an unknown metric gets a figure of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LEARNING, STABILITY, OPTIMISER, COMPONENTS, REPLAY, SCALES, SPEED, OTHER = (
    "Learning",
    "Stability",
    "Optimiser",
    "Reward components",
    "Replay",
    "Scales",
    "Speed",
    "Other metrics",
)
SECTIONS = (LEARNING, COMPONENTS, REPLAY, STABILITY, OPTIMISER, SCALES, SPEED, OTHER)


@dataclass(frozen=True)
class Line:
    """One metric of a figure; `low` and `high` name the metrics of its band, `spread` its standard deviation."""

    metric: str
    label: str
    low: str = ""
    high: str = ""
    spread: str = ""
    marks: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure; `note` explains it, `log` starts it on a logarithmic scale, `stack` draws shares of a whole."""

    title: str
    section: str
    lines: tuple[Line, ...]
    unit: str = ""
    note: str = ""
    log: bool = False
    stack: bool = False

    def to_json(self) -> dict[str, Any]:
        lines = [{name: value for name, value in vars(line).items() if value} for line in self.lines]
        head = {name: value for name, value in vars(self).items() if value and name != "lines"}
        return {**head, "lines": lines}


def _one(metric: str, title: str, section: str, unit: str = "", note: str = "", log: bool = False) -> Figure:
    return Figure(title, section, (Line(metric, title),), unit, note, log)


KNOWN: tuple[Figure, ...] = (
    Figure(
        "Return",
        LEARNING,
        (
            Line("episode_return", "training", spread="episode_return_std"),
            Line("eval_mean", "evaluation", low="eval_low", high="eval_high", marks=True),
        ),
        "reward",
        "mean of the episodes that ended in an iteration, band: one standard deviation; evaluation: mean, quartiles",
    ),
    _one("success_rate", "Success rate", LEARNING, "share"),
    _one("episode_length", "Episode length", LEARNING, "transitions"),
    _one("explained_variance", "Explained variance", LEARNING, "share", "of the returns by the values; 1 is perfect"),
    _one("value_mean", "Value", LEARNING, "reward", "mean before the update"),
    _one("loss", "Loss", LEARNING),
    _one("policy_loss", "Policy loss", LEARNING),
    _one("value_loss", "Value loss", LEARNING, log=True),
    _one("clip_fraction", "Clip fraction", STABILITY, "share", "rows whose probability ratio left the clip range"),
    _one("action_clip_fraction", "Clipped actions", STABILITY, "share", "action values outside their bounds"),
    _one("gradient_norm", "Gradient norm", STABILITY, "", "before clipping", log=True),
    Figure(
        "Noise of the policy's gradient",
        STABILITY,
        (Line("policy_gradient_noise", "noise of one transition"), Line("policy_gradient_signal", "signal")),
        "squared norm",
        "noise over signal is the noise scale, in transitions; single iterations vary, below 0 is unknown",
        log=True,
    ),
    _one("first_ratio_error", "First ratio error", STABILITY, "", "distance from 1 in the first minibatch"),
    _one("learning_rate", "Learning rate", OPTIMISER),
    _one("entropy_coef", "Entropy coefficient", OPTIMISER),
    _one("clip_range", "Clip range", OPTIMISER),
    _one("updates", "Updates per iteration", OPTIMISER, "updates"),
    _one("target_std", "Standard deviation of value targets", SCALES, "reward"),
    Figure(
        "Reward of a step",
        SCALES,
        (Line("reward_abs_mean", "mean absolute value"), Line("reward_std", "standard deviation")),
        "reward",
        "from the environment, not normalised",
    ),
    Figure(
        "Observations",
        SCALES,
        (
            Line("obs_abs_max", "largest absolute value"),
            Line("obs_std_max", "largest standard deviation"),
            Line("obs_std_min", "smallest standard deviation"),
        ),
        "",
        "before normalisation",
        log=True,
    ),
    _one("critic_loss", "Critic loss", REPLAY, log=True),
    _one("actor_loss", "Actor loss", REPLAY),
    Figure(
        "Q value",
        REPLAY,
        (Line("q_mean", "critics"), Line("q_target_mean", "target")),
        "reward",
        "means over the sampled transitions",
    ),
    _one("epsilon", "Epsilon", REPLAY, "share", "of random actions"),
    _one("temperature", "Temperature", REPLAY, "", "entropy coefficient", log=True),
    _one("reward_model_loss", "Reward model loss", REPLAY, log=True),
    _one("reward_model_variance", "Reward model variance", REPLAY, log=True),
    _one("reward_model_mean", "Reward model mean", REPLAY, "reward"),
    _one("reward_model_gradient_norm", "Reward model gradient norm", REPLAY, log=True),
    _one("replay_transitions", "Replay buffer", REPLAY, "transitions"),
    _one("episodes", "Episodes per iteration", SPEED, "episodes"),
    _one("steps_per_second", "Steps per second", SPEED, "steps/s", "collection and updates together"),
    Figure(
        "Where the time goes",
        SPEED,
        (
            Line("collect_seconds", "collect"),
            Line("draw_seconds", "sample"),
            Line("update_seconds", "update"),
            Line("wait_seconds", "wait"),
        ),
        "share",
        "of each iteration",
        stack=True,
    ),
    Figure(
        "Memory",
        SPEED,
        (
            Line("memory_bytes", "this run"),
            Line("machine_memory_bytes", "all programs"),
            Line("memory_limit_bytes", "limit"),
        ),
        "bytes",
    ),
)
_BY_HEAD = {
    "entropy": ("Entropy", "of the policy, summed over its heads"),
    "kl": ("KL", "between the policy that collected and the one before each update"),
}
_COMPONENT_PARTS = {
    "return": ("Return by component", "reward"),
    "share": ("Share of the advantage by component", "share"),
    "weight": ("Weight of one unit by component", "share"),
    "base": ("Base weight by component", "share"),
    "attention": ("Attention by component", "share"),
    "product": ("Learned share by component", "share"),
    "scale": ("Scale by component", ""),
    "advantage": ("Advantage by component", ""),
}
_COUNTERS = ("transitions", "episodes_total", "updates_total", "iteration", "env_steps", "evaluation_seconds")
_IN_BANDS = ("episode_return_min", "episode_return_max", "eval_median", "eval_iqm", "eval_length_mean")


def figures_of(names: Iterable[str]) -> list[Figure]:
    """The figures for a set of metrics, by section; each metric is in exactly one, counters are in none."""
    logged = [name for name in names if name not in _COUNTERS]
    known = [kept for figure in KNOWN if (kept := _with_lines_of(figure, set(logged))) is not None]
    found = _by_head(logged) + known + _agents(logged) + _components(logged)
    drawn = {name for figure in found for line in figure.lines for name in _names_of(line)}
    others = [name for name in logged if name not in drawn and name not in _IN_BANDS]
    found += [Figure(name, OTHER, (Line(name, name),)) for name in others]
    return sorted(found, key=lambda figure: SECTIONS.index(figure.section))


def _with_lines_of(figure: Figure, logged: set[str]) -> Figure | None:
    lines = tuple(line for line in figure.lines if line.metric in logged)
    return Figure(**{**vars(figure), "lines": lines}) if lines else None


def _by_head(logged: list[str]) -> list[Figure]:
    figures = []
    for metric, (title, note) in _BY_HEAD.items():
        heads = [name for name in logged if name.startswith(f"{metric}/")]
        lines = [Line(metric, "all heads" if heads else title)] if metric in logged else []
        lines += [Line(name, name.split("/", 1)[1]) for name in heads]
        if lines:
            figures.append(Figure(title, STABILITY, tuple(lines), "nats", note))
    return figures


def _agents(logged: list[str]) -> list[Figure]:
    figures = []
    for part, title in (("return", "Return by agent"), ("eval_mean", "Evaluated return by agent")):
        found = [name for name in logged if name.startswith("agent/") and name.endswith(f"/{part}")]
        lines = tuple(Line(name, name.removeprefix("agent/").removesuffix(f"/{part}")) for name in found)
        if lines:
            figures.append(Figure(title, LEARNING, lines, "reward"))
    return figures


def _components(logged: list[str]) -> list[Figure]:
    figures = []
    for part, (title, unit) in _COMPONENT_PARTS.items():
        found = [name for name in logged if name.startswith("component/") and name.endswith(f"/{part}")]
        lines = tuple(Line(name, name.removeprefix("component/").removesuffix(f"/{part}")) for name in found)
        if lines:
            figures.append(Figure(title, COMPONENTS, lines, unit))
    shares = tuple(Line(name, name.split("/", 1)[1]) for name in logged if name.startswith("share/"))
    return figures + ([Figure("Share by component", COMPONENTS, shares, "share", stack=True)] if shares else [])


def _names_of(line: Line) -> list[str]:
    return [name for name in (line.metric, line.low, line.high, line.spread) if name]
