"""The command doctor: problems of a run, and flags to try."""

from __future__ import annotations

import json

from batchwright.commands.parser import Parser
from batchwright.core.errors import UserError


def doctor(words: list[str]) -> int:
    """`batchwright doctor RUN`, `batchwright doctor LOG --from sb3`, `batchwright doctor --checklist`."""
    parser = Parser(
        prog="batchwright doctor",
        description="Reports problems of a run: evidence, likely cause, flags to try.",
        allow_abbrev=False,
    )
    parser.add_argument("run", nargs="?", help="a run directory, or a log of another trainer")
    parser.add_argument(
        "--from",
        dest="trainer",
        choices=("sb3", "cleanrl", "rl_games"),
        help="the trainer whose log it is; recognised by its metrics where not stated",
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

    from batchwright.api import diagnose

    diagnosis = diagnose(stated["run"], stated["trainer"])
    print(json.dumps(diagnosis.to_dict(), indent=2) if stated["json"] else str(diagnosis))
    return 0
