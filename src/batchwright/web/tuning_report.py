"""The report of a tuning: its verdict, every setting by phase, what each number did, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.tuning.settings_text import show_setting
from batchwright.tuning.tuning_ledger import DECISION, FORECAST, HEADER, LEDGER_FILE, UNIT, read_ledger
from batchwright.watch.lines import RETURN
from batchwright.web.figures import figures_of
from batchwright.web.folder import Folder
from batchwright.web.groups import median_curves
from batchwright.web.record import RunRecord

JUDGING = "judging"
MOST_CURVES = 8
"""Settings of a phase whose curves are drawn: the best ones."""
Line = Mapping[str, Any]


def tuning_data(folder: Path) -> dict[str, Any]:
    """What the page draws of a tuning, finished or not; all of it comes from the ledger and the units' records."""
    lines = read_ledger(folder / LEDGER_FILE)
    header = next((line for line in lines if line["kind"] == HEADER), {})
    units = sorted((line for line in lines if line["kind"] == UNIT), key=lambda unit: int(unit["unit"]))
    decisions = {str(line.get("phase")): line for line in lines if line["kind"] == DECISION}
    expected = next((line for line in lines if line["kind"] == FORECAST), {})
    final = decisions.get(JUDGING)
    phases = [_phase(folder, phase, units, decisions, header) for phase in dict.fromkeys(u["phase"] for u in units)]
    return {
        "env": str(header.get("env", "?")),
        "algo": str(header.get("algo", "?")),
        "unit_steps": header.get("unit_steps"),
        "objective": str(header.get("objective", "")),
        "verdict": None if final is None else _verdict(final),
        "phases": phases,
        "effects": effects(units, header),
        "cost": _cost(units, expected),
        "failed": [
            [show_setting(unit["setting"]), str(unit["seed"]), unit["status"], str(unit["reason"])]
            for unit in units
            if unit["score"] is None
        ],
    }


def _verdict(final: Line) -> dict[str, Any]:
    rows = [{**row, "label": show_setting(row["setting"])} for row in final["rows"]]
    winner = final["winner"]
    return {"winner": None if winner is None else show_setting(winner), "reason": final["reason"], "rows": rows}


def _phase(
    folder: Path, phase: str, units: Sequence[Line], decisions: Mapping[str, Line], header: Line
) -> dict[str, Any]:
    by_setting: dict[str, list[Line]] = {}
    for unit in units:
        if unit["phase"] == phase:
            by_setting.setdefault(show_setting(unit["setting"]), []).append(unit)
    means = {label: _mean(lines) for label, lines in by_setting.items()}
    ranked = sorted(by_setting, key=lambda label: (means[label] is None, -(means[label] or 0.0)))
    titles = {entry["letter"]: entry["title"] for entry in header.get("space", [])}
    decision = decisions.get(phase, {})
    return {
        "letter": phase,
        "title": f"{phase}: {titles[phase]}" if phase in titles else phase,
        "best": show_setting(decision["best"]) if "best" in decision else None,
        "edges": [_edge(name, header) for name in decision.get("edges", [])],
        "rows": [[label, means[label], len(by_setting[label])] for label in ranked],
        "curves": [
            {"label": label, "curves": _curves(folder, by_setting[label])}
            for label in ranked[:MOST_CURVES]
            if means[label] is not None
        ],
    }


def _edge(name: str, header: Line) -> str:
    values = next(a["values"] for p in header["space"] for a in p["axes"] if a["name"] == name)
    return f"the best {name} lies at the edge of what was tried ({values[0]:g} to {values[-1]:g}): try values beyond it"


def _mean(lines: Sequence[Line]) -> float | None:
    scores = [line["score"] for line in lines]
    return None if None in scores or not scores else float(np.mean(scores))


def _curves(folder: Path, lines: Sequence[Line]) -> dict[str, Any]:
    """The median training return of a setting's units over steps."""
    records = []
    for line in lines:
        record = RunRecord(Folder(folder), f"units/{line['key']}")
        record.refresh()
        record.read_metrics()
        records.append(record)
    found = median_curves(records)
    kept = {side: {RETURN: found[side][RETURN]} for side in ("mean", "low", "high") if RETURN in found[side]}
    figures = [figure.to_json() for figure in figures_of([RETURN])]
    return {**found, **{side: kept.get(side, {}) for side in ("mean", "low", "high")}, "figures": figures}


def effects(units: Sequence[Line], header: Line) -> list[dict[str, Any]]:
    """For each tuned number and each of its values: settings, mean score and spread over all that had it."""
    tuned = [unit for unit in units if unit["phase"] != JUDGING and unit["score"] is not None]
    found = []
    for name, default in header.get("defaults", {}).items():
        by_value: dict[Any, list[float]] = {}
        for unit in tuned:
            by_value.setdefault(unit["setting"].get(name, default), []).append(unit["score"])
        if len(by_value) > 1:
            ordered = sorted(by_value.items(), key=lambda pair: (str(type(pair[0])), pair[0]))
            means = [float(np.mean(scores)) for _, scores in ordered]
            rows = [
                [str(value), mean, float(np.min(scores)), float(np.max(scores)), len(scores)]
                for (value, scores), mean in zip(ordered, means, strict=True)
            ]
            found.append({"name": name, "default": str(default), "rows": rows, "range": max(means) - min(means)})
    return sorted(found, key=lambda effect: -effect["range"])


def _cost(units: Sequence[Line], expected: Line) -> dict[str, Any]:
    done = [unit for unit in units if unit["status"] != "skipped"]
    return {
        "units": len(done),
        "skipped": len(units) - len(done),
        "failed": sum(unit["score"] is None for unit in done),
        "env_steps": sum(unit["env_steps"] for unit in units),
        "seconds": round(sum(unit["seconds"] for unit in units) / int(expected.get("workers", 1)), 1),
        "expected": {name: expected.get(name) for name in ("units", "steps", "seconds", "within")},
    }
