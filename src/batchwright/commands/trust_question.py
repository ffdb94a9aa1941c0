"""Asks whether the code that a stranger's run names may be run."""

from __future__ import annotations

import sys

from batchwright.commands.parser import Parser


def add_trust(parser: Parser) -> None:
    parser.add_argument(
        "--trust", action="store_true", help="run the code that the run names, though you did not make the run here"
    )


def may_run_code(run: str, trust: bool) -> bool:
    """Whether the user agrees to run the code of a run that was not made here: by --trust, or asked on a terminal.

    False without a terminal; what needs the code then refuses.
    """
    from batchwright.api import names_strange_code

    if trust or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return trust
    env = names_strange_code(run)
    if env is None:
        return False
    print(
        f"{run} names code of its own, {env!r}, and was not made here by you.\n"
        "Importing it runs whatever its author wrote. Run it? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
