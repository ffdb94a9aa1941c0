"""LeRobot's interpreter for tests, small datasets, and figures that are computed inside of it; left out without it."""

import json
from pathlib import Path

import pytest
from lerobot_scripts import inside

from batchwright.core.errors import UserError
from batchwright.lerobot.lerobot_python import LeRobotPython, find_python

TOY = {"episodes": 4, "steps": 25, "side": 32, "cameras": 1, "video": False, "fps": 10, "seed": 0}
KINDS = {
    "images": TOY,
    "more": TOY | {"seed": 1, "episodes": 2},
    "video": TOY | {"video": True, "side": 64, "episodes": 2},
    "faster": TOY | {"fps": 20, "episodes": 1},
    "two-cameras": TOY | {"cameras": 2, "episodes": 1},
}


@pytest.fixture(scope="session")
def lerobot() -> LeRobotPython:
    try:
        return find_python(None)
    except UserError as error:
        pytest.skip(f"{error.message} (make lerobot)")


@pytest.fixture(scope="session")
def toy_data(lerobot: LeRobotPython, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small datasets by name."""
    folder = tmp_path_factory.mktemp("lerobot-data")
    requests = [options | {"root": str(folder / name)} for name, options in KINDS.items()]
    inside(lerobot, "write_dataset.py", json.dumps(requests))
    return {name: folder / name for name in KINDS}


@pytest.fixture(scope="session")
def figures(lerobot: LeRobotPython) -> dict:
    """What `inside_checks.py` computes."""
    return json.loads(inside(lerobot, "inside_checks.py").strip().splitlines()[-1])
