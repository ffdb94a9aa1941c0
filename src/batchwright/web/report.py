"""The report of one or several runs: one HTML file that needs no connection."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.files import sweep_temporaries, write_atomically
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import checked_path, open_plain
from batchwright.core.seed_folder import is_seed_folder, seed_paths
from batchwright.tuning.tuning_ledger import is_tuning
from batchwright.web.assets import CHARTS, asset
from batchwright.web.describe import advice, curves, details, plan_rows
from batchwright.web.findings import findings_of
from batchwright.web.folder import Folder
from batchwright.web.groups import Group, group_runs
from batchwright.web.record import VIDEO_TYPES, RunRecord
from batchwright.web.tuning_report import tuning_data

POINTS = 256
MOST_VIDEO_BYTES = 8_000_000
"""For all videos of a report together; further videos are left out with a note."""
_HEAD_BYTES = 4096
_MARK = b"""<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-"""
"""What the head of every report has, those of earlier versions included."""
SCRIPTS = (*CHARTS, "report.js")


def write_report(runs: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Writes the report to `out`, by default `report.html` in the directory of a single run; returns the path.

    Runs that differ only in the seed are drawn as their median with a band. A folder of `train --seeds` stands for
    its runs.
    """
    if not runs:
        raise UserError("a report needs a run.", ["batchwright report RUN"])
    if any(is_tuning(run) for run in runs):
        return _write_tuning(runs, out)
    paths = [path for run in runs for path in (seed_paths(run) if is_seed_folder(run) else [run])]
    records = read_runs(paths)
    if out is None and len(runs) > 1:
        raise UserError(f"a report of {len(records)} runs needs an output file.", ["-o report.html"])
    return _write(report_html(records), runs[0], out)


def _write_tuning(runs: Sequence[str | Path], out: str | Path | None) -> Path:
    if len(runs) > 1:
        raise UserError("a tuning has a report of its own.", [f"batchwright report {runs[0]}"])
    found = tuning_data(checked_path(runs[0]))
    title = f"{found['env']}: tuning of {found['algo']}"
    return _write(_page({**_head(title), "runs": [], "groups": [], "tuning": found}), runs[0], out)


def _write(page: str, run: str | Path, out: str | Path | None) -> Path:
    target = RunDir(checked_path(run)).report_path if out is None else checked_path(out)
    if target.is_dir():
        raise UserError(f"{target} is a directory.", [f"-o {target / 'report.html'}"])
    _refuse_other_file(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_temporaries(target.parent, only=target.name)
        write_atomically(target, page.encode())
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}.", ["-o FILE in another folder"]) from error
    return target


