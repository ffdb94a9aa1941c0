"""Optuna's samplers in the joint search: seeded, told in unit order, better than their start where there is a slope."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from test_playbook import STRATEGY, drive

from batchwright.core.errors import UserError
from batchwright.tuning.optuna_export import export_optuna
from batchwright.tuning.optuna_search import OptunaSearch, load_optuna
from batchwright.tuning.playbook import Strategy

HAS_OPTUNA = importlib.util.find_spec("optuna") is not None
needs_optuna = pytest.mark.skipif(not HAS_OPTUNA, reason="optuna is not installed")
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed, which Optuna's gp needs")
SAMPLER_CASES = ["sobol", "tpe", pytest.param("gp", marks=needs_torch)]


def points(sampler: str, seed: int) -> list[list[float]]:
    """Twelve points of a search that is told how far each lies from (0.5, -0.5)."""
    search, found = OptunaSearch(sampler, ["a", "b"], seed, 12), []
    search.tell([0.0, 0.0], -0.5)
    for _ in range(3):
        asked = search.ask(4)
        for point in asked:
            search.tell(point, -((point[0] - 0.5) ** 2) - (point[1] + 0.5) ** 2)
        found += asked
    return found


@needs_optuna
@pytest.mark.parametrize("sampler", SAMPLER_CASES)
def test_a_sampler_repeats_by_its_seed_and_stays_inside(sampler: str) -> None:
    first = points(sampler, 3)
    assert first == points(sampler, 3) != points(sampler, 4)
    assert all(-1 <= number <= 1 for point in first for number in point)
    assert len({tuple(point) for point in first}) == 12


@needs_optuna
@pytest.mark.parametrize("sampler", SAMPLER_CASES)
def test_a_tuning_with_a_sampler_is_a_function_of_its_results(sampler: str) -> None:
    strategy = Strategy(STRATEGY.tune_seeds, STRATEGY.judge_seeds, False, sampler, 8)

    def score(numbers: dict[str, float], seed: int) -> float:
        return -abs(numbers["learning_rate"] - 0.006) - 1e-3 * abs(numbers["gamma"] - 0.99)

    assert drive(score, strategy) == drive(score, strategy)
    assert sum(unit.phase == "search" for unit in drive(score, strategy)[1]) == 8 * 2


@pytest.mark.skipif(HAS_OPTUNA, reason="optuna is installed")
def test_without_optuna_its_samplers_are_refused_with_the_extra() -> None:
    with pytest.raises(UserError, match="not installed") as refused:
        load_optuna("tpe")
    assert "batchwright[tune]" in refused.value.fixes[0]


@needs_optuna
@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_the_gaussian_process_is_refused_with_what_it_needs() -> None:
    with pytest.raises(UserError, match="gp needs torch, which is not installed") as refused:
        load_optuna("gp")
    assert refused.value.fixes[0] == "pip install torch"


@needs_optuna
def test_a_tuning_becomes_a_study_with_a_trial_for_each_setting(tmp_path: Path) -> None:
    import optuna

    header = {"kind": "header", "env": "E", "algo": "ppo", "unit_steps": 64, "objective": "episode_return"}
    header["defaults"] = {"learning_rate": 1e-3, "epochs": 2, "baseline": True}
    settings = [
        ({}, "default", [1.0, 3.0]),
        ({"learning_rate": 1e-2}, "B", [4.0, 6.0]),
        ({"epochs": 4}, "B", [9.0, None]),
    ]
    lines: list[dict[str, Any]] = [header]
    for setting, phase, scores in [*settings, ({}, "judging", [100.0, 100.0])]:
        for seed, score in enumerate(scores):
            known = {"setting": setting, "phase": phase, "seed": seed, "score": score, "status": "finished"}
            lines.append({"kind": "unit", "unit": len(lines), "key": f"k{len(lines)}", "reason": "", **known})
    folder, path = tmp_path / "tuning", tmp_path / "study.db"
    folder.mkdir()
    (folder / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for _ in range(2):  # the second export replaces the first
        assert export_optuna(folder, path) == "tuning"
    study = optuna.load_study(study_name="tuning", storage=f"sqlite:///{path}")
    assert [trial.value for trial in study.trials] == [2.0, 5.0, None]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert study.best_params == {"learning_rate": 1e-2, "epochs": 2, "baseline": True}
    assert study.trials[1].user_attrs["scores"] == [4.0, 6.0] and study.user_attrs["env"] == "E"


@needs_optuna
def test_a_file_that_is_no_database_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine, and longer than a header")
    with pytest.raises(UserError, match="no SQLite database"):
        export_optuna(tmp_path, path)
    assert path.read_text().startswith("mine")
