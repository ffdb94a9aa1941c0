"""Table of policies with memory beside RecurrentPPO for tables.py."""

from __future__ import annotations

import statistics
from typing import Any

from markdown_table import figure, measured_on, table

NAMES = {
    "ours": "Batchwright, one LSTM",
    "one-lstm": "RecurrentPPO, one LSTM",
    "two-lstms": "RecurrentPPO, two LSTMs (its default)",
}


def memory_beside_sb3(report: dict[str, Any]) -> str:
    """Returns by side over seeds, and speeds measured in turns."""
    found: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for key, run in report["runs"].items():
        side, steps, seed = key.split("|")
        found.setdefault((int(steps), side), []).append((int(seed), run["mean"]))
    rows = []
    for steps, side in sorted(found, key=lambda one: (one[0], list(NAMES).index(one[1]))):
        seeds, means = zip(*sorted(found[steps, side]), strict=True)
        cells = [f"{steps:,}", NAMES[side], f"{min(seeds)} to {max(seeds)}", figure(statistics.median(means))]
        rows.append([*cells, ", ".join(map(figure, means))])
    parts = [
        measured_on(report),
        "CartPole without velocities, trained for three lengths at the settings that the program states; mean return "
        "of 50 evaluated episodes, one figure per seed. 500 is the most. The learning rate is constant, so that both "
        "fall again after they have solved it.",
        table(["steps", "side", "seeds", "median", "seeds, in their order"], rows),
    ]
    return "\n\n".join([*parts, _speeds(list(report["speed"].values()))])


def _speeds(turns: list[dict[str, float]]) -> str:
    if not turns:
        return "Speed in turns: not measured."
    sides = [side for side in NAMES if all(side in turn for turn in turns)]
    rows = []
    for side in sides:
        rates = [turn[side] for turn in turns]
        ratio = statistics.median(turn["ours"] / turn[side] for turn in turns)
        cells = [NAMES[side], f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}"]
        rows.append([*cells, f"{ratio:.1f} x"])
    words = f"Steps per second in {len(turns)} turns, each side after the other; the last column is ours over theirs."
    return f"{words}\n\n" + table(["side", "steps/s, median", "lowest to highest", "median of ratios"], rows)
