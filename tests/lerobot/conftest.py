"""LeRobot's interpreter for tests, small datasets, and figures that are computed inside of it; left out without it."""

import json
from pathlib import Path
from types import SimpleNamespace

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
def toy_data(lerobot: LeRobotPython, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small datasets by name, and a tiny vision-language model."""
    folder = tmp_path_factory.mktemp("lerobot-data")
    requests = [options | {"root": str(folder / name)} for name, options in KINDS.items()]
    inside(lerobot, "write_dataset.py", json.dumps(requests), str(folder / "vlm"))
    return {name: folder / name for name in (*KINDS, "vlm")}


@pytest.fixture(scope="session")
def figures(lerobot: LeRobotPython, toy_data: dict[str, Path]) -> dict:
    """What `inside_checks.py` computes."""
    return inside(lerobot, "inside_checks.py", str(toy_data["images"]), str(toy_data["video"]))


@pytest.fixture(scope="session")
def trained(
    lerobot: LeRobotPython, toy_data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    """The runs of `prepared_runs.py`, trained: their folder and their exit codes."""
    folder = tmp_path_factory.mktemp("lerobot-runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        jobs = {str(prepare(name, folder / name, toy_data, toy_data["vlm"], lerobot)): RUNS[name][4] for name in RUNS}
    found = inside(lerobot, "inside_runs.py", stdin=json.dumps(jobs))
    return SimpleNamespace(folder=folder, codes=found["codes"], seconds=found["seconds"])
