"""Draws the learning curves of benchmarks/results/rrd.json: one panel for each task, one line for each variant.

python benchmarks/rrd_picture.py [--json benchmarks/results/rrd.json] [--to docs/training/pictures/rrd.svg]
A line is the median over seeds of the mean training return in each twentieth of the run, a band lowest to highest.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
# The colours of Okabe and Ito, which stay apart for colour-blind readers; the dense reward is dashed.
COLOURS = {"dense": "#444444", "rrd": "#0072b2", "rrd-unbiased": "#009e73", "ircr": "#cc79a7", "delayed": "#d55e00"}
TITLES = {"dense": "dense reward", "delayed": "delayed, as it is"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 280, 58, 12, 34, 40

Curves = list[list[float | None]]


class Setting(NamedTuple):
    """Runs that can be compared."""

    env: str
    steps: int
    turn: str
    """Steps and updates in turn."""


class Point(NamedTuple):
    part: float
    low: float
    median: float
    high: float


def read(path: Path) -> dict[Setting, dict[str, Curves]]:
    """Setting -> variant -> a curve for each seed."""
    found: dict[Setting, dict[str, Curves]] = defaultdict(lambda: defaultdict(list))
    for key, row in json.loads(path.read_text()).items():
        env, steps, name, _ = key.split("|")
        variant, _, turn = name.partition(", ")
        if variant in COLOURS:
            found[Setting(env, int(steps), turn or "100 in turn")][variant].append(row["curve"])
    return found


def points(curves: Curves) -> list[Point]:
    """Where every seed has a value; the middle of each part of the run."""
    found = []
    for place, values in enumerate(zip(*curves, strict=True)):
        known = [value for value in values if value is not None]
        if len(known) == len(curves):
            middle = (place + 0.5) / len(curves[0])
            found.append(Point(middle, min(known), statistics.median(known), max(known)))
    return found


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers within a range."""
    step = 10.0 ** len(str(int(max(high - low, 1)))) / 10
    while (high - low) / step < 3:
        step /= 2 if (high - low) / step < 1.5 else 2.5
    first = int(low // step) + 1
    return [step * n for n in range(first, int(high // step) + 1)]


def panel(setting: Setting, variants: dict[str, Curves], at: int) -> str:
    lines = {name: points(variants[name]) for name in COLOURS if name in variants}
    low = min(p.low for line in lines.values() for p in line)
    high = max(p.high for line in lines.values() for p in line)
    margin = 0.04 * max(high - low, 1e-9)
    low, high = low - margin, high + margin

    def x(part: float) -> float:
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    parts = [f'<g transform="translate({at} 0)">']
    parts.append(
        f'<text x="{x(0.5)}" y="22" text-anchor="middle" font-weight="bold">{setting.env}, {setting.turn}</text>'
    )
    for value in ticks(low, high):
        parts.append(f'<path d="M{x(0)} {y(value)}H{x(1)}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x(0) - 6}" y="{y(value) + 4}" text-anchor="end">{value:,.0f}</text>')
    for share in (0, 0.5, 1):
        label = f"{share * setting.steps / 1000:g}k" if share else "0"
        anchor = "end" if share == 1 else "middle"
        parts.append(f'<text x="{x(share)}" y="{HEIGHT - BOTTOM + 17}" text-anchor="{anchor}">{label}</text>')
    parts.append(f'<text x="{x(0.5)}" y="{HEIGHT - 6}" text-anchor="middle">steps</text>')
    parts.append(f'<path d="M{x(0)} {y(low)}H{x(1)}" stroke="#888"/>')
    for name, line in lines.items():
        upper = " ".join(f"{x(p.part)},{y(p.high)}" for p in line)
        lower = " ".join(f"{x(p.part)},{y(p.low)}" for p in reversed(line))
        middle = " ".join(f"{x(p.part)},{y(p.median)}" for p in line)
        dash = ' stroke-dasharray="5 4"' if name == "dense" else ""
        parts.append(f'<polygon points="{upper} {lower}" fill="{COLOURS[name]}" opacity="0.13"/>')
        parts.append(f'<polyline points="{middle}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dash}/>')
    return "\n".join([*parts, "</g>"])


def legend(names: list[str], width: int) -> str:
    parts, each = [], width / len(names)
    for place, name in enumerate(names):
        left, dash = place * each + 20, ' stroke-dasharray="5 4"' if name == "dense" else ""
        row = HEIGHT + 14
        parts.append(f'<path d="M{left} {row}h26" stroke="{COLOURS[name]}" stroke-width="2.5"{dash}/>')
        parts.append(f'<text x="{left + 33}" y="{row + 4}">{TITLES.get(name, name)}</text>')
    return "\n".join(parts)


def draw(found: dict[Setting, dict[str, Curves]]) -> str:
    """The whole picture."""
    # Of one task the runs with the most variants, of these the longest; only where there is something to compare.
    best: dict[str, Setting] = {}
    for setting in sorted(found, key=lambda setting: (len(found[setting]), setting.steps)):
        best[setting.env] = setting
    shown = [best[env] for env in sorted(best) if len(found[best[env]]) > 1]
    width = WIDTH * len(shown)
    names = [name for name in COLOURS if any(name in found[key] for key in shown)]
    body = [panel(key, found[key], WIDTH * place) for place, key in enumerate(shown)]
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    size = f'viewBox="0 0 {width} {HEIGHT + 30}" width="{width}" height="{HEIGHT + 30}"'
    back = f'<rect width="{width}" height="{HEIGHT + 30}" fill="#ffffff"/>'
    content = "\n".join([back, *body, legend(names, width)])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{content}\n</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=HERE / "results" / "rrd.json")
    parser.add_argument("--to", type=Path, default=HERE.parent / "docs" / "training" / "pictures" / "rrd.svg")
    stated = parser.parse_args()
    stated.to.write_text(draw(read(stated.json)))


if __name__ == "__main__":
    main()
