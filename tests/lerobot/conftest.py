"""LeRobot's interpreter for tests, small datasets, and figures that are computed inside of it; left out without it."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lerobot_scripts import inside
from prepared_runs import RUNS, prepare

from batchwright.core.errors import UserError
from batchwright.lerobot.lerobot_python import LeRobotPython, find_python

TOY = {"episodes": 4, "steps": 25, "side": 32, "cameras": 1, "video": False, "fps": 10, "seed": 0}
KINDS = {
    "images": TOY,
    "more": TOY | {"seed": 1, "episodes": 2},
    "video": TOY | {"video": True, "side": 64, "episodes": 2},
}


@pytest.fixture(scope="session")
def lerobot() -> LeRobotPython:
    try:
        return find_python(None)
    except UserError as error:
        pytest.skip(f"{error.message} (make lerobot)")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], tuple[Path, Any]]:
    """Computes something once for all processes of a test run: a folder, and what was answered as JSON."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def once(name: str, compute: Callable[[Path], Any]) -> tuple[Path, Any]:
        folder = base / f"lerobot-{name}"
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            answer = folder / "answer.json"
            if not answer.exists():
                answer.write_text(json.dumps(compute(folder)))
        return folder, json.loads(answer.read_text())

    return once


@pytest.fixture(scope="session")
def toy_data(lerobot: LeRobotPython, shared: Callable) -> dict[str, Path]:
    """Small datasets by name, and a tiny vision-language model."""

    def write(folder: Path) -> Any:
        requests = [options | {"root": str(folder / name)} for name, options in KINDS.items()]
        return inside(lerobot, "write_dataset.py", json.dumps(requests), str(folder / "vlm"))

    folder, _ = shared("data", write)
    return {name: folder / name for name in (*KINDS, "vlm")}


@pytest.fixture(scope="session")
def figures(lerobot: LeRobotPython, toy_data: dict[str, Path], shared: Callable) -> dict:
    """What `inside_checks.py` computes."""
    words = str(toy_data["images"]), str(toy_data["video"])
    return shared("figures", lambda folder: inside(lerobot, "inside_checks.py", *words))[1]


@pytest.fixture(scope="session")
def trained(lerobot: LeRobotPython, toy_data: dict[str, Path], shared: Callable) -> SimpleNamespace:
    """The runs of `prepared_runs.py`, trained: their folder and their exit codes."""

    def train(folder: Path) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            runs = {name: prepare(name, folder / name, toy_data, toy_data["vlm"], lerobot) for name in RUNS}
        jobs = json.dumps({str(run): RUNS[name][4] for name, run in runs.items()})
        return inside(lerobot, "inside_runs.py", str(folder / "learns"), str(toy_data["images"]), stdin=jobs)

    folder, found = shared("runs", train)
    return SimpleNamespace(folder=folder, **found)
