"""The README's commands run as they are written, in a folder that holds what a fresh checkout holds after make demo."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
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
    printed: set[str] = set()
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
        printed |= {without_figures(line) for line in done.stdout.splitlines()}
    for line in shown_lines():
        assert without_figures(line) in printed, f"the README shows what no command prints:\n{line}"


def shown_lines() -> list[str]:
    """The lines of the README's output blocks; those of refused plans are checked by test_docs_outputs.py."""
    blocks = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks if "$ batchwright plan" not in block for line in block.splitlines()]
    return [line for line in lines if line.strip() not in ("", "...") and not line.startswith("$ ")]


def without_figures(line: str) -> str:
    """A line without its numbers, which differ between machines, its plurals, and the blanks that align columns."""
    return re.sub(r"\s+|-{2,}", " ", re.sub(r"[-\d.,:%]+", "#", line).replace("episodes", "episode")).strip()


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert targets
    missing = [target for target in targets if "://" not in target and not (REPOSITORY / target).exists()]
    assert missing == []


def test_the_readme_is_at_most_220_lines() -> None:
    assert len(README.splitlines()) <= 220
