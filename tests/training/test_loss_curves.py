"""Twenty iterations per algorithm against curves on file: a change that should not alter the computation does not.

BATCHWRIGHT_WRITE_GOLDENS=1 writes them anew; a changed golden has a line in the changelog that says why.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from small_runs import record

import batchwright

GOLDEN = Path(__file__).parents[1] / "golden"
KEPT = ("policy_loss", "value_loss", "entropy", "gradient_norm", "kl", "explained_variance", "episode_return")
# Everything that matters is stated in a file, so that no tuned preset takes part.
WISHES = """
env: CartPole-v1
engine: jax
seed: 3
num_envs: 4
rollout_steps: 16
total_steps: 1280
hidden: 8,8
gamma: 0.98
learning_rate: 0.003
entropy_start: 0.01
eval_every: 0
eval_episodes: 2
"""


@pytest.mark.parametrize(
    ("algo", "more"),
    [("ppo", "minibatches: 3\nepochs: 2"), ("a2c", ""), ("reinforce", "")],
    ids=["ppo", "a2c", "reinforce"],
)
def test_the_loss_curve_is_the_one_on_file(algo: str, more: str, tmp_path: Path) -> None:
    config = tmp_path / "wishes.yaml"
    config.write_text(f"{WISHES}algo: {algo}\n{more}\n")
    run = batchwright.train("CartPole-v1", config=config, run_dir=tmp_path / "run", quiet=True).run_dir
    found: list[dict[str, Any]] = [{name: line[name] for name in KEPT if name in line} for line in record(run)]
    assert len(found) == 20
    path = GOLDEN / f"curve-{algo}.json"
    if os.environ.get("BATCHWRIGHT_WRITE_GOLDENS"):
        path.write_text("[\n" + ",\n".join(json.dumps(line) for line in found) + "\n]\n")
    wanted = json.loads(path.read_text())
    for iteration, (line, golden) in enumerate(zip(found, wanted, strict=True)):
        # Other processors round otherwise: the last digits may differ, the curve may not.
        assert line == pytest.approx(golden, rel=1e-4, abs=1e-5), f"iteration {iteration}"
