"""A response surface of everything that was tried: what each number does, and what to try next.

A Gaussian process over the numbers of a space, half of it a sum of one function for each number: a number's effect is
then learned from all settings, and a setting that one seed made look good is not followed. Scores enter as normal
scores of their ranks, so that a diverged training weighs no more than a bad one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from batchwright.tuning.search_space import HORIZONS, SEARCHED, Axis, Setting, nearby
from batchwright.tuning.setting_moves import Player, changed

ADDITIVE = 0.6
"""Share of the variance that is a sum over numbers; the rest is what they do together."""
LENGTHS, NOISES = (0.7, 1.5, 3.0), (0.05, 0.15, 0.4, 1.0)
"""Length scales, in factors of 3, and noise of one seed, as a share of the signal: the likeliest pair is taken."""
CANDIDATES, PARENTS = 400, 4
CROSSED = 0.3
"""Share of the candidates that mix two parents."""
CURIOSITY = 1.5
"""Standard deviations added to a prediction. On random surfaces 1.2 to 2 found more than 0.3 and 0.7."""
STEP = 0.6
"""Spread of a move of a continuous number, in factors of its range."""


def coordinate(axis: Axis, value: Any) -> float:
    """A number on the scale on which it acts, a factor of 3 as 1; of words and switches, their place."""
    if not is_ordered(axis):
        return float(axis.values.index(value)) if value in axis.values else -1.0
    if axis.name in HORIZONS:
        return -math.log(max(1e-4, 1.0 - value)) / math.log(3.0)
    least = min((each for each in axis.values if each > 0), default=1.0)
    return math.log(max(float(value), least / 3.0)) / math.log(3.0)


def is_ordered(axis: Axis) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in axis.values)


class Surface:
    """Predictions for settings, from the mean scores of those that were tried."""

    def __init__(self, axes: Sequence[Axis], player: Player) -> None:
        self._axes, self._player = list(axes), player
        self._ordered = np.array([is_ordered(axis) for axis in axes])
        self.settings = list(player.scores.settings)
        self._points = np.array([self._encode(setting) for setting in self.settings])
        ranks = [player.scores.rank(setting) for setting in self.settings]
        seeds = np.array([len(units) for units in player.scores.units], np.float64)
        values = normal_scores(ranks)
        choices = [(length, noise) for length in LENGTHS for noise in NOISES]
        self._length, self._noise = max(choices, key=lambda pair: self._likelihood(values, seeds, *pair))
        self._targets, self._spread = values, self._noise / seeds

    def means(self, settings: Sequence[Setting]) -> list[float]:
        """Predicted normal scores of settings."""
        points = np.array([self._encode(setting) for setting in settings])
        kernel = self._kernel(self._points, self._points, self._length) + np.diag(self._spread)
        weights = np.linalg.solve(kernel, self._targets)
        return [round(float(value), 9) for value in self._kernel(points, self._points, self._length) @ weights]

    def propose(self, count: int, seed: str, movable: Sequence[str]) -> list[Setting]:
        """Settings to try next: moves from the best predicted ones, each where the others leave most to be learned."""
        candidates = self._candidates(random.Random(seed), movable)
        found: list[Setting] = []
        known, targets, spread = self._points, self._targets, self._spread
        points = np.array([self._encode(setting) for setting in candidates])
        for _ in range(min(count, len(candidates))):
            kernel = self._kernel(known, known, self._length) + np.diag(spread)
            across = self._kernel(points, known, self._length)
            means = across @ np.linalg.solve(kernel, targets)
            left = 1.0 - np.einsum("ij,ji->i", across, np.linalg.solve(kernel, across.T))
            worth = np.round(means + CURIOSITY * np.sqrt(np.maximum(0.0, left)), 9)
            for at in range(len(candidates)):
                if candidates[at] in found:
                    worth[at] = -math.inf
            best = int(np.argmax(worth))
            found.append(candidates[best])
            known, targets = np.vstack([known, points[best]]), np.append(targets, means[best])
            spread = np.append(spread, self._noise)
        return found

    def _candidates(self, source: random.Random, movable: Sequence[str]) -> list[Setting]:
        means = self.means(self.settings)
        order = sorted(range(len(means)), key=lambda at: -means[at])
        parents = [self.settings[at] for at in order[:PARENTS]]
        axes = [axis for axis in self._axes if axis.name in movable]
        found: list[Setting] = []
        for _ in range(CANDIDATES):
            setting = source.choice(parents)
            if source.random() < CROSSED:
                setting = self._mixed(setting, source.choice(parents), source)
            for axis in source.sample(axes, min(len(axes), source.choice((1, 1, 2, 2, 3)))):
                setting = self._moved(setting, axis, source)
            if setting not in self.settings and setting not in found:
                found.append(setting)
        return found

    def _mixed(self, one: Setting, other: Setting, source: random.Random) -> Setting:
        for axis in self._axes:
            if source.random() < 0.5:
                one = self._player.changed(one, axis.name, self._player.value(other, axis.name))
        return one

    def _moved(self, setting: Setting, axis: Axis, source: random.Random) -> Setting:
        now = self._player.value(setting, axis.name)
        along = max(-1.0, min(1.0, source.gauss(0.0, STEP)))
        if axis.name in SEARCHED and axis.name != "gamma" and now:  # every gamma may take a program of its own
            value = nearby(axis.name, now, along)
        elif is_ordered(axis):
            values = sorted({*axis.values, now})
            value = values[max(0, min(len(values) - 1, values.index(now) + (1 if along > 0 else -1)))]
        else:
            value = source.choice([each for each in axis.values if each != now])
        return changed(setting, axis.name, value, self._player.defaults)

    def _encode(self, setting: Setting) -> list[float]:
        return [coordinate(axis, self._player.value(setting, axis.name)) for axis in self._axes]

    def _kernel(self, one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
        apart = one[:, None, :] - other[None, :, :]
        # Two words, or a switch on and off, are as far apart as a factor of 3.
        apart = np.where(self._ordered, apart, apart != 0.0)
        squares = (apart / length) ** 2
        alone = np.exp(-0.5 * squares).mean(axis=-1)
        together = np.exp(-0.125 * squares.sum(axis=-1))
        found: np.ndarray = ADDITIVE * alone + (1.0 - ADDITIVE) * together
        return found

    def _likelihood(self, values: np.ndarray, seeds: np.ndarray, length: float, noise: float) -> float:
        kernel = self._kernel(self._points, self._points, length) + np.diag(noise / seeds)
        _, size = np.linalg.slogdet(kernel)
        return round(-0.5 * float(values @ np.linalg.solve(kernel, values)) - 0.5 * float(size), 9)


def normal_scores(ranks: Sequence[float]) -> np.ndarray:
    """Quantiles of the normal distribution by rank, equal ones for equal scores."""
    below = [sum(other < rank for other in ranks) for rank in ranks]
    equal = [sum(other == rank for other in ranks) for rank in ranks]
    normal = NormalDist()
    return np.array([normal.inv_cdf((b + 0.5 * e) / len(ranks)) for b, e in zip(below, equal, strict=True)])


def axes_of(space_axes: Sequence[Axis], tried: Sequence[Setting], defaults: Mapping[str, Any]) -> list[Axis]:
    """The axes of a space with all values that were tried, one for each name."""
    found: dict[str, Axis] = {}
    for axis in space_axes:
        values = list(dict.fromkeys([*found.get(axis.name, axis).values, *axis.values, defaults[axis.name]]))
        values += [s[axis.name] for s in tried if axis.name in s and s[axis.name] not in values]
        found[axis.name] = Axis(axis.name, tuple(dict.fromkeys(values)))
    return list(found.values())
