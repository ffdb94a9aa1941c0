"""Two processes, one plan: identical to the bit, or the first difference by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.prove.determinism import prove_env, prove_run
from batchwright.prove.side_by_side import side_by_side, to_text

WALKS = str(Path(__file__).parents[1] / "faulty_envs.py")
SMALL: dict[str, Any] = {
    "num_envs": 2,
    "rollout_steps": 8,
    "minibatches": 2,
    "epochs": 1,
    "hidden": "4",
    "total_steps": 48,
    "eval_every": 0,
    "eval_episodes": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prove") / "run"
    return batchwright.train("CartPole-v1", engine="jax", run_dir=folder, quiet=True, **SMALL).run_dir


def test_a_run_is_proved_by_another_process(run: Path) -> None:
    outcome = prove_run(str(run))
    assert outcome.identical
    assert outcome.iterations == 3
    assert outcome.values > 3 * 20
    assert "equal to the bit in two processes" in str(outcome)


def test_a_changed_digit_is_named_with_its_iteration_and_metric(run: Path, tmp_path: Path) -> None:
    for name in ("config.yaml", "plan.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    logged[1]["entropy"] += 1e-9
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in logged))
    outcome = prove_run(str(tmp_path))
    assert not outcome.identical
    assert outcome.difference is not None
    assert (outcome.difference.iteration, outcome.difference.metric) == (1, "entropy")


def test_an_environment_with_a_hidden_random_source_is_found() -> None:
    outcome = prove_env(f"{WALKS}:HiddenRandom", engine="gymnasium-sync", **SMALL)
    assert not outcome.identical
    assert outcome.difference is not None
    assert outcome.difference.iteration == 0
    assert str(outcome).startswith("different: iteration 0, ")


def test_a_run_without_records_cannot_be_proved(run: Path, tmp_path: Path) -> None:
    for name in ("config.yaml", "plan.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with pytest.raises(UserError, match="no records yet"):
        prove_run(str(tmp_path))


def test_runs_side_by_side_show_results_and_the_numbers_that_differ(run: Path, tmp_path: Path) -> None:
    other = batchwright.train(
        "CartPole-v1", engine="jax", run_dir=tmp_path / "other", quiet=True, **(SMALL | {"epochs": 2})
    ).run_dir
    rows = side_by_side([str(run), str(other)])
    assert [row["run"] for row in rows] == ["run", "other"]
    assert [row["done"] for row in rows] == [1.0, 1.0]
    assert [row["differs"]["epochs"] for row in rows] == [1, 2]
    assert "learning_rate" not in rows[0]["differs"]
    assert rows[0]["env_steps"] == 48
    assert rows[0]["last_evaluation"] == rows[0]["best_evaluation"] > 0
    text = to_text(rows)
    assert "epochs" in text
    assert len({len(line) for line in text.splitlines()}) == 1
