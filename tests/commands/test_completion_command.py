"""The shell completes commands, and the flags of each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from run_batchwright import refusal, run


def complete(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    program = folder / "batchwright"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m batchwright.cli "$@"\n')
    program.chmod(0o755)
    typed = " ".join(f"'{word}'" for word in (str(program), *words))
    script = run("completion", "bash").out + f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _batchwright\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    assert complete(tmp_path, "ex") == ["export"]
    assert complete(tmp_path, "export", "--t") == ["--to", "--trust"]


def test_another_shell_is_refused() -> None:
    assert "batchwright completion zsh" in refusal("completion zshh").err
