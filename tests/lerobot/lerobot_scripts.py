"""Runs scripts of this folder in LeRobot's interpreter."""

import json
import subprocess
from pathlib import Path
from typing import Any

from batchwright.lerobot.lerobot_python import LeRobotPython, call_environment, import_path

HERE = Path(__file__).parent
SECONDS = 1800


def inside(python: LeRobotPython, script: str, *words: str, stdin: str = "") -> Any:
    """The last line that a script of this folder prints in LeRobot's interpreter, read as JSON."""
    with import_path() as folder:
        done = subprocess.run(
            [python.path, str(HERE / script), *words],
            env=call_environment(folder, offline=True) | {"OMP_NUM_THREADS": "1"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
