"""The commands of pages about everyday jobs run as they are written, in order, one folder per page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from run_batchwright import run_line

REPOSITORY = Path(__file__).parent.parent
PAGES = ("training/go-on.md", "training/callbacks.md", "training/export.md")


def commands(page: str) -> list[str]:
    """Every line of a page's bash blocks that calls batchwright."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("batchwright ")]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_exits_with_0(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPOSITORY / "examples", "examples")
    found = commands(page)
    assert len(found) > 1, "the page's bash blocks were not found"
    for command in found:
        answer = run_line(command.removeprefix("batchwright "))
        assert answer.code == 0, f"{command}\n{answer.err[-2000:]}"
