"""Forms of the entropy bonus: last returns and mean returns of training, over seeds, on two tasks.

python benchmarks/entropy.py [--envs Acrobot-v1 Platform-v0] [--forms none ...] [--seeds 0 1 2 3 4]
All else is the task's tuned preset. Every finished run is kept in the JSON file at once; runs that are there are not
made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from batchwright.api import set_up_jax

set_up_jax()

import batchwright  # noqa: E402
from batchwright.watch.metric_log import read_metrics  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "entropy.json"
STEPS = {"Acrobot-v1": 150_000, "Platform-v0": 75_000}
EPISODES = {"entropy_start": 0.1, "entropy_end": 0.001, "entropy_episodes": 500}
FLOORS = {"entropy_floor_discrete": 0.1, "entropy_floor_weight": 0.1}
FORMS: dict[str, dict[str, Any]] = {
    "none": {"entropy_start": 0.0, "entropy_end": 0.0},
    "fixed 0.01": {"entropy_start": 0.01, "entropy_end": 0.01},
    "0.01 to 0 over the last 80%": {"entropy_start": 0.01, "entropy_end": 0.0, "entropy_anneal": 0.8},
    "0.1 to 0.001 over 500 episodes": EPISODES,
    "0.1 to 0.001 over 500 episodes, floor": EPISODES | FLOORS,
    "0.1 to 0, discrete 1, continuous 1": {"entropy_start": 0.1, "entropy_end": 0.0, "entropy_weight_continuous": 1.0},
    "0.1 to 0, discrete 1, continuous 0.5": {
        "entropy_start": 0.1,
        "entropy_end": 0.0,
        "entropy_weight_continuous": 0.5,
    },
}
HYBRID = tuple(form for form in FORMS if "continuous" in form)
"""Weights of the two kinds of heads: only for hybrid actions."""


def one(env: str, form: str, seed: int) -> dict[str, Any]:
    """One run: the last evaluation, the mean training return over all episodes, the entropy at the end."""
    with tempfile.TemporaryDirectory() as folder:
        result = batchwright.train(
            env,
            run_dir=Path(folder) / "run",
            quiet=True,
            engine="jax",
            seed=seed,
            total_steps=STEPS[env],
            eval_every=0,
            eval_episodes=20,
            doctor="off",
            **FORMS[form],
        )
        records = read_metrics(Path(folder) / "run" / "metrics.jsonl")
    episodes = sum(line["episodes"] for line in records)
    total = sum(line["episodes"] * line["episode_return"] for line in records if line["episodes"])
    return {
        "mean": result.evaluation["mean"],
        "training_mean": round(total / max(episodes, 1), 4),
        "entropy_last": records[-1]["entropy"],
        "seconds": round(result.seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--json", type=Path, default=RESULTS)
    stated = parser.parse_args()
    for seed in stated.seeds:
        for env in stated.envs:
            for form in stated.forms:
                if form in HYBRID and env != "Platform-v0":
                    continue
                found = json.loads(stated.json.read_text()) if stated.json.exists() else {}
                key = f"{env}|{STEPS[env]}|{form}|{seed}"
                if key in found:
                    continue
                found[key] = one(env, form, seed)
                stated.json.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
                print(key, found[key], flush=True)


if __name__ == "__main__":
    main()
