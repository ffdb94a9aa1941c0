"""Runs side by side: results, speed, and the numbers in which their plans differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from batchwright.config.schema import DATASET
from batchwright.planning.explain import show_value
from batchwright.planning.plan import Plan
from batchwright.runs.launch import open_run
from batchwright.watch.metric_log import read_metrics
from batchwright.watch.statistics import is_finite_number

LAST_SHARE = 0.1


def side_by_side(paths: list[str]) -> list[dict[str, Any]]:
    """One entry per run; `differs` holds the plan's numbers that are not the same in all of them."""
    opened = [open_run(path) for path in paths]
    names = {name for _, _, plan in opened for name in plan.quantities}
    differing = sorted(n for n in names if len({repr(plan.get(n)) for _, _, plan in opened}) > 1)
    rows = []
    for path, (run, resolved, plan) in zip(paths, opened, strict=True):
        records = read_metrics(run.metrics_path)
        rows.append(
            {
                "run": Path(path).name,
                "env": resolved.config.task.env,
                "algo": plan.algo,
                **_results(records, plan),
                "differs": {name: plan.get(name) for name in differing},
            }
        )
    return rows


def _results(records: list[dict[str, Any]], plan: Plan) -> dict[str, Any]:
    if plan.regime == DATASET:
        return _dataset_results(records, plan)
    returns, evaluations, speed = (
        [r[name] for r in records if is_finite_number(r.get(name))]
        for name in ("episode_return", "eval_mean", "steps_per_second")
    )
    late = returns[-max(1, int(len(returns) * LAST_SHARE)) :]
    steps = records[-1]["env_steps"] if records else 0
    return {
        "done": _share_done(records, steps, plan),
        "env_steps": steps,
        "last_training_return": float(np.mean(late)) if late else None,
        "best_evaluation": max(evaluations) if evaluations else None,
        "last_evaluation": evaluations[-1] if evaluations else None,
        "steps_per_second": float(np.median(speed)) if speed else None,
    }


def _dataset_results(records: list[dict[str, Any]], plan: Plan) -> dict[str, Any]:
    """Of training on recorded data: losses in the place of returns."""
    losses, speed = (
        [r[name] for r in records if is_finite_number(r.get(name))] for name in ("loss", "samples_per_second")
    )
    late = losses[-max(1, int(len(losses) * LAST_SHARE)) :]
    last = records[-1] if records else {}
    return {
        "done": _share_done(records, 0, plan),
        "updates": last.get("updates", 0),
        "samples": last.get("samples", 0),
        "last_loss": float(np.mean(late)) if late else None,
        "lowest_loss": min(losses) if losses else None,
        "samples_per_second": float(np.median(speed)) if speed else None,
    }


def _share_done(records: list[dict[str, Any]], steps: int, plan: Plan) -> float | None:
    if plan.get("iterations"):
        return float(len(records) / plan["iterations"])
    return min(1.0, steps / plan["total_steps"]) if plan.get("total_steps") else None


def to_text(rows: list[dict[str, Any]]) -> str:
    """A table with one column per run."""
    plain = [{k: v for k, v in row.items() if k != "differs"} | row["differs"] for row in rows]
    names = list(dict.fromkeys(name for row in plain for name in row))
    columns = [[_show(name, row.get(name)) for name in names] for row in plain]
    left = max(len(name) for name in names)
    widths = [max(len(cell) for cell in column) for column in columns]
    return "\n".join(
        f"{name:<{left}}  " + "  ".join(column[i].rjust(width) for column, width in zip(columns, widths, strict=True))
        for i, name in enumerate(names)
    )


def _show(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "done":
        return f"{value:.0%}"
    return f"{value:,.1f}" if isinstance(value, float) and abs(value) >= 1 else show_value(value)
