"""Kills a run again and again, resumes it each time, and leaves an uninterrupted one beside it to compare with.

python kill_again.py FOLDER ENGINE KILLS

Every attempt is a fork of this process, which has imported everything and started nothing: an attempt costs tracing
and reading programs from the compilation cache, not imports.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import batchwright
import batchwright.regimes
import batchwright.runs.launch
from batchwright.api import prepare
from small_runs import SMALL, lines

LONGEST_SECONDS = 300.0


def fork(work: Callable[[], object]) -> int:
    """The process id of a copy of this process that does the work and nothing else."""
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def to_the_end(work: Callable[[], object]) -> None:
    _, status = os.waitpid(fork(work), 0)
    if status:
        raise SystemExit(f"a run that nobody killed ended with status {status}")


def kill(run: Path, draw: random.Random) -> bool:
    """One attempt, killed at a random moment, from its start-up on; False where it was done before."""
    child = fork(lambda: batchwright.resume(run, quiet=True))
    wanted, deadline = lines(run) + draw.randrange(8), time.monotonic() + LONGEST_SECONDS
    if draw.random() < 0.2:  # before it has logged anything
        time.sleep(draw.random())
    else:
        while lines(run) <= wanted and time.monotonic() < deadline:
            if os.waitpid(child, os.WNOHANG)[0]:
                return False
            time.sleep(0.0005)
        time.sleep(draw.random() * 0.02)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main() -> None:
    folder, engine, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # A restart of EnvPool compiles its rollout again: fewer checkpoints.
    iterations, every = (60, 12) if engine == "envpool" else (120, 5)
    wishes = SMALL | {"engine": engine, "total_steps": 64 * iterations, "checkpoint_every": every}
    if engine in ("gymnasium-async", "gymnasium-split"):
        wishes["num_threads"] = 1 if engine == "gymnasium-async" else 2  # one worker
    to_the_end(lambda: batchwright.train(run_dir=folder / "whole", quiet=True, **wishes))
    to_the_end(lambda: prepare(run_dir=folder / "killed", quiet=True, **wishes))
    draw = random.Random(engine)
    print(sum(kill(folder / "killed", draw) for _ in range(kills)))
    to_the_end(lambda: batchwright.resume(folder / "killed", quiet=True))


if __name__ == "__main__":
    main()