def _refuse_other_file(target: Path) -> None:
    """Only a report of ours, or an empty file, is replaced; a link in its place is replaced itself, not followed."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{target} is no name of an HTML page.", [f"-o {target.with_name(target.name + '.html')}"])
    if not os.path.lexists(target) or target.is_symlink():
        return
    try:
        with os.fdopen(open_plain(target), "rb") as file:
            begin = file.read(_HEAD_BYTES)
    except (OSError, UserError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message
        raise UserError(f"{target} cannot be replaced: {reason}.", ["-o ANOTHER.html"]) from None
    if begin and _MARK not in begin:
        raise UserError(
            f"{target} exists and is not a report of Batchwright; it was left as it is.",
            ["-o ANOTHER.html", f"move {target} away"],
        )


def read_runs(paths: Sequence[str | Path]) -> list[RunRecord]:
    """The records of runs without duplicates; runs with the same name get their folders as prefix."""
    places = {checked_path(path).resolve(): path for path in paths}
    records = [read_run(path) for path in places.values()]
    if len({record.name for record in records}) < len(records):
        root = Path(os.path.commonpath([place.parent for place in places]))
        records = [_read(Folder(root), place.relative_to(root).as_posix()) for place in places]
    return records


def read_run(path: str | Path) -> RunRecord:
    """The whole record of a run; raises if the path is not a run directory."""
    given = checked_path(path)
    real = given.resolve()
    folder = Folder(real.parent)
    if not real.name or not folder.holds_run(real.name):
        RunDir.open(given)  # raises with the nearest runs
        raise UserError(f"{given} is not a run directory.", ["batchwright report RUN"])
    return _read(folder, real.name)


def _read(folder: Folder, name: str) -> RunRecord:
    record = RunRecord(folder, name)
    record.refresh()
    record.read_metrics()
    return record


def report_html(records: Sequence[RunRecord]) -> str:
    """The page about runs."""
    return _page(_data(records))


def _page(data: dict[str, Any]) -> str:
    """The page. Its content security policy allows only its own script and style, by their hashes."""
    style, script = asset("style.css"), "\n".join(asset(name) for name in SCRIPTS)
    # In JSON `<` occurs only inside strings, where \u003c is equivalent: no name can close the script element.
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "SCRIPT_HASH": _hash(script),
        "STYLE_HASH": _hash(style),
        "TITLE": html.escape(data["title"]),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": embedded,
    }
    pieces = asset("report.html").split("%")
    return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))


def _data(records: Sequence[RunRecord]) -> dict[str, Any]:
    several = len(records) > 1
    groups = group_runs(records) if several else []
    runs = [_run(record, with_curves=not several) for record in records]
    drawn = [group.to_json() for group in groups]
    sources = {score["of"] for group in drawn for score in group["scores"] if score["of"]}
    return {
        **_head(_title(records, groups) if several else f"{records[0].name}: report"),
        "runs": runs,
        "groups": drawn,
        "score": " or ".join(sorted(f"the mean of its {source}" for source in sources)) or "none was logged",
        "differing": _differing(groups),
    }


def _head(title: str) -> dict[str, str]:
    return {"title": title, "version": version("batchwright"), "written": f"{datetime.now():%Y-%m-%d %H:%M}"}


def _run(record: RunRecord, with_curves: bool) -> dict[str, Any]:
    found = details(record)
    found["embedded"] = []
    found["findings"] = [advice(finding) for finding in findings_of(record)]
    reported = {finding["finding"] for finding in found["findings"]}
    found["advice"] = [piece for piece in found["advice"] if piece["finding"] not in reported]
    if with_curves:
        found["curves"] = curves(record, POINTS)
        found["embedded"], left_out = _embedded(record, found["videos"])
        if left_out:
            found["summary"]["notes"].append(
                f"left out because they are too large for the report: {', '.join(left_out)}."
            )
    return found


def _embedded(record: RunRecord, files: list[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Videos as data URLs, and the names of those that are too large."""
    kept, left_out, room = [], [], MOST_VIDEO_BYTES
    for file in files:
        try:
            content = record.folder.read_file(f"{record.name}/{file}", room + 1)
        except OSError:
            continue
        if len(content) > room:
            left_out.append(file)
            continue
        room -= len(content)
        kind = VIDEO_TYPES[Path(file).suffix.lower()]
        kept.append({"file": file, "data": f"data:{kind};base64,{base64.b64encode(content).decode()}"})
    return kept, left_out


def _title(records: Sequence[RunRecord], groups: Sequence[Group]) -> str:
    envs = list(dict.fromkeys(str(record.config.get("env") or "?") for record in records))
    settings = "one setting" if len(groups) == 1 else f"{len(groups)} settings"
    return f"{', '.join(envs[:3])}{' and others' if len(envs) > 3 else ''}: {len(records)} runs of {settings}"


def _differing(groups: Sequence[Group]) -> dict[str, Any]:
    """The numbers in which the plans of the groups differ, one column per group."""
    plans = [{row[0]: row[1] for row in plan_rows(group.runs[0].plan)} for group in groups]
    names = [name for name in dict.fromkeys(n for plan in plans for n in plan) if name != "seed"]
    rows = [[name, *(plan.get(name, "-") for plan in plans)] for name in names]
    return {"labels": [group.label for group in groups], "rows": [row for row in rows if len(set(row[1:])) > 1]}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
