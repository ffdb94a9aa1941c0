"""The verdict of a tuning: settings against the default on fresh seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from batchwright.tuning.search_space import Setting
from batchwright.watch.agreement import ranks
from batchwright.watch.statistics import bootstrap_interval, interquartile_mean

SKIPPED = "skipped"
"""Status of a unit for which the budget had no room."""
SIGNIFICANT = 0.05
TWO_LOOKS_SIGNIFICANT = 0.035
"""Of each of two looks, at 5 seeds and at 8: where nothing is better, 4.9% of 20,000 simulated pairs had a winner."""
PROMISING = 0.6
"""Probability of improvement from which on more seeds may tell."""
MOST_ORDERS = 200_000
"""Splits of the scores that are counted one by one; with more, the normal approximation is close."""


def improvement_probability(scores: np.ndarray, default: np.ndarray) -> float:
    """The chance that a run of the setting beats one of the default; equal scores count half (Agarwal et al., 2021)."""
    above = (scores[:, None] > default[None, :]).mean()
    return float(above + 0.5 * (scores[:, None] == default[None, :]).mean())


def improvement_interval(scores: np.ndarray, default: np.ndarray) -> list[float] | None:
    """The 95% bootstrap interval of the probability; both groups are resampled within themselves."""
    count = len(scores)

    def probability(joined: np.ndarray) -> np.ndarray:
        a, b = joined[..., :count, None], joined[..., None, count:]
        found: np.ndarray = ((a > b) + 0.5 * (a == b)).mean(axis=(-1, -2))
        return found

    return bootstrap_interval([scores, default], probability)


def rank_test(scores: np.ndarray, default: np.ndarray) -> float:
    """One-sided p of the Mann-Whitney test that the setting is better, exact for small groups."""
    joined = ranks(np.concatenate([scores, default]))
    count, total = len(scores), len(scores) + len(default)
    seen = joined[:count].sum()
    if math.comb(total, count) <= MOST_ORDERS:
        orders = np.array(list(itertools.combinations(range(total), count)))
        return float((joined[orders].sum(axis=1) >= seen - 1e-9).mean())
    spread = joined.std() * math.sqrt(count * (total - count) / (total - 1))
    return 0.5 * math.erfc((seen - count * joined.mean()) / (spread * math.sqrt(2))) if spread else 1.0


def verdict(
    contestants: Sequence[Setting],
    tuning_scores: Sequence[float | None],
    judged: Sequence[Sequence[dict[str, Any]]],
    significant: float = SIGNIFICANT,
) -> dict[str, Any]:
    """{"winner", "reason", "rows"}: contestant 0 is the default; `judged` holds the units of each, seed by seed.

    A winner's interval of the probability of improvement lies above 0.5, and its rank test, with Holm's correction for
    the number of contestants, is below `significant`: the interval alone is too narrow for five seeds.
    """
    rows = [_row(*each) for each in zip(contestants, tuning_scores, judged, strict=True)]
    default = np.array(rows[0]["scores"])
    for row in rows[1:]:
        scores = np.array(row["scores"])
        if len(scores) and len(default):
            row["probability"] = improvement_probability(scores, default)
            row["probability_interval"] = improvement_interval(scores, default)
            # A failed run ranks below every other: it counts in the test, and against the setting.
            row["p_value"] = rank_test(_with_failures(row), _with_failures(rows[0]))
    _correct(rows[1:])
    winners = [row for row in rows[1:] if _wins(row, significant)]
    best = max(winners, key=lambda row: row["iqm"], default=None)
    return {"winner": None if best is None else best["setting"], "reason": _reason(rows, best), "rows": rows}


def _row(setting: Setting, tuning_score: float | None, units: Sequence[dict[str, Any]]) -> dict[str, Any]:
    scores = [unit["score"] for unit in units if unit["score"] is not None]
    finals = [unit["final"] for unit in units if unit.get("final") is not None]
    values, lasts = np.array(scores, np.float64), np.array(finals, np.float64)
    iqm = float(interquartile_mean(values)) if scores else None
    return {
        "setting": setting,
        "tuning_score": tuning_score,
        "scores": scores,
        "seeds": [unit["seed"] for unit in units if unit["score"] is not None],
        "failed": [unit["reason"] for unit in units if unit["score"] is None],
        "iqm": iqm,
        "iqm_interval": bootstrap_interval([values], interquartile_mean),
        "final_iqm": float(interquartile_mean(lasts)) if finals else None,
        "fell": None if tuning_score is None or not scores else tuning_score - float(values.mean()),
        "probability": None,
        "probability_interval": None,
        "p_value": None,
    }


def _with_failures(row: dict[str, Any]) -> np.ndarray:
    return np.array([*row["scores"], *(-math.inf for _ in row["failed"])])


def _correct(rows: list[dict[str, Any]]) -> None:
    """Holm's correction of the p values, in place."""
    tested = sorted((row for row in rows if row["p_value"] is not None), key=lambda row: row["p_value"])
    highest = 0.0
    for place, row in enumerate(tested):
        highest = max(highest, min(1.0, row["p_value"] * (len(tested) - place)))
        row["p_value"] = highest


def _wins(row: dict[str, Any], significant: float) -> bool:
    interval = row["probability_interval"]
    return interval is not None and interval[0] > 0.5 and row["p_value"] < significant


def for_all(judged: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """The units of seeds that the budget left to all settings: one that it skipped has not failed."""
    seeds = [seed for seed in zip(*judged, strict=True) if all(unit.get("status") != SKIPPED for unit in seed)]
    return [[seed[at] for seed in seeds] for at in range(len(judged))]


def undecided(final: Mapping[str, Any]) -> int | None:
    """The place of the likeliest winner of a verdict without one; None where none is promising."""
    chances = [row["probability"] or 0.0 for row in final["rows"]]
    likeliest = max(range(len(chances)), key=chances.__getitem__, default=0)
    return likeliest if final["winner"] is None and chances[likeliest] >= PROMISING else None


def _reason(rows: list[dict[str, Any]], best: dict[str, Any] | None) -> str:
    if best is not None:
        low, high = best["probability_interval"]
        return (
            f"better than the default with probability {best['probability']:.2f} ({low:.2f} to {high:.2f}), "
            f"p {best['p_value']:.3f} over {len(best['scores'])} fresh seeds"
        )
    if len(rows) == 1:
        return "no other setting was better than the default while tuning"
    if not rows[0]["scores"]:
        return "no run of the default finished: there is nothing to compare with"
    seeds = len(rows[0]["scores"]) + len(rows[0]["failed"])
    return f"no setting is better than the default beyond chance over {seeds} fresh seeds"
