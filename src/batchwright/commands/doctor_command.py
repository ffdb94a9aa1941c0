"""The command doctor: problems of a run, and flags to try."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from batchwright.commands.parser import Parser, whole
from batchwright.commands.trust_question import add_trust, may_run_code
from batchwright.core.errors import UserError

if TYPE_CHECKING:
    from batchwright.doctor.diagnosis import Diagnosis


def doctor(words: list[str]) -> int:
    """`batchwright doctor RUN [--try]`, `batchwright doctor LOG --from sb3`, `batchwright doctor --follow LOG`,
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
    parser.add_argument(
        "--try", dest="tries", action="store_true", help="train again with each remedy, and report which one helped"
    )
    parser.add_argument(
        "--try-share", metavar="X", default="0.5", help="with --try: the share of the run's steps that each is given"
    )
    parser.add_argument("--try-most", metavar="N", default="3", help="with --try: remedies at most")
    add_trust(parser)
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
    if stated["tries"]:
        return show_trials(stated, diagnosis)
    print(json.dumps(diagnosis.to_dict(), indent=2) if stated["json"] else str(diagnosis))
    return 0


def share_of(flag: str, text: str) -> float:
    """A number above 0 and up to 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise UserError(f"{flag} {text} is not a share of the run.", [f"{flag} 0.5"])
    return value


def show_trials(stated: dict[str, Any], diagnosis: Diagnosis) -> int:
    """The findings, then what each remedy came to."""
    if stated["trainer"] is not None:
        raise UserError("--try trains with Batchwright: a log of another trainer cannot be tried.", ["leave out --try"])
    share, most = share_of("--try-share", stated["try_share"]), whole("--try-most", stated["try_most"], 1)

    from batchwright.api import try_remedies
    from batchwright.tuning.remedy_trials import table

    trust = may_run_code(stated["run"], stated["trust"])
    if not stated["json"]:
        print(diagnosis, flush=True)
        print()
    found = try_remedies(stated["run"], share=share, most=most, trust=trust, quiet=stated["json"])
    print(json.dumps(diagnosis.to_dict() | found.to_dict(), indent=2) if stated["json"] else table(found))
    return 0


def follow(run: str, trainer: str | None, idle_seconds: float, poll_seconds: float = 2.0) -> int:
    """Prints findings of a growing log once, and again when they are worse; leaves when it has stopped growing."""
    from batchwright.api import diagnose
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
