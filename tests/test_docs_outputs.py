"""What the pages show under a command is what the command prints, for commands that answer at once.

A line that is shown must be printed, in the order of the page; `...` stands for lines that are left out, and blanks
that align columns do not count. Lines about this machine's memory are left out.
"""

from __future__ import annotations

import re

import pytest

from page_blocks import REPOSITORY, shown_blocks
from run_batchwright import run_line

OF_THE_MACHINE = re.compile(r"^machine:|RAM|process_bytes|memory_bytes|shm")


def shown() -> list[tuple[str, str, list[str]]]:
    """(page, command, the lines shown under it) for every command of the pages that answers at once."""
    found = [one for block in shown_blocks() for one in block if one.answers_at_once]
    return [(one.page, one.command, list(one.lines)) for one in found]


def test_the_pages_show_many_outputs() -> None:
    assert len(shown()) > 30


@pytest.mark.parametrize(("page", "command", "lines"), shown(), ids=lambda part: part if isinstance(part, str) else "")
def test_what_a_page_shows_is_what_is_printed(
    page: str, command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    answer = run_line(command)
    missing = [_first_missing(lines, text.splitlines()) for text in (answer.out + answer.err, answer.err + answer.out)]
    assert None in missing, f"{page} shows a line that `batchwright {command}` does not print:\n{missing[0]}"


def _first_missing(lines: list[str], output: list[str]) -> str | None:
    """The first shown line that is not printed after those before it; None where there is none."""
    printed, at = [_plain(line) for line in output], 0
    for line in lines:
        if not line.strip() or line.strip() == "..." or OF_THE_MACHINE.search(line):
            continue
        if _plain(line) not in printed[at:]:
            return line
        at = printed.index(_plain(line), at) + 1
    return None


def _plain(line: str) -> str:
    line = re.sub(r"learner_threads \d+", "learner_threads", line)  # follows the cores of the machine
    return re.sub(r"[\s-]{2,}", " ", line.strip())
