"""Which files of the package one training iteration passes through: what a reader opens to understand it.

python benchmarks/trace_iteration.py ppo
python benchmarks/trace_iteration.py sac-rrd [--engine jax] [--json]

Traced is the first iteration of a run, from the loop's call to the finished metric record, so functions that are
compiled are traced too, and so is the engine. Every call of a Python function of the package counts. Files are listed
in the order in which they are first entered, with their length and how often the program switches into them.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import batchwright
from batchwright.api import plan, set_up_jax

PACKAGE = Path(batchwright.__file__).parent
PPO = {"algo": "ppo", "num_envs": 8, "rollout_steps": 32}
REPLAY = {"warmup_steps": 0, "rollout_steps": 256}
TRACED: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", PPO | {"normalize_obs": False, "normalize_rewards": False}),
    "ppo-normalised": ("CartPole-v1", PPO),
    "a2c": ("CartPole-v1", {"algo": "a2c"}),
    "sac": ("Pendulum-v1", {"algo": "sac"} | REPLAY),
    "sac-rrd": ("Pendulum-v1", {"algo": "sac", "redistribute": "rrd"} | REPLAY),
    "td3": ("Pendulum-v1", {"algo": "td3"} | REPLAY),
    "dqn": ("CartPole-v1", {"algo": "dqn"} | REPLAY),
}


class Tracer:
    """Notes every switch into a file of the package, in all threads."""

    def __init__(self) -> None:
        self.switches: dict[str, int] = {}
        self._last = ""

    def start(self) -> None:
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(str(PACKAGE)) or name == self._last:
            return
        self._last = name
        file = str(Path(name).relative_to(PACKAGE))
        self.switches[file] = self.switches.get(file, 0) + 1


class StopAfterOneRecord:
    """Callbacks of the loop that stop the trace at the first record."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def on_record(self, record: dict[str, Any], result: Any) -> None:
        self._tracer.stop()

    def stop_requested(self) -> bool:
        return True

    def evaluate(self, state: Any) -> dict[str, Any]:
        return {}

    def on_iteration(self, state: Any, record: dict[str, Any]) -> dict[str, Any]:
        return {}

    def stopped(self) -> bool:
        return False

    def on_warning(self, kind: str, iteration: int, message: str) -> None: ...
    def on_non_finite(self, iteration: int, result: Any) -> None: ...
    def on_last_record(self, record: dict[str, Any], result: Any) -> None: ...
    def evaluate_last(self, state: Any) -> None: ...
    def on_checkpoint(self, state: Any, scheduled: bool, reason: str) -> None: ...
    def remedy(self, made: Any, since_iteration: int) -> None: ...


def trace(name: str, engine: str) -> list[dict[str, Any]]:
    """Files with their lines and switches, in the order of their first call."""
    import jax

    from batchwright.regimes import make_learner
    from batchwright.runs.loop import run

    env, settings = TRACED[name]
    learner = make_learner(plan(env, preset="none", engine=engine, eval_every=0, **settings), env)
    state = learner.start()
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.main_thread():
            thread.join()
    jax.clear_caches()  # the start compiles ahead: what it traced is traced again
    tracer = Tracer()
    callbacks = StopAfterOneRecord(tracer)
    tracer.start()
    run(learner, state, callbacks)
    tracer.stop()
    return [
        {"file": file, "lines": len((PACKAGE / file).read_text().splitlines()), "switches": count}
        for file, count in tracer.switches.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", choices=TRACED)
    parser.add_argument("--engine", default="envpool")
    parser.add_argument("--json", action="store_true")
    stated = parser.parse_args()
    set_up_jax()
    files = trace(stated.name, stated.engine)
    if stated.json:
        print(json.dumps(files, indent=1))
        return
    for row in files:
        print(f"{row['file']:<42} {row['lines']:>5} lines {row['switches']:>4} switches")
    print(f"{len(files)} files, {sum(row['lines'] for row in files):,} lines")


if __name__ == "__main__":
    main()
