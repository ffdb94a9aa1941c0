"""Trains runs with one planted fault and healthy ones, and judges the doctor by them.

python benchmarks/doctor.py train [--only WORD ...] [--seeds 0 1 2] [--runs FOLDER]   trains what is not there yet
python benchmarks/doctor.py judge [--runs FOLDER] [--json benchmarks/results/doctor.json]   no training: records alone
python benchmarks/doctor.py repair [--runs FOLDER]   trains sick runs again with the first advice applied

Thresholds were set on one half of the runs, by seed in turn: the even seeds of every second case, the odd ones of the
others. The other half judges.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from doctor_faults import BASES, FAULTS, HEALTHY, Base, Fault  # noqa: E402

SEEDS = (0, 1, 2)
SHARED: dict[str, Any] = {"eval_episodes": 20, "eval_every": 0, "quiet": True, "engine": "jax"}


def folder_of(root: Path, key: str, seed: int) -> Path:
    """Where one run lies."""
    return root / re.sub(r"[^a-z0-9.]+", "-", key.lower()).strip("-") / str(seed)


def train_one(root: Path, key: str, base: Base, seed: int, fault: Fault | None = None, **more: Any) -> float | None:
    """One run, unless it is there already; its mean return at the end, or None where it diverged."""
    folder = folder_of(root, key, seed)
    outcome = folder / "outcome.json"
    if not outcome.exists():
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # another process has it, or was killed over it: remove the folder then
            return None
        outcome.write_text(json.dumps(_train(folder / "run", base, seed, fault, more)))
        shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        shutil.rmtree(folder / "run" / "dumps", ignore_errors=True)
    found: float | None = json.loads(outcome.read_text())["mean"]
    print(f"{key} seed {seed}: {found}", flush=True)
    return found


def _train(run: Path, base: Base, seed: int, fault: Fault | None, more: dict[str, Any]) -> dict[str, Any]:
    from batchwright.api import prepare
    from batchwright.training.launch import Voices, continue_run
    from batchwright.training.loop import DivergedError

    settings = SHARED | base.settings | (fault.change if fault else {}) | more
    env = fault.env if fault and fault.env else base.env
    network = _frozen_head if fault and fault.network else None
    prepare(env, run_dir=run, seed=seed, network=network, **settings)
    try:
        result = continue_run(run, Voices(quiet=True, stream=io.StringIO()), network)
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


def train_all(root: Path, seeds: list[int], words: list[str], backwards: bool) -> None:
    """One sick run of each fault and healthy ones, a seed at a time; then the faults in further environments."""
    healthy: list[tuple[str, Base, Fault | None]] = [(f"healthy {name}", base, None) for name, base in HEALTHY.items()]
    sick = [(fault.key, BASES[fault.base], fault) for fault in FAULTS]
    once = list({fault.name: (fault.key, BASES[fault.base], fault) for fault in reversed(FAULTS)}.values())[::-1]
    further = [case for case in sick if case not in once]
    for cases in ([*once, *healthy], further):
        for seed in seeds:
            for key, base, fault in cases[:: -1 if backwards else 1]:
                if _wanted(key, words):
                    train_one(root, key, base, seed, fault)


def _wanted(key: str, words: list[str]) -> bool:
    return not words or any(word in key for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train",))
    parser.add_argument("--runs", type=Path, default=Path("runs/doctor"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--backwards", action="store_true", help="the last first: for a second process beside one")
    stated = parser.parse_args()
    train_all(stated.runs, stated.seeds, stated.only, stated.backwards)


if __name__ == "__main__":
    main()
