"""Findings about policies with memory: sequences that are too short, and stored states that have become stale."""

from __future__ import annotations

from batchwright.doctor.finding import WARNING, Finding, figure, flag
from batchwright.doctor.run_history import RunHistory

MEMORY_PAGE = "docs/training/memory.md#how-long-sequences-must-be"
LATE = 0.5
"""Share of the record that is judged by its end: early policies decide by chance."""
LEAST_CARRIED = 0.05
"""Share of steps in the last quarters of sequences, no episode begun before them, below which they say nothing."""
REACHES_END = 0.05
"""Share of decisions at the end of a sequence that hang on what was before it."""
STALE_SHARE, STALE_DECISIONS = 0.5, 0.05
"""Of what an update changes, and of all decisions: above both, stored states are no longer those of the policy."""


def sequences_too_short(history: RunHistory) -> Finding | None:
    """Decisions at the end of a sequence hang on what was before it: further back than gradients reach."""
    length, steps = history.facts.number("seq_length"), history.facts.number("rollout_steps")
    end, start = (history.typical(f"memory_effect_{name}", LATE) for name in ("end", "start"))
    carried = history.typical("memory_carried", LATE)
    if length is None or end is None or carried is None or carried < LEAST_CARRIED or end < REACHES_END:
        return None
    if steps is not None and length >= steps:
        return None
    return Finding(
        "sequences-too-short",
        WARNING,
        min(0.9, 0.6 + 2 * end),
        f"without what was remembered before a sequence of {figure(length)} steps, {end:.0%} of decisions in its last "
        f"quarter would be others ({start or 0:.0%} at its first step).",
        "the task asks for more than gradients reach back: what should be remembered is learned by chance",
        MEMORY_PAGE,
        _longer(int(length), None if steps is None else int(steps)),
        {"memory_effect_end": end, "memory_effect_start": start, "memory_carried": carried, "seq_length": length},
        hint=True,
        seen=True,
    )


def _longer(length: int, steps: int | None) -> tuple[str, ...]:
    """Sequences of twice the length or more that divide the rollout; else rollouts that hold them."""
    fits = [] if steps is None else [each for each in range(2 * length, steps + 1) if steps % each == 0]
    if fits:
        return (flag("seq_length", fits[0]),)
    return (f"{flag('seq_length', 2 * length)} {flag('rollout_steps', max(2 * length, (steps or 0)))}",)


def stale_states(history: RunHistory) -> Finding | None:
    """After the epochs of an update, stored states lead to other decisions than those of the new parameters."""
    stale, moved = (history.typical(f"memory_{name}") for name in ("stale", "moved"))
    if stale is None or moved is None or stale < STALE_DECISIONS or stale < STALE_SHARE * moved:
        return None
    epochs, rate = history.facts.number("epochs"), history.facts.number("learning_rate")
    length, steps = history.facts.number("seq_length"), history.facts.number("rollout_steps")
    flags = [] if rate is None else [flag("learning_rate", rate / 3)]
    flags += [flag("epochs", max(1, int(epochs // 2)))] if epochs and epochs > 1 else []
    flags += list(_longer(int(length), int(steps))) if length and steps and length < steps else []
    return Finding(
        "stale-states",
        WARNING,
        min(0.9, 0.5 + stale),
        f"after an update, {stale:.0%} of decisions in its sequences differ from those with states of the new "
        f"parameters; the update itself changed {moved:.0%}.",
        "the states stored at the starts of sequences belong to the parameters before the update",
        MEMORY_PAGE,
        tuple(flags),
        {"memory_stale": stale, "memory_moved": moved, "epochs": epochs, "learning_rate": rate},
        hint=True,
        seen=True,
    )
