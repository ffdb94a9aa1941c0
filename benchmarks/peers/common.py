"""What every contender shares: its command line, the clock that leaves the warm-up out, and the one line of JSON.

Every script here is named after the library it runs, so it first replaces `sys.path[0]` (this directory) by
`benchmarks/`: `import tianshou` must find the library, not the script.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

LEARNING_RATE = 3e-4
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP_RANGE = 0.2
ENTROPY_COEFFICIENT = 0.0
VALUE_COEFFICIENT = 0.5
MAX_GRADIENT_NORM = 0.5
HIDDEN_UNITS = (64, 64)

SHARED_PACKAGES = ("numpy", "gymnasium", "mujoco", "envpool")


@dataclass(frozen=True)
class Settings:
    """One measurement: the environment, the batch of one PPO iteration and how long to look at it."""

    env: str
    num_envs: int
    rollout_steps: int
    minibatch: int
    epochs: int
    seconds: float
    """Least time measured after the warm-up; the iteration under way is finished."""
    feed: str
    """`usual`: the library's own synchronous vector environment; `envpool`: the same library fed by EnvPool."""
    threads: int
    """Torch's intra-op threads. One by default: with two, and other work on the machine, waiting OpenMP threads spin
    and SB3 fell to a tenth of its speed. To be compared again on a quiet machine (`speed.py --peer-threads 2`)."""
    env_threads: int
    """EnvPool's threads; all cores unless told."""

    @property
    def iteration_steps(self) -> int:
        return self.num_envs * self.rollout_steps


class IterationClock:
    """Times whole iterations; the first (compilation, lazy imports, allocation) is left out."""

    warmup_iterations = 1

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.iterations = 0
        self.started = 0.0
        self.elapsed = 0.0

    def lap(self) -> bool:
        """True when enough has been measured; call at the end of every iteration."""
        now = time.perf_counter()
        self.iterations += 1
        if self.iterations <= self.warmup_iterations:
            self.started = now
            return False
        self.elapsed = now - self.started
        return self.elapsed >= self.settings.seconds

    @property
    def measured_iterations(self) -> int:
        return self.iterations - self.warmup_iterations

    @property
    def steps_per_second(self) -> float:
        return self.measured_iterations * self.settings.iteration_steps / self.elapsed


def parse_settings(feeds: tuple[str, ...] = ("usual", "envpool")) -> Settings:
    parser = argparse.ArgumentParser(description="Measure PPO training speed of one library.")
    parser.add_argument("--env", required=True)
    parser.add_argument("--num-envs", type=int, required=True)
    parser.add_argument("--rollout-steps", type=int, required=True)
    parser.add_argument("--minibatch", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--feed", "--engine", dest="feed", choices=feeds, default=feeds[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--env-threads", type=int, default=os.cpu_count() or 1)
    return Settings(**vars(parser.parse_args()))


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Installed versions; a package that is not there is said to be absent."""
    found = {}
    for package in (*packages, *SHARED_PACKAGES):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """At the level of the file descriptor: loggers that already hold `sys.stdout` and C++ code follow too."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


def measure(
    contender: str, packages: tuple[str, ...], settings: Settings, train: Callable[[Settings, IterationClock], Any]
) -> None:
    """Run `train` until its clock has seen enough, then print the one line of JSON; all other output is stderr's."""
    clock = IterationClock(settings)
    with stdout_to_stderr():
        train(settings, clock)
    line = {
        "contender": contender,
        "env": settings.env,
        "steps_per_second": round(clock.steps_per_second, 1),
        "measured_iterations": clock.measured_iterations,
        "measured_seconds": round(clock.elapsed, 3),
        "settings": asdict(settings),
        "versions": versions(packages),
    }
    print(json.dumps(line), flush=True)
