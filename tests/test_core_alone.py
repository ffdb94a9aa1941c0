"""What the core brings by itself: training, and the cache of compiled programs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.watch.metric_log import read_metrics
from core_alone import core_distributions

ALONE = Path(__file__).with_name("core_alone.py")
SMALL = shlex.split(
    "--engine jax --num-envs 4 --rollout-steps 16 --minibatches 2 --epochs 2 --hidden 8 --eval-every 0 "
    "--eval-episodes 2 --total-steps 128 --quiet"
)


def alone(cache: Path, *words: str) -> str:
    """The command in a process with the core alone; what it wrote to both streams."""
    # Programs of a test compile in less than the 0.3 s from which on they are kept.
    settings = {"XDG_CACHE_HOME": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, str(ALONE), *words], env=own | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def programs(cache: Path) -> list[Path]:
    return list((cache / "batchwright" / "programs").glob("*-cache"))


def test_the_core_does_not_bring_what_only_extras_need() -> None:
    core = core_distributions()
    assert {"jax", "jaxlib", "numpy", "optax", "gymnasium", "pyyaml"} <= core
    assert not core & {"envpool", "pygame", "mujoco", "pillow", "pytest", "tensorboardx"}


def test_the_core_alone_trains_and_resumes_without_a_warning_and_keeps_compiled_programs(tmp_path: Path) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    trained = alone(tmp_path / "cache", "train", "CartPole-v1", *SMALL, "--run-dir", str(run))
    assert "arning" not in trained
    assert len(programs(tmp_path / "cache")) > 3
    again.mkdir()
    for name in ("config.yaml", "plan.json"):
        shutil.copy(run / name, again)
    resumed = alone(tmp_path / "other", "resume", str(again), "--quiet")
    assert "arning" not in resumed
    assert len(read_metrics(again / "metrics.jsonl")) == 2
    # The path of the cache is part of a program's name in it: only their number can be compared.
    assert len(programs(tmp_path / "other")) == len(programs(tmp_path / "cache"))


@pytest.mark.parametrize("stated", [None, "elsewhere"])
def test_a_program_that_has_imported_jax_keeps_programs_too(tmp_path: Path, stated: str | None) -> None:
    lines = ["import jax", f"stated = {stated!r}", "if stated: jax.config.update('jax_compilation_cache_dir', stated)"]
    lines += ["from batchwright.api import keep_programs", "keep_programs()"]
    lines += ["print(jax.config.jax_compilation_cache_dir)"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    own["XDG_CACHE_HOME"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=own, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (stated or str(tmp_path / "batchwright" / "programs"))
