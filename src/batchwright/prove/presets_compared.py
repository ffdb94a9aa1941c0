"""Presets trained side by side at equal data over several seeds: one table of their results."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from batchwright.api import prepare
from batchwright.config.presets import NO_PRESET, read_preset
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RUNS, run_name
from batchwright.planning.quantity import counted
from batchwright.regimes import make_learner
from batchwright.runs.launch import continue_run, open_run
from batchwright.runs.recorder import OutputOptions
from batchwright.runs.start_state import StartOptions
from batchwright.watch.metric_log import read_metrics

TOTAL_STEPS = 50_000
EVAL_EPISODES = 20


def compare_presets(
    env: str,
    presets: list[str],
    seeds: int,
    folder: str | Path | None,
    on_message: Callable[[str], None],
    **settings: Any,
) -> dict[str, Any]:
    """{"env", "total_steps", "seeds", "folder", "presets": [one entry each]}; every run gets the same steps."""
    if len(presets) < 2 or len(set(presets)) < len(presets):
        raise UserError("--presets needs two or more different presets.", ["--presets balanced debugging"])
    if settings.get("total_episodes") is not None:
        raise UserError(
            "equal episodes are not equal data: a better policy plays longer ones, or shorter.",
            [f"--total-steps {TOTAL_STEPS}"],
        )
    if settings.get("processes") is not None:
        raise UserError("--presets trains many runs, each in one process.", ["leave out --processes"])
    for name in presets:
        if name != NO_PRESET:
            read_preset(name)
    first_seed = int(settings.pop("seed", None) or 0)
    stated: dict[str, Any] = {"total_steps": TOTAL_STEPS, "eval_every": 0, "eval_episodes": EVAL_EPISODES}
    stated |= {name: value for name, value in settings.items() if value is not None}
    place = _folder(env, folder)
    found = []
    for name in presets:
        runs = []
        for seed in range(first_seed, first_seed + seeds):
            path = prepare(env, preset=name, run_dir=place / f"{name}-s{seed}", quiet=True, seed=seed, **stated)
            result = continue_run(
                path, make_learner, OutputOptions(quiet=True, stream=io.StringIO()), StartOptions(trust=True)
            )
            runs.append(_one(path, seed, result.evaluation["mean"], result.seconds))
            on_message(
                f"{name}, seed {seed}: return {runs[-1]['return']:,.1f}, {runs[-1]['transitions']:,} transitions"
            )
        found.append({"preset": name, **_summary(runs), "runs": runs})
    steps = open_run(path)[2]["total_steps"]
    return {"env": env, "total_steps": steps, "seeds": seeds, "folder": str(place), "presets": found}


def _folder(env: str, folder: str | Path | None) -> Path:
    place = Path(folder) if folder else RUNS / f"compare-{run_name(env, 'presets', 0)}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        place.mkdir(parents=True, exist_ok=False)
    except OSError as error:
        raise UserError(f"{place} cannot be made: {error.strerror}.", ["another --run-dir"]) from None
    return place


def _one(path: Path, seed: int, evaluation: float, seconds: float) -> dict[str, Any]:
    records = read_metrics(path / "metrics.jsonl")
    last = records[-1]
    return {
        "run": str(path),
        "seed": seed,
        "return": evaluation,
        "episodes": last["episodes_total"],
        "transitions": last["transitions"],
        "updates": last["updates_total"],
        "surplus_steps": sum(record.get("surplus_steps", 0) for record in records),
        "seconds": seconds,
    }


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over seeds, and the spread of the return."""
    returns = [run["return"] for run in runs]
    names = ("return", "transitions", "episodes", "updates", "surplus_steps", "seconds")
    medians = {name: statistics.median(run[name] for run in runs) for name in names}
    return medians | {"return_low": min(returns), "return_high": max(returns)}


def to_text(report: dict[str, Any]) -> str:
    """One row per preset."""
    head = ("preset", "return", "low", "high", "transitions", "episodes", "updates", "surplus steps", "seconds")
    names = ("return", "return_low", "return_high", "transitions", "episodes", "updates", "surplus_steps", "seconds")
    digits = (1, 1, 1, 0, 0, 0, 0, 1)
    rows = [
        [row["preset"], *(f"{row[name]:,.{places}f}" for name, places in zip(names, digits, strict=True))]
        for row in report["presets"]
    ]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True))])
        for row in ([*head], *rows)
    ]
    title = f"{report['env']}: {report['total_steps']:,} steps each, medians over {counted(report['seeds'], 'seed')}"
    return "\n".join([title, "", *lines, "", f"runs: {report['folder']}"])
