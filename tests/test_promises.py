"""The page of promises names tests that exist: every row of its tables one."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
PAGE = (REPOSITORY / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| `(tests/[^`]+)` \|$", PAGE, re.MULTILINE)


def test_every_promise_names_a_test_that_exists() -> None:
    gone = []
    for _, name in ROWS:
        file, _, function = name.partition("::")
        path = REPOSITORY / file
        if not function or not path.is_file() or f"def {function}(" not in path.read_text(encoding="utf-8"):
            gone.append(name)
    assert gone == []


def test_no_promise_is_without_a_test_and_none_is_made_twice() -> None:
    tables = re.findall(r"^\| promise \| held by \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    assert len(lines) == len(ROWS) == len({promise for promise, _ in ROWS}) > 25
