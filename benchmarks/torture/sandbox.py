"""The folder that attacks happen in, and whether anything outside the attacked run has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

EXECUTED = "EXECUTED"
"""The file that a stranger's code would write."""


class Sandbox:
    """`victim` is the run under attack; `outside` holds what must not change; `cwd` is where commands are called."""

    def __init__(self, parent: Path | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="torture-", dir=parent)).resolve()
        self.outside, self.cwd = self.path / "outside", self.path / "cwd"
        self.attacked, self.pristine = self.path / "attacked", self.path / "pristine"
        self.victim = self.attacked / "run"
        for folder in (self.cwd, self.attacked, self.pristine):
            folder.mkdir()
        self.lay_out()

    def lay_out(self) -> None:
        """The files outside as they are meant to be; the working directory empty."""
        erase(self.outside)
        for name, content in {
            "precious.txt": b"years of work\n",
            "photos/2019/summer.jpg": b"\xff\xd8 not to be deleted",
            "photos/000000002/winter.jpg": b"\xff\xd8 nor this",
            "docs/thesis.tex": b"\\documentclass{book}\n",
            "bashrc": b"export EDITOR=vi\n",
            "metrics.jsonl": b'{"iteration": 0, "env_steps": 64}\n' * 3,
            "state.npz": b"PK\x05\x06" + bytes(18),
        }.items():
            path = self.outside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for entry in list(self.cwd.iterdir()):  # the folder itself stays: a process works in it
            erase(entry)
        self._before = self.state()

    def state(self) -> dict[str, str]:
        """Every name outside the attacked run, with its mode and its content; for pristine runs size and time."""
        found = {}
        for root in (self.outside, self.cwd):
            for path in sorted(root.rglob("*")):
                mode = path.lstat().st_mode
                content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
                found[str(path.relative_to(self.path))] = f"{mode:o} {content}"
        for path in sorted(self.pristine.rglob("*")):
            status = path.lstat()
            found[str(path.relative_to(self.path))] = f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns}"
        found |= {f"attacked/{entry.name}": "" for entry in os.scandir(self.attacked) if entry.name != "run"}
        return found

    def expect(self) -> None:
        """Takes the present state as the one that must stay."""
        self._before = self.state()

    def changes(self, but: str = "\0") -> list[str]:
        """What has changed outside since, names that begin with `but` aside; then the sandbox is laid out anew."""
        now = self.state()
        found = [name for name in sorted({*self._before, *now}) if self._before.get(name) != now.get(name)]
        if found:
            for entry in os.scandir(self.attacked):
                if entry.name != "run":
                    erase(Path(entry.path))
            pristine = [name for name in found if name.startswith("pristine/")]
            if pristine:
                raise SystemExit(f"an attack changed the runs that copies are made of: {pristine[:3]}")
            self.lay_out()
        return [name for name in found if not name.startswith(but)]

    def fresh_copy(self, name: str) -> Path:
        """The run under attack, a new copy of a pristine one."""
        erase(self.victim)
        shutil.copytree(self.pristine / name, self.victim, symlinks=True)
        return self.victim

    def remove(self) -> None:
        erase(self.path)


def erase(path: Path) -> None:
    """Removes a file or a folder, whatever permissions it has; links are removed, never followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, names, _ in os.walk(path):
        for name in [".", *names]:
            inner = Path(folder) / name
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)
