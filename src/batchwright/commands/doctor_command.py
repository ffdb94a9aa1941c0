"""The command doctor: problems of a run, and flags to try."""

from __future__ import annotations

import json
import time

from batchwright.commands.parser import Parser, whole
from batchwright.core.errors import UserError


def doctor(words: list[str]) -> int:
    """`batchwright doctor RUN`, `batchwright doctor LOG --from sb3`, `batchwright doctor --follow LOG`,
    `batchwright doctor --checklist`."""
    parser = Parser(
        prog="batchwright doctor",
        description="Reports problems of a run: evidence, likely cause, flags to try.",
        allow_abbrev=False,
    )
    parser.add_argument("run", nargs="?", help="a run directory, or a log of another trainer")
    parser.add_argument(
        "--from",
        dest="trainer",
        choices=("sb3", "cleanrl", "rl_games", "rsl_rl"),
        help="the trainer whose log it is; recognised by its metrics where not stated",
    )
    parser.add_argument("--follow", action="store_true", help="read the log again while it grows; print what is new")
    parser.add_argument(
        "--idle-seconds", metavar="N", default="600", help="with --follow: leave after so long without a new update"
    )
    parser.add_argument("--checklist", action="store_true", help="print the triage on one page")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    stated = parser.read(words)
    if stated["checklist"]:
        from batchwright.doctor.checklist import CHECKLIST

        print(CHECKLIST, end="")
        return 0
    if stated["run"] is None:
        raise UserError("doctor needs a run.", ["batchwright doctor RUN", "batchwright doctor --checklist"])

    idle_seconds = whole("--idle-seconds", stated["idle_seconds"], 1)
    if stated["follow"]:
        if stated["json"]:
            raise UserError("--follow prints lines, not JSON.", ["leave out --json", "leave out --follow"])
        return follow(stated["run"], stated["trainer"], idle_seconds)

    from batchwright.api import diagnose

    diagnosis = diagnose(stated["run"], stated["trainer"])
    print(json.dumps(diagnosis.to_dict(), indent=2) if stated["json"] else str(diagnosis))
    return 0


def follow(run: str, trainer: str | None, idle_seconds: float, poll_seconds: float = 2.0) -> int:
    """Prints findings of a growing log once, and again when they are worse; leaves when it has stopped growing."""
    from batchwright.api import diagnose
    from batchwright.doctor.diagnosis import Diagnosis
    from batchwright.doctor.finding import Finding
    from batchwright.doctor.text import one_line
    from batchwright.doctor.triage import unexplained, worsened

    reported: dict[str, Finding] = {}
    latest: Diagnosis | None = None
    changed_at = time.monotonic()
    while time.monotonic() - changed_at < idle_seconds:
        try:
            found = diagnose(run, trainer)
        except UserError:
            if time.monotonic() - changed_at + poll_seconds >= idle_seconds:
                raise  # it never came
            time.sleep(poll_seconds)
            continue
        if latest is None or found.iterations != latest.iterations:
            latest, changed_at = found, time.monotonic()
            for finding in unexplained(found.findings):
                if worsened(finding, reported.get(finding.name)):
                    reported[finding.name] = finding
                    print(f"doctor: update {found.iterations}: {one_line(finding)}", flush=True)
        time.sleep(poll_seconds)
    print(f"{run}: no new update for {idle_seconds:g} s", flush=True)
    return 0
