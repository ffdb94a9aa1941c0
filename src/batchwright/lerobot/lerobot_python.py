"""The interpreter that has LeRobot, and calls into it: LeRobot needs other versions of NumPy and PyTorch than we do."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of `batchwright`."""
LOCAL = Path(".venv-lerobot") / "bin" / "python"
INSTALL = "make lerobot"
CALL_SECONDS = 1800
PACKAGES = ("lerobot", "torch", "transformers")
_ASK = f"""import importlib.metadata as m
for name in {PACKAGES}:
    try:
        print(m.version(name))
    except m.PackageNotFoundError:
        print("none")"""


@dataclass(frozen=True)
class LeRobotPython:
    """An interpreter and the version of LeRobot in it."""

    path: str
    version: str
    packages: tuple[str, ...] = ()
    """Versions of the packages that decide how much memory a policy takes."""


def find_python(stated: str | None) -> LeRobotPython:
    """The interpreter that was stated, else this one, else that of `.venv-lerobot`, whichever has LeRobot."""
    if stated is not None:
        found = _ask(stated)
        if found is None:
            raise UserError(f"{stated} has no LeRobot.", [INSTALL, "--lerobot-python PYTHON"])
        return found
    candidates = []
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("lerobot")
        candidates.append(sys.executable)
    environment = os.environ.get("BATCHWRIGHT_LEROBOT_PYTHON")
    candidates += [environment] if environment else []
    candidates += [str(path.absolute()) for path in _local_paths() if path.exists()]
    for path in candidates:
        found = _ask(path)
        if found is not None:
            return found
    raise UserError(
        "no LeRobot was found: neither in this interpreter nor in .venv-lerobot.", [INSTALL, "--lerobot-python PYTHON"]
    )


def _local_paths() -> list[Path]:
    """`.venv-lerobot` of the working directory, and of the repository where this is one."""
    repository = PACKAGE.parents[1]
    return [LOCAL, repository / LOCAL]


def _ask(path: str) -> LeRobotPython | None:
    """What an interpreter has; None where it has no LeRobot."""
    try:
        answer = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    versions = answer.stdout.split()
    if answer.returncode or len(versions) != len(PACKAGES) or versions[0] == "none":
        return None
    return LeRobotPython(path, versions[0], tuple(f"{name} {v}" for name, v in zip(PACKAGES, versions, strict=True)))


@contextlib.contextmanager
def import_path() -> Iterator[str]:
    """A folder for PYTHONPATH that holds this package and nothing else: our NumPy must not hide LeRobot's."""
    with tempfile.TemporaryDirectory(prefix="batchwright-lerobot-") as folder:
        (Path(folder) / "batchwright").symlink_to(PACKAGE)
        yield folder


def call_environment(folder: str, offline: bool) -> dict[str, str]:
    """The environment of a process in LeRobot's interpreter."""
    wanted = {
        "PYTHONPATH": folder,
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Accelerate would divide gradients by it while LeRobot steps after every batch.
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
        "ACCELERATE_MIXED_PRECISION": "no",
    }
    if offline:
        wanted |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {**os.environ, **wanted}


def call(python: LeRobotPython, job: str, request: dict[str, Any], offline: bool = False) -> dict[str, Any]:
    """Runs one job of `lerobot_jobs` in LeRobot's interpreter and returns its answer."""
    with import_path() as folder:
        words = [python.path, "-m", "batchwright.lerobot.lerobot_jobs", job]
        try:
            done = subprocess.run(
                words,
                input=json.dumps(request),
                capture_output=True,
                text=True,
                timeout=CALL_SECONDS,
                env=call_environment(folder, offline),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"{python.path} did not answer: {error}.", ["--lerobot-python PYTHON"]) from error
    answer = _last_line(done.stdout)
    if answer is None:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(
            f"LeRobot {python.version} failed at the job {job!r}: {reason}", [f"{INSTALL}, which installs it anew"]
        )
    if "error" in answer:
        raise UserError(str(answer["error"]), [str(fix) for fix in answer.get("fixes", [])])
    return answer


def _last_line(text: str) -> dict[str, Any] | None:
    """The answer is the last line; LeRobot prints what it likes before it."""
    lines = text.strip().splitlines()
    with contextlib.suppress(ValueError, IndexError):
        answer = json.loads(lines[-1])
        return answer if isinstance(answer, dict) else None
    return None
