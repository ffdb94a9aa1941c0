"""The directory of one run: its files, its creation, and the lock of its writer."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from batchwright.core.errors import UserError, did_you_mean
from batchwright.core.files import explain_full_disk, remove_folder, sweep_temporaries
from batchwright.core.safe_open import checked_path, names_in, open_plain

RUNS = Path("runs")
FOREIGN_JOB = "rl_games.json"
"""In a run directory that rl_games trains, not we."""
_LOCK = ".lock"
_held: set[Path] = set()  # a POSIX lock does not exclude its own process; this does
_changing_held = threading.Lock()
_locked_last: list[Path] = []
_PARTIAL_CHECKPOINT = re.compile(r"\.[0-9]{9,}\.partial")


@dataclass(frozen=True)
class RunDir:
    """A run directory; made by `create`, found again by `open`."""

    path: Path

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def plan_path(self) -> Path:
        return self.path / "plan.json"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def episodes_path(self) -> Path:
        return self.path / "episodes.jsonl"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def checkpoints(self) -> Path:
        """A folder; made by the first checkpoint."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """A folder with the checkpoint of the best evaluation; made by the first evaluation."""
        return self.path / "best"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    @property
    def dumps(self) -> Path:
        """A folder for what a guard caught, to be replayed; made by the first dump."""
        return self.path / "dumps"

    @property
    def lock_path(self) -> Path:
        return self.path / _LOCK

    @property
    def is_run(self) -> bool:
        """Whether the files of a run are there; a path that the system cannot take is no run."""
        try:
            return self.config_path.is_file() and self.plan_path.is_file()
        except (OSError, ValueError):
            return False

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def create(
        cls, path: str | Path | None, name_hint: str, *, root: Path = RUNS, now: datetime | None = None
    ) -> RunDir:
        """A new, empty run directory: at `path`, or `root/<name_hint>-<date>-<time>[-k]`; see `run_name`."""
        if path is None:
            return _create_named(root, f"{name_hint}-{(now or datetime.now()):%Y%m%d-%H%M%S}")
        run = cls.refuse_used(path)
        with _explain_refusal(run.path):
            run.path.mkdir(parents=True, exist_ok=True)
        return run

    @classmethod
    def refuse_used(cls, path: str | Path) -> RunDir:
        """A run directory that may be created; one that is in use is refused."""
        run = cls(checked_path(path))
        if run.path.exists() or run.path.is_symlink():
            _refuse_used(run)
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunDir:
        """An existing run; a path that is none is refused, with the nearest runs as fixes."""
        run = cls(checked_path(path))
        with _explain_refusal(run.path):  # a folder that may not be read
            if run.is_run:
                return run
            wrong = _what_is_wrong(run)
        fixes = _nearest_runs(run.path)
        if not fixes and run.config_path.is_file():
            fixes = [f"batchwright train ENV --config {run.config_path} --run-dir ANOTHER"]
        raise UserError(f"{run.path} is not a run directory: {wrong}.", fixes)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other writers out of this run; freed when the process ends, however it ends.

        A POSIX lock, because forked environment workers do not inherit it: one that outlives its trainer holds no lock.
        Its holder removes what writers that were killed left half-written.
        """
        import fcntl  # not on Windows, where plans are made but nothing is trained

        key = self.path.resolve()
        with _changing_held:
            if key in _held:
                raise UserError(f"this process already trains into {self.path}.", ["--run-dir another directory"])
            _held.add(key)
        try:
            with _explain_refusal(self.path):
                handle = open_plain(self.path / _LOCK, os.O_RDWR | os.O_CREAT)
            try:
                try:
                    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise _refuse_lock(self.path, handle, error) from error
                _sign(handle)
                with _explain_refusal(self.path):
                    self._sweep()
                _locked_last[:] = [key]
                yield
            finally:
                os.close(handle)
        finally:
            _held.discard(key)

    def _sweep(self) -> None:
        """Removes temporary files and partial checkpoints of writers that were killed."""
        folders = ((self.path, 0), (self.checkpoints, 1), (self.checkpoints / "shared", 2), (self.best, 1))
        for folder, below in folders:
            sweep_temporaries(folder, below)
        for folder in (self.checkpoints, self.best):
            for name in names_in(folder, 1):
                if _PARTIAL_CHECKPOINT.fullmatch(name):
                    remove_folder(folder / name, 2)

    def is_locked(self) -> bool | None:
        """Whether a process is training into this run; None where the system cannot answer. Takes no lock itself."""
        if self.path.resolve() in _held:
            return True
        return _is_locked(self.path / _LOCK)


