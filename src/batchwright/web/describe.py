"""A run as JSON for the page and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.planning.explain import show_value
from batchwright.watch.statistics import interquartile_mean
from batchwright.web.columns import Columns, buckets, last_of_buckets, rounded, rows_per_bucket
from batchwright.web.figures import figures_of
from batchwright.web.picture import picture
from batchwright.web.record import RunRecord

MOST_EVALUATIONS = 40
MOST_RETURNS = 200
"""Returns shown per evaluation; more are thinned evenly in sorted order."""
MOST_EVENTS = 200
MOST_ADVICE = 100


def details(record: RunRecord) -> dict[str, Any]:
    """Everything of a run except its curves: plan, picture, advice, evaluations, events, videos, notes."""
    with record.lock:
        evaluations = [e for e in record.events if e.get("kind") == "evaluation" and isinstance(e.get("returns"), list)]
        others = [event for event in record.events if event["kind"] not in ("evaluation", "advice", "checkpoint")]
        return {
            "summary": record.summary(),
            "plan": plan_rows(record.plan),
            "warnings": _texts(record.plan.get("warnings")),
            "picture": picture(record.plan, _collected(record.columns)),
            "advice": [advice(e) for e in record.events if e["kind"] == "advice"][-MOST_ADVICE:],
            "evaluations": [_evaluation(event) for event in _thinned(evaluations, MOST_EVALUATIONS)],
            "evaluations_made": len(evaluations),
            "events": [_event(event) for event in others[-MOST_EVENTS:]],
            "checkpoints": sum(event["kind"] == "checkpoint" for event in record.events),
            "videos": record.videos(),
        }


def _collected(columns: Columns) -> tuple[int, int] | None:
    """The fewest and the most transitions that an iteration collected; None before the first."""
    if "transitions" not in columns.names() or columns.rows == 0:
        return None
    total = columns["transitions"]
    each = np.diff(total[np.isfinite(total)], prepend=0)
    return (int(each.min()), int(each.max())) if len(each) else None


def plan_rows(plan: Mapping[str, Any]) -> list[list[str]]:
    """Name, value, unit, source and reason of each number of a plan, as text."""
    quantities = plan.get("quantities")
    if not isinstance(quantities, dict):
        return []
    return [
        [str(name), _shown(q.get("value")), *(_text(q.get(part)) for part in ("unit", "source", "reason"))]
        for name, q in quantities.items()
        if isinstance(q, dict)
    ]


def curves(
    record: RunRecord,
    most_points: int,
    known: tuple[int, ...] | None = None,
    *,
    bands: bool = True,
    window: tuple[str, float, float] | None = None,
) -> dict[str, Any]:
    """The metrics of a run in buckets.

    `known` is what the client already has: (generation, metrics, rows per bucket, complete buckets). If it is still
    valid, only the buckets from `start` on are returned. `window` is a part of an axis, (axis, from, to): only its rows
    are divided into buckets, so that zooming in shows more detail.
    """
    with record.lock:
        columns, generation = record.columns, record.metrics.generation
        names, axes = columns.names(), columns.axes()
        first, end = _rows_of(window, axes, columns.rows)
        size = rows_per_bucket(end - first, most_points)
        start = known[3] if known is not None and known[:3] == (generation, len(names), size) and not window else 0
        first = min(first + start * size, end)
        answer: dict[str, Any] = {
            "generation": generation,
            "metrics": len(names),
            "size": size,
            "start": start,
            "whole": columns.rows // size,
            "rows": columns.rows,
            "read": record.metrics.offset / record.metrics.size if record.metrics.size else 1.0,
            "complete": record.metrics.is_complete,
            "axes": {name: rounded(last_of_buckets(axis[first:end], size), 10) for name, axis in axes.items()},
            "mean": {},
            "low": {},
            "high": {},
        }
        if first < end:
            for name in names:
                for part, values in buckets(columns[name][first:end], size).items():
                    if part == "mean" or bands:
                        answer[part][name] = rounded(values, 5)
        if start == 0:
            answer["figures"] = [figure.to_json() for figure in figures_of(names)]
        return answer


def _rows_of(window: tuple[str, float, float] | None, axes: Mapping[str, np.ndarray], rows: int) -> tuple[int, int]:
    """The rows inside a window and one on either side of it; all rows without a window."""
    if window is None or window[0] not in axes:
        return 0, rows
    first, end = np.searchsorted(axes[window[0]], window[1:])
    return max(0, int(first) - 1), min(rows, int(end) + 1)


def _evaluation(event: Mapping[str, Any]) -> dict[str, Any]:
    returns = sorted(value for value in event["returns"] if type(value) in (int, float) and abs(value) < 1e300)
    values = np.array(returns, dtype=np.float64)
    some = len(returns) > 0
    return {
        "iteration": _whole(event.get("iteration")),
        "episodes": len(event["returns"]),
        "returns": rounded(_thinned(returns, MOST_RETURNS)),
        "mean": float(values.mean()) if some else None,
        "median": float(np.median(values)) if some else None,
        "iqr": [float(value) for value in np.percentile(values, (25, 75))] if some else None,
        "iqm": float(interquartile_mean(values)) if some else None,
    }


def advice(event: Mapping[str, Any]) -> dict[str, Any]:
    """Advice as separate parts: cause and flags, which the message of the event repeats, are cut from the message."""
    finding, message = _text(event.get("finding")), _text(event.get("message"))
    return {
        "iteration": _whole(event.get("iteration")),
        "message": message.removeprefix(f"{finding}: ").split(" Likely cause: ")[0],
        "evidence": _evidence(event.get("evidence")),
        "finding": finding,
        **{name: _text(event.get(name)) for name in ("severity", "cause", "source")},
        "flags": _texts(event.get("flags")),
        "unix_seconds": event.get("unix_seconds"),
    }


def _evidence(value: Any) -> str:
    if not isinstance(value, dict):
        return _text(value)
    return ", ".join(f"{name} {part:.4g}" if type(part) is float else f"{name} {part}" for name, part in value.items())


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    time = event.get("unix_seconds")
    return {
        "kind": _text(event.get("kind")),
        "iteration": _whole(event.get("iteration")),
        "message": _text(event.get("message")),
        "unix_seconds": time if type(time) in (int, float) else None,
    }


def _thinned(values: list[Any], most: int) -> list[Any]:
    """At most `most` values at even distances, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _shown(value: Any) -> str:
    return show_value(value) if isinstance(value, int | float | str | bool) or value is None else _text(value)


def _text(value: Any) -> str:
    """A value as text; a damaged record may hold anything."""
    return value if isinstance(value, str) else "" if value is None else str(value)[:2000]


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in values] if isinstance(values, list) else []


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
