"""A learning curve as text, drawn with braille dots, or with asterisks where the terminal has no Unicode."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DOT_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # [row][column] of a braille cell
_BRAILLE = 0x2800


def learning_curve(
    steps: Sequence[float], returns: Sequence[float | None], width: int = 64, height: int = 10, *, ascii: bool = False
) -> str:
    """Returns over steps in at most `width` columns and `height` + 2 lines; points that are not finite are skipped."""
    points = [
        (float(step), float(value))
        for step, value in zip(steps, returns, strict=True)
        if value is not None and math.isfinite(value) and math.isfinite(step)
    ]
    if not points:
        return "no learning curve: no episode has ended"
    if len(points) == 1:
        return f"no learning curve: one point alone, return {points[0][1]:,.2f} after {_short(points[0][0])} steps"
    low, high = _range([value for _, value in points])
    labels = _row_labels(low, high, max(2, height))
    gutter = max(map(len, labels)) + 2
    columns, rows = max(8, width - gutter), max(2, height)
    dots = (columns, rows) if ascii else (columns * 2, rows * 4)
    canvas = _draw(_to_dots(points, low, high, *dots), *dots)
    cells = canvas if ascii else _to_braille(canvas)
    lines = [f"{label:>{gutter - 2}} |{''.join(row).rstrip()}" for label, row in zip(labels, cells, strict=True)]
    left, right = _short(points[0][0]), f"{_short(points[-1][0])} steps"
    return "\n".join(
        [
            *lines,
            f"{'':{gutter - 2}} +{'-' * columns}",
            f"{'':{gutter}}{left}{right:>{max(columns - len(left), len(right) + 1)}}",
        ]
    )


def _range(values: list[float]) -> tuple[float, float]:
    """Lowest and highest value; a flat curve gets a margin above and below."""
    low, high = min(values), max(values)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = 0.5 * max(1.0, abs(low))
    return low - margin, high + margin


def _to_dots(
    points: list[tuple[float, float]], low: float, high: float, columns: int, rows: int
) -> list[tuple[int, int]]:
    """The mean of the points of each column, as (column, row); columns without points are skipped."""
    first, last = points[0][0], max(step for step, _ in points)
    span = (last - first) or 1.0
    sums: dict[int, tuple[float, int]] = {}
    for step, value in points:
        column = min(columns - 1, max(0, int((step - first) / span * columns)))
        total, count = sums.get(column, (0.0, 0))
        sums[column] = (total + (value - low) / (high - low), count + 1)
    return [
        (column, min(rows - 1, round((1 - total / count) * (rows - 1))))
        for column, (total, count) in sorted(sums.items())
    ]


def _draw(dots: list[tuple[int, int]], columns: int, rows: int) -> list[list[str]]:
    """The canvas with the dots and straight lines between them."""
    canvas = [[" "] * columns for _ in range(rows)]
    for (from_column, from_row), (to_column, to_row) in zip(dots, dots[1:] or dots, strict=False):
        reach = max(to_column - from_column, abs(to_row - from_row), 1)
        for step in range(reach + 1):
            column = from_column + round((to_column - from_column) * step / reach)
            canvas[from_row + round((to_row - from_row) * step / reach)][column] = "*"
    return canvas


def _to_braille(canvas: list[list[str]]) -> list[list[str]]:
    cells = []
    for top in range(0, len(canvas), 4):
        row = []
        for left in range(0, len(canvas[0]), 2):
            bits = sum(
                _DOT_BITS[down][right]
                for down in range(4)
                for right in range(2)
                if canvas[top + down][left + right] == "*"
            )
            row.append(chr(_BRAILLE + bits) if bits else " ")
        cells.append(row)
    return cells


def _row_labels(low: float, high: float, rows: int) -> list[str]:
    """The highest return on the first line, the middle half-way down, the lowest on the last."""
    labels = [""] * rows
    labels[0], labels[-1] = f"{high:.4g}", f"{low:.4g}"
    if rows >= 5:
        labels[rows // 2] = f"{high - (high - low) * (rows // 2) / (rows - 1):.4g}"
    return labels


def _short(steps: float) -> str:
    """`512`, `98k`, `1.5M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:.3g}{unit}"
    return f"{steps:.4g}"