def locked_last() -> Path | None:
    """The run that this process wrote into last: where the traceback of an unexpected error belongs."""
    return _locked_last[-1] if _locked_last else None


def run_name(env: str, algo: str, seed: int) -> str:
    """`<env>-<algo>-s<seed>` with an environment name that is safe as a part of a folder's name."""
    short = env.rsplit("/", 1)[-1] if ".py:" in env else env
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", short).strip("-.")[:80].rstrip("-.")
    return f"{safe or 'env'}-{algo}-s{seed}"


def find_runs(folder: Path) -> list[RunDir]:
    """The runs that lie directly in a folder, the newest first; empty where it cannot be read."""
    try:
        runs = [RunDir(path) for path in folder.iterdir() if RunDir(path).is_run]
        return sorted(runs, key=lambda run: (run.plan_path.stat().st_mtime, run.path.name), reverse=True)
    except OSError:
        return []


def _create_named(root: Path, name: str) -> RunDir:
    with _explain_refusal(root):
        root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 10_000):
            path = root / (name if attempt == 1 else f"{name}-{attempt}")
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return RunDir(path)
    raise UserError(f"{root} has no free name like {name}.", ["--run-dir DIR"])


def _refuse_used(run: RunDir) -> None:
    if not run.path.is_dir():
        raise UserError(f"{run.path} is not a directory.", ["another --run-dir"])
    if run.is_run:
        raise UserError(f"{run.path} holds a run already.", [f"batchwright resume {run.path}", "another --run-dir"])
    with _explain_refusal(run.path):
        used = any(entry.name != _LOCK for entry in run.path.iterdir())
    if used:
        what = f": {_what_is_wrong(run)}" if run.config_path.is_file() else ", and not empty"
        raise UserError(f"{run.path} is not a run directory{what}.", ["another --run-dir"])


def _what_is_wrong(run: RunDir) -> str:
    if not run.path.exists():
        return "it does not exist"
    if not run.path.is_dir():
        return "it is a file"
    missing = [path.name for path in (run.config_path, run.plan_path) if not path.is_file()]
    if missing == [run.plan_path.name] and not run.metrics_path.exists():
        return "it has no plan.json beside its config.yaml: preparing it was cut short, nothing was trained"
    return f"it has no {' and no '.join(missing)}"


def _nearest_runs(path: Path) -> list[str]:
    """The run that holds the path, else runs inside it, else the runs beside it with the nearest names."""
    around = [RunDir(parent) for parent in path.parents if RunDir(parent).is_run]
    if around:
        return [str(around[0])]
    inside = find_runs(path)
    if inside:
        return [str(run) for run in inside[:3]]
    beside = {run.path.name: run for run in find_runs(path.parent)}
    close = did_you_mean(path.name, beside) or list(beside)[:3]
    return [str(beside[name]) for name in close]


def _is_locked(path: Path) -> bool | None:
    """Asks who holds the lock (F_GETLK), as trying it would for a moment keep a trainer out."""
    if not sys.platform.startswith("linux"):
        return None  # other systems lay out `struct flock` otherwise
    import fcntl
    import struct

    layout = "hhqqi4x"  # type, whence, start, length, process
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        asked = struct.pack(layout, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(handle, fcntl.F_GETLK, asked)
        return bool(struct.unpack(layout, answer)[0] != fcntl.F_UNLCK)
    except OSError:
        return None
    finally:
        os.close(handle)


def _sign(handle: int) -> None:
    """Writes the process id into the lock file, for the error of a second process."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)


def _refuse_lock(path: Path, handle: int, error: OSError) -> UserError:
    if error.errno not in (errno.EACCES, errno.EAGAIN):
        return UserError(f"{path} cannot be locked: {error.strerror}.", ["--run-dir on a local disk"])
    owner = os.pread(handle, 20, 0).decode(errors="replace").strip()
    who = f"process {owner}" if owner.isdigit() else "another process"
    return UserError(f"{who} is training into {path}.", ["wait until it has ended", "another --run-dir"])


@contextlib.contextmanager
def _explain_refusal(path: Path) -> Iterator[None]:
    """Turns an OSError about a folder into a UserError, without a traceback."""
    try:
        with explain_full_disk(path):
            yield
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}.", ["another --run-dir"]) from error
