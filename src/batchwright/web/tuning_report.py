"""A tuning as the report and the live page show it: phases, settings, what each number did, verdict and cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.tuning.settings_text import show_setting
from batchwright.tuning.tuning_ledger import DECISION, FORECAST, HEADER, LEDGER_FILE, UNIT
from batchwright.watch.lines import RETURN
from batchwright.web.folder import Folder
from batchwright.web.groups import median_curves
from batchwright.web.record import RunRecord
from batchwright.web.tuning_effects import effects, interactions, show_number

JUDGING, SKIPPED = "judging", "skipped"
MOST_CURVES = 8
"""Settings of a phase whose curves are drawn: the best ones."""
MOST_AXES = 11
"""Numbers that fit beside each other with the score."""
LARGEST_LEDGER_BYTES = 64_000_000
OTHER_TITLES = {
    "default": "the default",
    "screening": "bold changes of several numbers at once",
    "search": "joint search",
    "confirm": "the best with more seeds",
    JUDGING: "judging on fresh seeds",
}
Line = Mapping[str, Any]
RecordOf = Callable[[str], RunRecord]


def tuning_data(path: Path) -> dict[str, Any]:
    """What the report draws of the tuning in a folder, finished or not."""
    folder = Folder(path.parent)

    def read(name: str) -> RunRecord:
        record = RunRecord(folder, name)
        record.refresh()
        record.read_metrics()
        return record

    return describe_tuning(folder, path.name, read)


def describe_tuning(folder: Folder, name: str, record_of: RecordOf) -> dict[str, Any]:
    """The same for a tuning by its name in a folder of runs; a damaged ledger is refused."""
    try:
        return _describe(read_tuning(folder, name), lambda key: record_of(f"{name}/units/{key}"))
    except (KeyError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise UserError(f"the ledger of {name} is damaged ({type(error).__name__}).", ["look at its units"]) from None


def read_tuning(folder: Folder, name: str) -> list[dict[str, Any]]:
    """The lines of a ledger; those that cannot be read are passed over."""
    lines = []
    for text in folder.read_file(f"{name}/{LEDGER_FILE}", LARGEST_LEDGER_BYTES).splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("kind"), str):
            lines.append(line)
    return lines


def tuning_summary(lines: Sequence[Line]) -> dict[str, Any]:
    """One row of a list of tunings."""
    header: Line = next((line for line in lines if line["kind"] == HEADER), {})
    expected: Line = next((line for line in lines if line["kind"] == FORECAST), {})
    units = [line for line in lines if line["kind"] == UNIT]
    final: Line = next((line for line in lines if line["kind"] == DECISION and line.get("phase") == JUDGING), {})
    winner = final.get("winner")
    return {
        "env": str(header.get("env", "?")),
        "algo": str(header.get("algo", "?")),
        "units": len(units),
        "most_units": expected.get("units"),
        "phase": str(units[-1].get("phase")) if units else "",
        "finished": bool(final),
        "winner": show_setting(winner) if isinstance(winner, dict) else None,
    }


def _describe(lines: Sequence[Line], record_of: RecordOf) -> dict[str, Any]:
    header = next(line for line in lines if line["kind"] == HEADER)
    units = sorted((line for line in lines if line["kind"] == UNIT), key=lambda unit: int(unit["unit"]))
    decisions = {str(line.get("phase")): line for line in lines if line["kind"] == DECISION}
    expected: Line = next((line for line in lines if line["kind"] == FORECAST), {})
    final, defaults = decisions.get(JUDGING), header["defaults"]
    scored = [unit for unit in units if unit["phase"] != JUDGING and unit["score"] is not None]
    phases = [
        _phase(record_of, phase, units, decisions, header, expected) for phase in _phase_names(units, header, expected)
    ]
    return {
        "env": str(header["env"]),
        "algo": str(header["algo"]),
        "unit_steps": header["unit_steps"],
        "objective": str(header["objective"]),
        "verdict": None if final is None else _verdict(final),
        "phases": phases,
        "settings": _settings(units, defaults),
        "axes": _axes(units, scored, defaults),
        "edges": [text for phase in phases for text in phase["edges"]],
        "effects": effects(scored, defaults),
        "interactions": interactions(scored, defaults),
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


def _phase_names(units: Sequence[Line], header: Line, expected: Line) -> list[str]:
    """Phases in the order in which they are played, those that have not begun too."""
    planned = expected.get("units_by_phase") or {}
    return list(dict.fromkeys([*planned, *(str(unit["phase"]) for unit in units)]))


def _phase(
    record_of: RecordOf,
    phase: str,
    units: Sequence[Line],
    decisions: Mapping[str, Line],
    header: Line,
    expected: Line,
) -> dict[str, Any]:
    by_setting: dict[str, list[Line]] = {}
    for unit in units:
        if unit["phase"] == phase:
            by_setting.setdefault(show_setting(unit["setting"]), []).append(unit)
    means = {label: _mean(lines) for label, lines in by_setting.items()}
    ranked = sorted(by_setting, key=lambda label: (means[label] is None, -(means[label] or 0.0)))
    titles = {entry["letter"]: entry["title"] for entry in header["space"]}
    decision = decisions.get(phase, {})
    count, planned = sum(map(len, by_setting.values())), (expected.get("units_by_phase") or {}).get(phase)
    return {
        "letter": phase,
        "title": f"{phase}: {titles[phase]}" if phase in titles else OTHER_TITLES.get(phase, phase),
        "units": count,
        "most_units": None if planned is None else max(count, planned),  # units that others left may be spent here
        "decided": phase in decisions,
        "best": show_setting(decision["best"]) if "best" in decision else None,
        "seen": [_seen(step) for step in decision.get("seen", [])] + _screened(decision),
        "edges": [_edge(name, header["defaults"][name], units) for name in decision.get("edges", [])],
        "rows": [
            [label, means[label], [line["score"] for line in by_setting[label]], str(by_setting[label][0]["status"])]
            for label in ranked
        ],
        "curves": [
            {"label": label, "curves": _curves(record_of, by_setting[label])}
            for label in ranked[:MOST_CURVES]
            if means[label] is not None
        ],
    }


def _seen(step: Line) -> str:
    shape = {"swings": "returns swing", "crawls": "learning crawls", "steady": "the curve levels off"}
    size, following = step["rollout_steps"], step["next"]
    sizes = following if isinstance(following, list) else [] if following is None else [following]
    then = f"{' and '.join(map(str, sizes))} tried" if sizes else "kept"
    return f"rollout of {size} steps: {shape.get(str(step['curve']), 'no curve')}, {then}"


def _screened(decision: Line) -> list[str]:
    """What a screening saw of each number: by how many ranks its settings are above the others."""
    return [
        f"{show_setting({name: decision['bold'][name]})}: {effect:+.1f} ranks"
        for name, effect in decision.get("effects", {}).items()
    ]


def _edge(name: str, default: Any, units: Sequence[Line]) -> str:
    tried = [unit["setting"].get(name, default) for unit in units if unit["phase"] != JUDGING]
    return (
        f"the best {name} lies at the edge of what was tried ({min(tried):g} to {max(tried):g}): "
        "a better one may lie beyond it"
    )


def _mean(lines: Sequence[Line]) -> float | None:
    scores = [line["score"] for line in lines]
    return None if None in scores or not scores else float(np.mean(scores))


def _curves(record_of: RecordOf, lines: Sequence[Line]) -> dict[str, Any]:
    """The median training return of a setting's units over steps."""
    return median_curves([record_of(str(line["key"])) for line in lines], only=[RETURN])


