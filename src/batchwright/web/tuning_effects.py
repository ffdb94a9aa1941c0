"""What the numbers of a tuning did: each by itself, and two together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_PAIRS = 4
MOST_CELLS = 60
"""A pair with more combinations is not shown: the joint search gives every setting values of its own."""
Line = Mapping[str, Any]


def effects(units: Sequence[Line], defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each tuned number and each of its values: mean score, lowest and highest, and the scores of its units."""
    found = []
    for name, default in defaults.items():
        groups = _grouped(units, lambda unit, name=name, default=default: unit["setting"].get(name, default))
        if len(groups) < 2:
            continue
        means = [float(np.mean(scores)) for scores in groups.values()]
        rows = [
            [show_number(value), mean, min(scores), max(scores), len(scores), scores]
            for (value, scores), mean in zip(groups.items(), means, strict=True)
        ]
        found.append({"name": name, "default": show_number(default), "rows": rows, "range": max(means) - min(means)})
    return sorted(found, key=lambda effect: -effect["range"])


def interactions(units: Sequence[Line], defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pairs of numbers that were tried together, those first whose effects add up the least.

    `beyond` is how far the mean scores of combinations lie from a sum of one effect for each number (root mean square);
    `noise` how far scores of one combination lie apart, None where none was tried twice.
    """
    found: list[dict[str, Any]] = []
    for first, second in itertools.combinations(defaults, 2):
        pair = {name: defaults[name] for name in (first, second)}
        cells = _grouped(units, lambda unit, pair=pair: tuple(unit["setting"].get(n, d) for n, d in pair.items()))
        rows, columns = (_ordered({cell[side] for cell in cells}) for side in (0, 1))
        crossed = sum(cell[0] != defaults[first] and cell[1] != defaults[second] for cell in cells)
        # Crossings of values decide whether effects add up: a star around the default has none.
        free = len(cells) - len(rows) - len(columns) + 1
        if free < 1 or not crossed or len(cells) > MOST_CELLS:
            continue
        found.append(
            {
                "names": [first, second],
                "rows": [show_number(value) for value in rows],
                "columns": [show_number(value) for value in columns],
                "cells": [[_mean(cells.get((a, b))) for b in columns] for a in rows],
                "beyond": _beyond_sum(cells, rows, columns),
                "noise": _noise(cells),
            }
        )
    return sorted(found, key=lambda pair: -pair["beyond"])[:MOST_PAIRS]


def show_number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grouped(units: Sequence[Line], key: Any) -> dict[Any, list[float]]:
    """The scores of units by a key, keys in rising order."""
    groups: dict[Any, list[float]] = {}
    for unit in units:
        groups.setdefault(key(unit), []).append(float(unit["score"]))
    return {value: groups[value] for value in _ordered(groups)}


def _ordered(values: Any) -> list[Any]:
    def place(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(place(part) for part in value)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (0, float(value), "") if number else (1, 0.0, str(value))

    return sorted(values, key=place)


def _mean(scores: Sequence[float] | None) -> float | None:
    return float(np.mean(scores)) if scores else None


def _beyond_sum(cells: Mapping[Any, Sequence[float]], rows: Sequence[Any], columns: Sequence[Any]) -> float:
    """The root mean square of what is left of the cells' means after the best sum of row and column effects."""
    design = np.zeros((len(cells), len(rows) + len(columns)))
    means = np.array([np.mean(scores) for scores in cells.values()])
    for at, (a, b) in enumerate(cells):
        design[at, rows.index(a)] = design[at, len(rows) + columns.index(b)] = 1.0
    fitted = design @ np.linalg.lstsq(design, means, rcond=None)[0]
    return float(np.sqrt(np.mean((means - fitted) ** 2)))


def _noise(cells: Mapping[Any, Sequence[float]]) -> float | None:
    several = [scores for scores in cells.values() if len(scores) > 1]
    return float(np.sqrt(np.mean([np.var(scores, ddof=1) for scores in several]))) if several else None
