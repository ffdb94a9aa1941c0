"""Which files one training iteration passes through, in order: what a reader has to open to understand it.

python benchmarks/trace_iteration.py ppo
python benchmarks/trace_iteration.py sac-rrd [--json]

The iteration is the first of a run, so functions that are compiled are traced too. Every call of a Python function of
the package counts, from the loop's call of the iteration to the finished metric record; files are listed in the order
in which they are first entered, with their length and the number of times the program changes into them.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import batchwright

PACKAGE = Path(batchwright.__file__).parent
COMMON = {"engine": "envpool", "eval_every": 0, "preset": "none"}
TRACED: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {"algo": "ppo", "num_envs": 8, "rollout_steps": 32}),
    "sac": ("Pendulum-v1", {"algo": "sac", "warmup_steps": 0}),
    "sac-rrd": ("Pendulum-v1", {"algo": "sac", "warmup_steps": 0, "redistribute": "rrd", "rollout_steps": 256}),
    "dqn": ("CartPole-v1", {"algo": "dqn", "warmup_steps": 0}),
}


class Tracer:
    """Notes every entry into a file of the package; use as a context."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self._last = ""

    def __enter__(self) -> Tracer:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(str(PACKAGE)) or name == self._last:
            return
        self._last = name
        file = str(Path(name).relative_to(PACKAGE))
        self.files[file] = self.files.get(file, 0) + 1
