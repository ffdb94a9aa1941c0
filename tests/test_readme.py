"""The README's commands run as they are written, in a folder that holds what a fresh checkout holds after make demo."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from page_blocks import REPOSITORY, Shown, first_missing, shown_blocks, without_figures

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SECONDS_PER_COMMAND = 300
"""Far above what a command takes, so that only one that hangs is ended."""


def readme_commands() -> list[str]:
    """Every line of the README's bash blocks, `make` aside."""
    blocks = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [line for line in lines if not line.startswith("make ")]


def checkout(folder: Path) -> Path:
    """A folder in which the commands find what they name; what they write stays in it."""
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("docs", "examples"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_every_command_of_the_readme_exits_with_0(tmp_path: Path) -> None:
    commands = readme_commands()
    assert len(commands) > 10, "the README's bash blocks were not found"
    folder = checkout(tmp_path)
    printed: dict[str, list[str]] = {}
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_PER_COMMAND,
            check=False,
        )
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr, f"{command}\n{done.stderr[-2000:]}"
        printed[command.removeprefix(".venv/bin/batchwright ")] = done.stdout.splitlines()
    every = {without_figures(line) for lines in printed.values() for line in lines}
    for line in shown_lines():
        assert without_figures(line) in every, f"the README shows what no command prints:\n{line}"
    for one in shown_elsewhere():
        missing = first_missing(one.lines, printed[one.command])
        assert missing is None, f"{one.page} shows a line that `batchwright {one.command}` does not print:\n{missing}"


def shown_lines() -> list[str]:
    """The lines of the README's output blocks; those of refused plans are checked by test_docs_outputs.py."""
    blocks = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks if "$ batchwright plan" not in block for line in block.splitlines()]
    return [line for line in lines if line.strip() not in ("", "...") and not line.startswith("$ ")]


def shown_elsewhere() -> list[Shown]:
    """Outputs of the README's commands on other pages."""
    commands = {command.removeprefix(".venv/bin/batchwright ") for command in readme_commands()}
    found = [one for block in shown_blocks() for one in block if one.command in commands and one.page != "README.md"]
    return [one for one in found if not one.answers_at_once]


def test_other_pages_show_outputs_of_the_readme_too() -> None:
    assert {"docs/training/quickstart.md", "docs/training/repeatable.md"} <= {one.page for one in shown_elsewhere()}


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert targets
    missing = [target for target in targets if "://" not in target and not (REPOSITORY / target).exists()]
    assert missing == []


def test_the_readme_is_at_most_220_lines() -> None:
    assert len(README.splitlines()) <= 220
