"""Kills a run again and again, resumes it each time, and leaves an uninterrupted one beside it to compare with.

python kill_again.py FOLDER ENGINE KILLS

Every attempt is a fork of this process, which has imported everything and started nothing: an attempt costs tracing
and reading programs from the compilation cache, not imports.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import batchwright
import batchwright.regimes
import batchwright.runs.launch
from small_runs import SMALL, lines

LONGEST_SECONDS = 300.0


class Lengths(NamedTuple):
    """Iterations of a run and between two of its checkpoints."""

    iterations: int
    checkpoint_every: int


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


def kill(run: Path, after: int, draw: random.Random) -> bool:
    """One attempt, killed at a random moment after so many records; False where it was done before."""
    child = fork(lambda: batchwright.resume(run, quiet=True))
    deadline = time.monotonic() + LONGEST_SECONDS
    while lines(run) <= after and time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0005)
    # Without a record to wait for, the attempt is killed while it starts.
    time.sleep(draw.random() * (0.02 if after >= 0 else 1.0))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_points(kills: int, lengths: Lengths, draw: random.Random) -> list[int]:
    """Records after which each attempt is killed: the first beyond a checkpoint, later ones anywhere or at start-up."""
    points = [lengths.checkpoint_every + draw.randrange(lengths.checkpoint_every)]
    while len(points) < kills:
        points.append(max(points) + draw.randrange(8) if draw.random() < 0.8 else -1)
    return points[:kills]


def lengths_for(engine: str, kills: int) -> Lengths:
    """Long enough that no attempt is done before it is killed.

    Engines that cannot be saved start anew at every checkpoint, which takes time: EnvPool compiles its rollout again.
    """
    every = {"jax": 10, "envpool": 18}.get(engine, 8)
    return Lengths(kills * {"jax": 60, "envpool": 36}.get(engine, 24), every)


def main() -> None:
    folder, engine, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    lengths = lengths_for(engine, kills)
    wishes = SMALL | {
        "engine": engine,
        "total_steps": 64 * lengths.iterations,
        "checkpoint_every": lengths.checkpoint_every,
    }
    if engine in ("gymnasium-async", "gymnasium-split"):
        wishes["num_threads"] = 1 if engine == "gymnasium-async" else 2  # one worker
    whole, killed = folder / "whole", folder / "killed"
    to_the_end(lambda: batchwright.train(run_dir=whole, quiet=True, **wishes))
    killed.mkdir()
    for name in ("config.yaml", "plan.json"):
        shutil.copy(whole / name, killed / name)
    draw = random.Random(engine)
    done = sum(kill(killed, after, draw) for after in kill_points(kills, lengths, draw))
    print(done, lengths.iterations)
    to_the_end(lambda: batchwright.resume(killed, quiet=True))


if __name__ == "__main__":
    main()