def _axes(units: Sequence[Line], scored: Sequence[Line], defaults: Line) -> list[str]:
    """Numbers of the parallel coordinates, in the order of the phases: those whose values moved the mean score most."""
    varied = [str(name) for name in defaults if any(name in unit["setting"] for unit in units)]
    moved = [effect["name"] for effect in effects(scored, defaults)]
    most = {*(moved[:MOST_AXES] if len(varied) > MOST_AXES else varied)}
    return [name for name in varied if name in most]


def _settings(units: Sequence[Line], defaults: Line) -> list[dict[str, Any]]:
    """Every setting that was tried while tuning, in the order of its first unit, with all its numbers."""
    groups: dict[str, list[Line]] = {}
    for unit in units:
        if unit["phase"] != JUDGING and unit["status"] != SKIPPED:
            groups.setdefault(show_setting(unit["setting"]), []).append(unit)
    found = []
    for label, lines in groups.items():
        numbers = {**defaults, **lines[0]["setting"]}
        plain = {
            name: value if isinstance(value, (int, float)) and not isinstance(value, bool) else show_number(value)
            for name, value in numbers.items()
        }
        found.append({"label": label, "phase": str(lines[0]["phase"]), "values": plain, "score": _mean(lines)})
    return found


def _cost(units: Sequence[Line], expected: Line) -> dict[str, Any]:
    done = [unit for unit in units if unit["status"] != SKIPPED]
    return {
        "units": len(done),
        "skipped": len(units) - len(done),
        "failed": sum(unit["score"] is None for unit in done),
        "env_steps": sum(unit["env_steps"] for unit in units),
        "seconds": round(sum(unit["seconds"] for unit in units) / int(expected.get("workers", 1)), 1),
        "expected": {name: expected.get(name) for name in ("units", "steps", "seconds", "within")},
    }
