"""Runs scripts of this folder in LeRobot's interpreter."""

import subprocess
from pathlib import Path

from batchwright.lerobot.lerobot_python import LeRobotPython, call_environment, import_path

HERE = Path(__file__).parent
SECONDS = 900


def inside(python: LeRobotPython, script: str, *words: str) -> str:
    """What a script of this folder prints in LeRobot's interpreter."""
    with import_path() as folder:
        done = subprocess.run(
            [python.path, str(HERE / script), *words],
            env=call_environment(folder, offline=True),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
