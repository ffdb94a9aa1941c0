"""Trains runs with one planted fault and healthy ones, and judges the doctor by them.

python benchmarks/doctor.py train [--only WORD ...] [--seeds 0 1 2 3] [--runs FOLDER]   trains what is not there yet
python benchmarks/doctor.py judge [--runs FOLDER] [--json benchmarks/results/doctor.json]   no training: records alone
python benchmarks/doctor.py repair [--runs FOLDER]   trains sick runs again with the first advice applied

Seeds 0 and 1 are those that thresholds were set on; 2 and 3 judge.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from doctor_faults import BASES, FAULTS, HEALTHY, Base, Fault  # noqa: E402

SETTING_SEEDS, JUDGING_SEEDS = (0, 1), (2, 3)
SHARED: dict[str, Any] = {"eval_episodes": 20, "eval_every": 0, "quiet": True}


def folder_of(root: Path, key: str, seed: int) -> Path:
    """Where one run lies."""
    return root / re.sub(r"[^a-z0-9.]+", "-", key.lower()).strip("-") / str(seed)


def train_one(root: Path, key: str, base: Base, seed: int, fault: Fault | None = None, **more: Any) -> float | None:
    """One run, unless it is there already; its mean return at the end, or None where it diverged."""
    folder = folder_of(root, key, seed)
    outcome = folder / "outcome.json"
    if not outcome.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcome.write_text(json.dumps(_train(folder / "run", base, seed, fault, more)))
        shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        shutil.rmtree(folder / "run" / "dumps", ignore_errors=True)
    found: float | None = json.loads(outcome.read_text())["mean"]
    print(f"{key} seed {seed}: {found}", flush=True)
    return found


def _train(run: Path, base: Base, seed: int, fault: Fault | None, more: dict[str, Any]) -> dict[str, Any]:
    import batchwright
    from batchwright.training.on_policy import DivergedError

    settings = SHARED | base.settings | (fault.change if fault else {}) | more
    env = fault.env if fault and fault.env else base.env
    if fault and fault.network:
        settings["network"] = _frozen_head
    try:
        result = batchwright.train(env, run_dir=run, seed=seed, **settings)
    except DivergedError as error:
        return {"mean": None, "diverged": str(error)}
    return {"mean": result.evaluation["mean"], "seconds": result.seconds}


def _frozen_head(inputs: Any, raw_size: int, values: int) -> Any:
    """A network whose last four outputs, the second head's, take no gradient."""
    import jax
    import jax.numpy as jnp

    import batchwright
    from batchwright.nets.networks import mlp

    inner = mlp(inputs.vector_size, raw_size, values, (64, 64), "tanh")

    def apply(params: Any, seen: Any) -> Any:
        raw, value = inner.apply(params, seen)
        return jnp.concatenate([raw[..., :4], jax.lax.stop_gradient(raw[..., 4:])], -1), value

    return batchwright.Network(inner.init, apply)


def train_all(root: Path, seeds: list[int], words: list[str]) -> None:
    """Healthy runs and sick ones, a seed at a time, so that an early stop leaves whole seeds."""
    for seed in seeds:
        for name, base in HEALTHY.items():
            if _wanted(f"healthy {name}", words):
                train_one(root, f"healthy {name}", base, seed)
        for fault in FAULTS:
            if _wanted(fault.key, words):
                train_one(root, fault.key, BASES[fault.base], seed, fault)


def _wanted(key: str, words: list[str]) -> bool:
    return not words or any(word in key for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train",))
    parser.add_argument("--runs", type=Path, default=Path("runs/doctor"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[*SETTING_SEEDS, *JUDGING_SEEDS])
    parser.add_argument("--only", nargs="+", default=[])
    stated = parser.parse_args()
    train_all(stated.runs, stated.seeds, stated.only)


if __name__ == "__main__":
    main()
