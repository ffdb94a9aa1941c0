"""Groups of runs that differ only in the seed: median curves with bands, and the IQM with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.planning.explain import show_value
from batchwright.planning.quantity import DERIVED
from batchwright.watch.lines import RETURN
from batchwright.watch.statistics import bootstrap_interval, interquartile_mean
from batchwright.web.columns import buckets, last_of_buckets, rounded, rows_per_bucket
from batchwright.web.figures import figures_of
from batchwright.web.record import RunRecord

GRID_POINTS = 256
RUNS_FOR_QUARTILES = 4
"""With fewer runs the band goes from lowest to highest instead of between quartiles."""
LAST_SHARE = 0.1
_DIFFERS_BY_SEED = ("seed",)
_MOST_NAMED = 3


@dataclass(frozen=True)
class Group:
    """The runs of one setting; `label` names the values in which it differs from other groups."""

    label: str
    runs: tuple[RunRecord, ...]

    def to_json(self) -> dict[str, Any]:
        return {"label": self.label, **scores(self.runs), "curves": median_curves(self.runs)}


def group_runs(records: Sequence[RunRecord]) -> list[Group]:
    """The groups, in the order of their first runs."""
    by_setting: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in records:
        by_setting.setdefault(_setting(record), []).append(record)
    derived = {name for record in records for name, source in _sources(record).items() if source == DERIVED}
    labels = _labels([dict(setting) for setting in by_setting], derived)
    return [Group(label, tuple(runs)) for label, runs in zip(labels, by_setting.values(), strict=True)]


def scores(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """One score per run (mean of its last evaluation, else of the last tenth of training), their median and IQM.

    The interval resamples runs: it estimates how the IQM varies with the seed (Agarwal et al., 2021).
    """
    found = [(run.name, *_score(run)) for run in runs]
    values = np.array([score for _, score, _ in found if score is not None], dtype=np.float64)
    return {
        "scores": [{"run": name, "score": score, "of": source} for name, score, source in found],
        "median": float(np.median(values)) if len(values) else None,
        "iqm": float(interquartile_mean(values)) if len(values) else None,
        "iqm_interval": bootstrap_interval([values], interquartile_mean),
    }


def live_groups(records: Sequence[RunRecord], axis: str) -> list[dict[str, Any]]:
    """The groups of the live page: label, names of the runs, and median curves over the wanted axis."""
    return [
        {"label": group.label, "runs": [run.name for run in group.runs], "curves": median_curves(group.runs, axis=axis)}
        for group in group_runs(records)
    ]


def settings_of(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Every number of every plan as text, by run; and the label of the runs that share all but the seed."""
    return {
        run.name: {"group": number, "label": group.label, "plan": _values(run)}
        for number, group in enumerate(group_runs(records))
        for run in group.runs
    }


def median_curves(runs: Sequence[RunRecord], only: Sequence[str] = (), axis: str = "env_steps") -> dict[str, Any]:
    """The median over runs with its band for each metric, or for `only` some, in the form of `describe.curves`.

    Where a run lacks the wanted axis, the iteration takes its place.
    """
    axis = axis if all(axis in run.columns.axes() for run in runs if run.columns.rows) else "iteration"
    filled = [run for run in runs if run.columns.rows and axis in run.columns.axes()]
    names = list(dict.fromkeys(name for run in filled for name in run.columns.names() if not only or name in only))
    first = min((run.columns.axes()[axis][0] for run in filled), default=0.0)
    last = max((run.columns.axes()[axis][-1] for run in filled), default=0.0)
    grid = np.linspace(first, last, GRID_POINTS if last > first else 1)
    answer: dict[str, Any] = {
        "axes": {axis: rounded(grid, 8)} if filled else {},
        "band": "quartiles" if len(filled) >= RUNS_FOR_QUARTILES else "lowest to highest" if len(filled) > 1 else "",
        "mean": {},
        "low": {},
        "high": {},
    }
    for name in names:
        values_RX = np.stack([_on_grid(run, axis, name, grid) for run in filled])
        middle, low, high = _middle(values_RX)
        answer["mean"][name] = rounded(middle, 5)
        if len(filled) > 1:
            answer["low"][name], answer["high"][name] = rounded(low, 5), rounded(high, 5)
    answer["figures"] = [figure.to_json() for figure in figures_of(names)]
    return answer


def _setting(record: RunRecord) -> tuple[tuple[str, str], ...]:
    shown = {name: value for name, value in _values(record).items() if name not in _DIFFERS_BY_SEED}
    head = {"env": record.config.get("env"), "algo": record.plan.get("algo")}
    return tuple((name, value if isinstance(value, str) else _show(value)) for name, value in (head | shown).items())


