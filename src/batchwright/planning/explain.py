"""A plan as text: the table of its quantities, and what raising or lowering each does."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from batchwright.config.schema import SECTION_OF
from batchwright.planning.quantity import PINNED, Quantity, Value

WIDTH = 118
REASON_WIDTH = 62


# Defaults of these sections are named in one line under the table; anything stated gets its row.
QUIET_SECTIONS = ("learning", "running")
ALWAYS_SHOWN = ("learning_rate", "gamma")


def explain(
    title: str,
    quantities: Sequence[Quantity],
    warnings: tuple[str, ...],
    alternatives: tuple[str, ...],
    everything: bool = False,
) -> str:
    """The table, the defaults in one line (in the table with `everything`), then warnings, then alternatives."""
    quiet = [] if everything else [q for q in quantities if _is_quiet(q)]
    blocks = [title, table([q for q in quantities if q not in quiet])]
    if quiet:
        listed = ", ".join(f"{q.name} {show_value(q.value)}" for q in quiet)
        blocks.append(
            textwrap.fill(f"at their defaults (--all gives the reasons): {listed}", WIDTH, subsequent_indent="  ")
        )
    if warnings:
        blocks.append("warnings\n" + _bullets(warnings))
    if alternatives:
        blocks.append("alternatives\n" + _bullets(alternatives))
    return "\n\n".join(blocks)


def _is_quiet(quantity: Quantity) -> bool:
    section = SECTION_OF.get(quantity.name)
    return section in QUIET_SECTIONS and quantity.origin == "default" and quantity.name not in ALWAYS_SHOWN


def table(quantities: Sequence[Quantity]) -> str:
    """One row per quantity: name, value, unit, source with its place, reason."""
    rows = [(q.name, show_value(q.value), q.unit, _source(q), q.reason) for q in quantities]
    header = ("quantity", "value", "unit", "source", "reason")
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(4)]
    lines = [_row(header, widths), "  ".join("-" * w for w in [*widths, 6])]
    for row in rows:
        first, *rest = textwrap.wrap(row[4], REASON_WIDTH) or [""]
        lines.append(_row((*row[:4], first), widths))
        indent = " " * (sum(widths) + 2 * len(widths))
        lines += [indent + part for part in rest]
    return "\n".join(line.rstrip() for line in lines)


def _source(quantity: Quantity) -> str:
    """pinned with its place; a preset by its name; default, derived or measured."""
    return f"{PINNED} {quantity.origin}" if quantity.source == PINNED else quantity.origin or quantity.source


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    name, value, unit, source, reason = cells
    return f"{name:<{widths[0]}}  {value:>{widths[1]}}  {unit:<{widths[2]}}  {source:<{widths[3]}}  {reason}"


def show_value(value: Value) -> str:
    """A value as a person reads it: digits grouped, small floats short."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else value


def _bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(textwrap.fill(line, WIDTH, initial_indent="  - ", subsequent_indent="    ") for line in lines)


LEVERS: dict[str, tuple[str, str]] = {
    "num_envs": (
        "larger rollout, more varied and less correlated data, faster collection",
        "less memory; does not change how far returns reach: credit over long spans needs rollout_steps",
    ),
    "rollout_steps": (
        "returns reach further, less bias from bootstrapping; but neighbours are correlated and updates wait longer",
        "fresher data and more frequent updates; but the value function must estimate the rest of the return",
    ),
    "rollout_episodes": (
        "one lucky or unlucky episode moves the policy less",
        "updates come sooner; 1 is the noisy single-episode mode",
    ),
    "minibatch_transitions": (
        "less gradient noise, better use of an accelerator; but fewer updates from the same data, more memory",
        "more updates, noise that can help exploration; but unstable when tiny, and slow per transition",
    ),
    "epochs": (
        "more learning from each transition; but the policy drifts from the one that collected, and batches "
        "are overfitted",
        "safer, less reuse: 1-2 where the loss falls and the evaluation does not rise",
    ),
    "updates_per_iteration": ("more learning per step, slower", "less learning per step, faster"),
    "transitions_per_update": ("steadier critics", "faster updates, noisier critics"),
    "rrd_timesteps_per_update": (
        "more subsequences, more varied reward gradients",
        "fewer; one subsequence is very noisy",
    ),
    "subsequence_timesteps": (
        "returns are easier to predict from more of the episode; less randomisation",
        "stronger randomisation; a larger variance term in the loss",
    ),
    "samples_per_step": ("steadier gradients, better use of the GPU; memory grows with it", "fits small GPUs"),
    "accumulation": ("a larger effective batch in the same memory; slower updates", "faster updates"),
    "workers": (
        "data arrives in time; above half the cores they compete with each other",
        "frees cores; the learner starves",
    ),
    "gamma": (
        "sees further; credit is spread thinner, returns vary more",
        "learns the near future faster; blind to the far one",
    ),
    "learning_rate": ("faster, until it diverges", "steadier, until it crawls"),
    "entropy_start": ("explores longer", "commits sooner; may collapse on the first thing that pays"),
    "entropy_floor_discrete": (
        "discrete actions stay random longer; too high forbids a deterministic policy",
        "lets discrete actions become deterministic; 0 is no floor",
    ),
    "entropy_floor_continuous": (
        "continuous actions keep their standard deviation; too high prevents fine control",
        "lets the standard deviation shrink; very low is no floor",
    ),
    "gae_lambda": (
        "advantages lean on what really happened: less bias, more variance",
        "advantages lean on the value function: less variance, wrong where it is wrong",
    ),
    "clip_range": ("larger steps from each rollout; may go too far", "smaller, safer steps; slower"),
    "max_grad_norm": ("lets large gradients through", "tames spikes; very low slows learning"),
    "replay_transitions": (
        "older and more varied experience; memory grows with it",
        "fresher experience; forgets what is rarely seen",
    ),
    "warmup_steps": ("critics begin with more varied data; learning begins later", "learns at once, from little"),
    "polyak": ("targets follow quickly; learning may become unstable", "steadier targets that follow more slowly"),
    "updates_per_target": ("steadier targets, older values", "fresher targets, less steady"),
    "huber_limit": (
        "rare large errors, as at ends of episodes, count in full; one outlier reward can dominate an update",
        "outlier rewards matter less; where values are large, ends of episodes are learned too slowly, values diverge",
    ),
    "epsilon_end": ("keeps trying random actions", "exploits more; may miss better actions"),
    "stacked_frames": ("observations with that many frames, of which one is stored", "more bytes per observation"),
    "learner_threads": (
        "wide networks and images update sooner, on cores that are free",
        "leaves cores to other runs; small networks are quickest on one",
    ),
    "reward_learning_rate": (
        "the reward model learns faster, and shifts under the policy",
        "a steadier reward model that learns more slowly",
    ),
}


def levers(quantities: Mapping[str, Quantity]) -> str:
    """What larger and smaller values do, for every setting among these quantities."""
    lines = ["levers"]
    for name, (larger, smaller) in LEVERS.items():
        if name in quantities:
            lines.append(f"  {name} = {show_value(quantities[name].value)}")
            for word, text in (("larger", larger), ("smaller", smaller)):
                lines.append(
                    textwrap.fill(text, WIDTH, initial_indent=f"    {word + ':':<9}", subsequent_indent=" " * 13)
                )
    return "\n".join(lines)
