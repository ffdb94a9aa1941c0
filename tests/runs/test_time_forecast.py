"""Forecasts of time: what a record says of the speed, how a length is priced, what is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.api import forecast
from batchwright.runs import time_forecast
from batchwright.runs.time_forecast import Compiled, Enough, FirstForecast, Speed, speed_of
from run_batchwright import refusal, run
from small_runs import SMALL, start


def line(env_steps: int, steps: int, seconds: float, updates: int = 4, **more: Any) -> dict[str, Any]:
    return {"env_steps": env_steps, "steps_per_second": steps / seconds, "updates": updates, **more}


def test_the_first_iteration_compiles_and_counts_as_the_start() -> None:
    records = [line(100, 100, 5.0), line(200, 100, 1.0), line(300, 100, 3.0, evaluation_seconds=0.5)]
    speed = speed_of(records, run_seconds=10.0)
    assert speed is not None
    assert speed.step_seconds == pytest.approx(4.0 / 200)
    assert speed.evaluation_seconds == 0.5
    assert speed.start_seconds == pytest.approx(10.0 - 4.0 - 0.5)
    assert speed.iterations == 2


def test_an_iteration_with_a_metric_that_none_before_it_had_counts_as_the_start() -> None:
    """Some programs run in one of several iterations; 10 steps in 1 s, and 3 s to compile in the fourth."""
    seldom = {"policy_gradient_signal_by_env": 0.1}
    records = [line(10 * k, 10, 4.0 if k == 4 else 1.0, **(seldom if k in (4, 8) else {})) for k in range(1, 9)]
    speed = speed_of(records, run_seconds=12.0)
    assert speed is not None and speed.iterations == 6
    assert speed.step_seconds == pytest.approx(0.1)
    assert speed.start_seconds == pytest.approx(12.0 - 6.0)
    enough = Enough(iterations=3, seconds=5.0)
    said = [enough.add(record | {"elapsed_seconds": 1.0 * k}) for k, record in enumerate(records)]
    assert said == [False] * 6 + [True, True]


def test_a_rehearsal_that_only_compiles_ends_after_nine_iterations_or_a_second_of_them() -> None:
    quick, long = Compiled(), Compiled()
    ends = [quick.add(line(10 * k, 10, 0.01, elapsed_seconds=5.0 + 0.01 * k)) for k in range(1, 10)]
    assert ends == [False] * 8 + [True]
    assert [long.add(line(10 * k, 10, 2.0, elapsed_seconds=5.0 + 2.0 * k)) for k in (1, 2)] == [False, True]


def test_steps_before_the_first_update_have_a_price_of_their_own() -> None:
    warm = [line(10, 10, 2.0, updates=0), line(20, 10, 0.1, updates=0), line(30, 10, 0.3, updates=0)]
    records = [*warm, line(40, 10, 4.0), line(50, 10, 1.0), line(60, 10, 1.0)]
    speed = speed_of(records, run_seconds=9.0)
    assert speed is not None
    assert speed.warmup_step_seconds == pytest.approx(0.4 / 20)
    assert speed.step_seconds == pytest.approx(2.0 / 20)


def test_what_lies_between_iterations_costs_time_and_an_evaluation_is_priced_apart() -> None:
    """10 steps in 1 s, 0.5 s of records after each, an evaluation of 4 s in the third: 1.5 s per 10 steps."""
    records = [
        line(10, 10, 1.0, elapsed_seconds=3.0),
        line(20, 10, 1.0, elapsed_seconds=4.5),
        line(30, 10, 1.0, elapsed_seconds=10.0, evaluation_seconds=4.0),
        line(40, 10, 1.0, elapsed_seconds=11.5),
        line(50, 10, 1.5, elapsed_seconds=13.0, evaluation_seconds=4.0),  # the last: evaluated after its record
    ]
    speed = speed_of(records, run_seconds=17.0)
    assert speed is not None
    assert speed.step_seconds == pytest.approx(0.15)
    assert speed.evaluation_seconds == 4.0
    assert speed.start_seconds == pytest.approx(17.0 - 4 * 1.5 - 8.0)


def test_a_rehearsal_ends_after_a_second_of_updates() -> None:
    enough = Enough(iterations=3, seconds=1.0)
    warm_up = [line(10 * k, 10, 0.1, updates=0, elapsed_seconds=5.0 + k) for k in range(1, 5)]
    assert not any(enough.add(record) for record in warm_up)
    assert not enough.add(line(50, 10, 2.0, elapsed_seconds=11.0))  # compiles
    assert not enough.add(line(60, 10, 0.4, elapsed_seconds=11.4))
    assert not enough.add(line(70, 10, 0.4, elapsed_seconds=11.8))  # three, in 0.8 s
    assert enough.add(line(80, 10, 0.4, elapsed_seconds=12.2))
    speed = enough.speed(run_seconds=13.0, evaluation_seconds=0.5)
    assert speed.step_seconds == pytest.approx(0.04)
    assert speed.evaluation_seconds == 0.5
    assert speed.warmup_step_seconds == pytest.approx(0.1)


def test_a_run_that_nothing_is_known_of_says_its_forecast_after_a_second_of_updates() -> None:
    plan = batchwright.plan("CartPole-v1", preset="none", num_envs=8, rollout_steps=64, total_steps=512 * 100)
    forecast_of = FirstForecast(plan)
    said = [forecast_of.add(line(512 * k, 512, 1.0, elapsed_seconds=4.0 + k)) for k in range(1, 9)]
    lines = [text for text in said if text]
    assert len(lines) == 1
    assert lines[0].startswith("forecast: about 1:4")  # 100 iterations of 1 s and the start
    short = FirstForecast(
        batchwright.plan("CartPole-v1", preset="none", num_envs=8, rollout_steps=64, total_steps=5120)
    )
    assert not any(short.add(line(512 * k, 512, 1.0, elapsed_seconds=4.0 + k)) for k in range(1, 9))


def test_two_iterations_are_no_speed() -> None:
    assert speed_of([line(10, 10, 1.0), line(20, 10, 1.0)], 3.0) is None


def test_a_forecast_adds_start_steps_and_evaluations() -> None:
    small = {name: value for name, value in SMALL.items() if name not in ("env", "total_steps")}
    plan = batchwright.plan("CartPole-v1", preset="none", **small | {"eval_every": 5}, total_steps=64 * 12)
    speed = Speed(0.01, 0.0, 64.0, evaluation_seconds=2.0, start_seconds=3.0, iterations=9)
    # 12 iterations: evaluations after 5 and 10, and of the last policy.
    assert speed.seconds(plan) == pytest.approx(3.0 + 768 * 0.01 + 3 * 2.0)
    assert "3 evaluations of 2.0 s" in time_forecast.forecast_line(plan, speed, time_forecast.MEASURED)


def test_a_finished_run_is_remembered_for_other_lengths_seeds_and_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start(tmp_path / "run", preset="none")
    settings = {name: value for name, value in SMALL.items() if name != "env"} | {"preset": "none", "quiet": True}
    other_length = {"total_steps": 64 * 1000, "seed": 5, "learning_rate": 1e-4}
    plan, speed, source = forecast("CartPole-v1", **settings | other_length)
    assert source == time_forecast.REMEMBERED
    assert speed.seconds(plan) > 64 * 1000 * speed.step_seconds
    assert time_forecast.recall(batchwright.plan("CartPole-v1", preset="none", num_envs=3)) is None


def test_a_damaged_memory_counts_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "batchwright").mkdir()
    plan = batchwright.plan("CartPole-v1")
    for content in ("", "[1, 2]", "[" * 100_000, json.dumps({time_forecast._cache(plan).key: {"unknown": 1}})):
        (tmp_path / "batchwright" / time_forecast.SPEEDS_FILE).write_text(content)
        assert time_forecast.recall(plan) is None


def test_plan_forecast_measures_where_nothing_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    flags = "--engine jax --num-envs 4 --rollout-steps 16 --hidden 8 --total-steps 4000 --preset none --json"
    answer = run("plan", "CartPole-v1", "--forecast", *flags.split())
    found = json.loads(answer.out)["forecast"]
    assert found["source"] == time_forecast.MEASURED
    assert found["seconds"] > found["start_seconds"] > 0
    assert not list(tmp_path.glob("runs*"))


def test_a_forecast_without_an_environment_is_refused() -> None:
    assert "no environment is named" in refusal("plan --num-envs 8 --forecast").err
    assert "another output" in refusal("plan CartPole-v1 --forecast --for sb3").err