def _values(record: RunRecord) -> dict[str, str]:
    """The numbers of the plan as text."""
    quantities = record.plan.get("quantities")
    values = quantities if isinstance(quantities, dict) else {}
    return {name: _show(q.get("value")) for name, q in values.items() if isinstance(q, dict)}


def _sources(record: RunRecord) -> dict[str, str]:
    quantities = record.plan.get("quantities")
    values = quantities if isinstance(quantities, dict) else {}
    return {name: str(q.get("source")) for name, q in values.items() if isinstance(q, dict)}


def _show(value: Any) -> str:
    if isinstance(value, str):
        return value
    return show_value(value) if isinstance(value, int | float | bool | None) else str(value)


def _labels(settings: list[dict[str, str]], derived: set[str]) -> list[str]:
    """A label for each setting; those that would share one are told apart by what differs among them.

    A derived number is named only where no stated one differs: it follows from one.
    """

    def differing(chosen: list[dict[str, str]]) -> list[str]:
        names = list(dict.fromkeys(name for setting in chosen for name in setting))
        found = [name for name in names if len({setting.get(name) for setting in chosen}) > 1]
        return [name for name in found if name not in derived] or found

    found = [_label(setting, differing(settings), number) for number, setting in enumerate(settings)]
    for label in {label for label in found if found.count(label) > 1}:
        places = [i for i, other in enumerate(found) if other == label]
        names = [name for name in differing([settings[i] for i in places]) if name not in ("env", "algo")]
        for i in places:
            parts = [f"{name} {settings[i][name]}" for name in names[:_MOST_NAMED] if name in settings[i]]
            found[i] = ", ".join([label, *parts])
    return found


def _label(setting: dict[str, str], differing: list[str], number: int) -> str:
    """The values of this group in which groups differ; environment and algorithm without their names."""
    plain = [setting[name] for name in ("env", "algo") if name in differing and setting.get(name)]
    others = [name for name in differing if name not in ("env", "algo") and name in setting]
    # If the algorithm differs, its defaults differ too: naming the algorithm is enough.
    named = [] if plain else [f"{name} {setting[name]}" for name in others[:_MOST_NAMED]]
    alone = " ".join(setting[name] for name in ("env", "algo") if setting.get(name))
    return ", ".join(plain + named) or alone or f"setting {number + 1}"


def _score(run: RunRecord) -> tuple[float | None, str]:
    for event in reversed(run.events):
        returns = event.get("returns")
        if event.get("kind") == "evaluation" and isinstance(returns, list):
            values = [value for value in returns if type(value) in (int, float) and abs(value) < 1e300]
            if values:
                return float(np.mean(values)), "last evaluation"
    if RETURN in run.columns:
        found = run.columns[RETURN]
        found = found[np.isfinite(found)]
        if len(found):
            return float(found[-max(1, int(len(found) * LAST_SHARE)) :].mean()), "last tenth of training"
    return None, ""


def _on_grid(run: RunRecord, axis: str, name: str, grid: np.ndarray) -> np.ndarray:
    """A metric of one run interpolated at the grid [X]; NaN beyond the end of the run."""
    if name not in run.columns:
        return np.full(len(grid), np.nan)
    size = rows_per_bucket(run.columns.rows, GRID_POINTS)
    places = last_of_buckets(run.columns.axes()[axis], size)
    values = buckets(run.columns[name], size)["mean"]
    finite = np.isfinite(values)
    if not finite.any():
        return np.full(len(grid), np.nan)
    found: np.ndarray = np.interp(grid, places[finite], values[finite], left=np.nan, right=np.nan)
    return found


def _middle(values_RX: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median and both edges of the band over runs [X]; NaN where fewer than half of the runs have a value."""
    runs = len(values_RX)
    enough = np.isfinite(values_RX).sum(axis=0) * 2 >= runs
    edges = (25, 75) if runs >= RUNS_FOR_QUARTILES else (0, 100)
    found = np.full((3, values_RX.shape[1]), np.nan)
    whole = np.isfinite(values_RX).all(axis=0)  # the usual case, and much the faster one
    if whole.any():
        found[:, whole] = np.percentile(values_RX[:, whole], (50, *edges), axis=0)
    if (enough & ~whole).any():
        found[:, enough & ~whole] = np.nanpercentile(values_RX[:, enough & ~whole], (50, *edges), axis=0)
    return found[0], found[1], found[2]
