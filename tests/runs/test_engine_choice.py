"""Which engine and how many environments are taken, given what each was measured at; and what the plan says of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from batchwright.api import plan_to_train, prepare
from batchwright.config.load import resolve
from batchwright.core.errors import UserError
from batchwright.core.machine import GIB
from batchwright.envs.engines import Measured
from batchwright.runs import engine_choice
from batchwright.runs.engine_choice import choose_engine, possible_counts

ENGINES = ("jax", "envpool", "gymnasium-sync", "gymnasium-split", "gymnasium-async")


class Machine:
    """Engines as slow as a test wants, a fixed time and a time per environment; lists what is measured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.microseconds = {"jax": (20.0, 2.0), "envpool": (20.0, 9.0), "gymnasium-sync": (0.0, 125.0)}
        self.load = [1.0]
        """Factors of the times of successive measurements, over and over."""
        self.bytes_per_env = 2**20

    def measure(
        self, env: str, candidates: Sequence[tuple[str, int]], seconds_each: float, num_threads: int | None = None
    ) -> list[Measured]:
        found = []
        for engine, count in candidates:
            factor = self.load[len(self.asked) % len(self.load)]
            self.asked.append((engine, count))
            quick = engine == "jax" and env in ("quick", "CartPole-v1")
            fixed, each = (1.0, 0.1) if quick else self.microseconds[engine]
            rate = count / (1e-6 * factor * (fixed + each * count))
            found.append(Measured(engine, count, rate, count * self.bytes_per_env))
        return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine with two cores; nothing is remembered from elsewhere."""
    made = Machine()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(engine_choice, "available_engines", lambda env: ENGINES)
    monkeypatch.setattr(engine_choice, "measure_engines", made.measure)
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: 2)
    monkeypatch.setattr(engine_choice, "usable_ram_bytes", lambda: 8 * GIB)
    monkeypatch.setattr("batchwright.envs.envpool_source.default_threads", lambda name, num_envs: 2)
    return made


def choose(env: str, *counts: int, family: str = "") -> engine_choice.Choice:
    return choose_engine(env, counts, lambda text: None, family)


def test_the_search_ends_at_an_engine_that_is_fast_enough(machine: Machine) -> None:
    # 1.8 us / 8 + 2 us of update: no engine can make that cheaper by half.
    assert choose("quick", 8).engine == "jax"
    assert machine.asked == [("jax", 8)]
    # 36 us / 8 + 2 us = 6.5 us; EnvPool on two cores (20 + 4 x 9) / 8 + 2 = 9 us.
    assert choose("slow", 8).engine == "jax"
    assert machine.asked[1:] == [("jax", 8), ("envpool", 4), ("gymnasium-sync", 8)]


def test_envpool_is_not_asked_where_a_task_of_ours_is_fast_enough(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "available_engines", lambda env: pytest.fail("EnvPool was asked"))
    assert choose("CartPole-v1", 8).engine == "jax"
    assert machine.asked == [("jax", 8)]


def test_another_engine_must_be_cheaper_by_half(machine: Machine) -> None:
    machine.microseconds["jax"] = (20.0, 6.0)  # 8.5 + 2 = 10.5 us against 9 us of EnvPool
    assert choose("slow", 8).engine == "jax"
    machine.microseconds["jax"] = (20.0, 12.0)  # 14.5 + 2 = 16.5 us
    assert choose("slower", 8).engine == "envpool"


def test_environments_are_split_where_it_pays_and_only_by_the_command(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: True)
    # One loop: (1000 + 100 policy) / 8 + 2 = 139.5 us; split: (4 x 125 + 100 + 65 messages) / 8 + 2 = 85 us.
    choice = choose("slow", 8, family="gymnasium")
    assert choice.engine == "gymnasium-split"
    assert "gymnasium-sync x 8: 7,273" in choice.reason and "computed for 2" in choice.reason
    assert {name for name, _ in machine.asked} == {"gymnasium-sync"}, "no process is started to choose"
    machine.microseconds["gymnasium-sync"] = (0.0, 20.0)  # (160 + 100) / 8 + 2 = 34.5 us; (80 + 165) / 8 + 2 = 32.6 us
    assert choose("cheap", 8, family="gymnasium").engine == "gymnasium-sync"
    machine.microseconds["gymnasium-sync"] = (0.0, 125.0)
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: False)
    assert choose("slow", 8, family="gymnasium").engine == "gymnasium-sync"


@pytest.mark.parametrize(("cores", "num_envs"), [(1, 8), (2, 1)])
def test_one_core_or_one_environment_is_not_split(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cores: int, num_envs: int
) -> None:
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: True)
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: cores)
    assert choose("slow", num_envs, family="gymnasium").engine == "gymnasium-sync"
    assert machine.asked == []


def test_the_choice_is_remembered(machine: Machine) -> None:
    first, second = (choose("slow", 8) for _ in range(2))
    assert second.engine == first.engine and "measured earlier" in second.reason
    assert len(machine.asked) == 3


def test_environments_double_as_long_as_each_doubling_pays(machine: Machine) -> None:
    # jax: (80 + n) / n + 2 us for n = 8, 16, 32, 64: 13, 8, 5.5, 4.25; gains 1.63, 1.45, 1.29.
    machine.microseconds["jax"] = (80.0, 1.0)
    assert choose("slow", 8, 16, 32, 64).num_envs == 16
    assert ("jax", 64) not in machine.asked
    # (800 + n) / n + 2 us: 103, 53, 28, 15.5, and no more counts are allowed.
    machine.microseconds |= {"jax": (800.0, 1.0), "envpool": (3000.0, 1.0), "gymnasium-sync": (3000.0, 1.0)}
    assert choose("slower", 8, 16, 32, 64).num_envs == 64
    assert choose("slower", 8).num_envs == 8


def test_environments_that_would_fill_the_memory_are_not_added(machine: Machine) -> None:
    machine.microseconds |= {"jax": (800.0, 1.0), "envpool": (3000.0, 1.0), "gymnasium-sync": (3000.0, 1.0)}
    machine.bytes_per_env = 80 * 2**20  # 8 GiB / 4 hold 25 of them: 16 and not 32
    assert choose("slow", 8, 16, 32, 64).num_envs == 16


@pytest.mark.parametrize("load", [[1.0], [1.06], [1.0, 1.06, 1.02], [1.06, 1.0, 1.03, 1.01, 1.05]])
def test_what_a_busy_machine_leaves_of_noise_does_not_change_the_choice(machine: Machine, load: list[float]) -> None:
    machine.load = load
    # (160 + n) / n + 2 us: 23, 13, 8, 5.5; gains 1.77, 1.63, 1.45.
    machine.microseconds |= {"jax": (160.0, 1.0), "envpool": (400.0, 1.0), "gymnasium-sync": (400.0, 1.0)}
    chosen = choose("slow", 8, 16, 32, 64)
    assert chosen.engine == "jax" and chosen.num_envs == 32


def test_a_gain_near_its_margin_is_measured_again_in_turn(machine: Machine) -> None:
    machine.microseconds["jax"] = (40.0, 1.0)  # (40 + n) / n + 2: 8 and 5.5 us, 1.45: near to 1.5
    choose("slow", 8, 16)
    assert machine.asked[-2:] == [("jax", 8), ("jax", 16)]
    assert machine.asked.count(("jax", 8)) == 2


@pytest.mark.parametrize(
    ("num_envs", "steps", "sequence", "expected"),
    [
        (8, 256, 1, (8, 16, 32, 64)),  # 64 x 32; 128 x 16 would be too short
        (16, 16, 1, (16,)),
        (8, 96, 1, (8, 16)),  # 24 steps would be too few
        (4, 100, 1, (4, 8)),  # 50 steps; 25 are too few
        (3, 65, 1, (3,)),  # an odd number of steps cannot be halved
        (8, 256, 64, (8, 16, 32)),  # whole sequences of 64
    ],
)
def test_more_environments_leave_the_transitions_of_a_rollout(
    num_envs: int, steps: int, sequence: int, expected: tuple[int, ...]
) -> None:
    counts = possible_counts(num_envs, steps, sequence)
    assert counts == expected
    assert all((num_envs * steps) % count == 0 for count in counts)


def test_measured_values_are_marked_so_and_the_transitions_of_an_update_stay(machine: Machine, tmp_path: Path) -> None:
    machine.microseconds |= {"jax": (800.0, 1.0), "envpool": (3000.0, 1.0), "gymnasium-sync": (3000.0, 1.0)}
    stated = {"seed": 3, "total_steps": 8192}
    before = plan_to_train("MountainCar-v0", None, None, None, engine="jax", **stated)[1]
    run = prepare("MountainCar-v0", run_dir=tmp_path / "run", quiet=True, **stated)
    quantities = json.loads((run / "plan.json").read_text())["quantities"]
    measured = {name: quantity["value"] for name, quantity in quantities.items() if quantity["source"] == "measured"}
    assert measured == {"engine": "jax", "num_envs": 64, "rollout_steps": 32}
    for name in ("rollout_transitions", "minibatch_transitions", "minibatches", "iterations", "total_updates"):
        assert quantities[name]["value"] == before[name]
    lines = (run / "config.yaml").read_text().splitlines()
    assert {line for line in lines if "measured" in line} == {
        'engine: "jax"  # measured on this machine',
        "num_envs: 64  # measured on this machine",
        "rollout_steps: 32  # measured on this machine",
    }
    assert not any(line.startswith("hold") for line in lines)
    assert [name for name, origin in resolve(config_file=run / "config.yaml").origins.items() if origin] == [
        "env", "seed", "total_steps", "engine", "num_envs", "rollout_steps",
    ]  # fmt: skip


def test_the_settings_of_a_run_give_its_plan_again_without_measuring(machine: Machine, tmp_path: Path) -> None:
    machine.microseconds |= {"jax": (800.0, 1.0), "envpool": (3000.0, 1.0), "gymnasium-sync": (3000.0, 1.0)}
    first = prepare("MountainCar-v0", run_dir=tmp_path / "first", quiet=True, total_steps=8192)
    machine.asked.clear()
    (tmp_path / "cache" / "batchwright" / "engines.json").unlink()
    again = prepare("MountainCar-v0", run_dir=tmp_path / "again", quiet=True, config=first / "config.yaml")
    assert machine.asked == []
    plans = [json.loads((run / "plan.json").read_text())["quantities"] for run in (first, again)]
    values = [{name: quantity["value"] for name, quantity in plan.items()} for plan in plans]
    assert values[0] == values[1]


def test_an_engine_that_does_not_have_the_environment_is_named_with_those_that_do() -> None:
    with pytest.raises(UserError, match="RecallCue-v0 cannot be run by the engine 'gymnasium'") as refused:
        choose("RecallCue-v0", 8, family="gymnasium")
    assert list(refused.value.fixes) == ["--engine jax"]
