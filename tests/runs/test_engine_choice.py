"""Which engine is taken, given what each was measured at."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright.runs import engine_choice

ENGINES = ("jax", "envpool", "gymnasium-sync", "gymnasium-split", "gymnasium-async")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Engines in the order they are measured, at the rates of a test; nothing is remembered from elsewhere."""
    asked: list[str] = []
    rates = {"jax": 2e5, "envpool": 1e5, "gymnasium-sync": 8e3, "gymnasium-split": 11e3}

    def measure(env: str, counts: list[int], engines: list[str]) -> engine_choice.Rates:
        asked.extend(engines)
        quick = {"jax": 2e6} if env in ("quick", "CartPole-v1") else {}
        return {(name, count): (rates | quick)[name] for name in engines for count in counts}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine_choice, "available_engines", lambda env: ENGINES)
    monkeypatch.setattr(engine_choice, "_measure", measure)
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: 2)
    return asked


def test_the_search_ends_at_an_engine_that_is_fast_enough(measured: list[str]) -> None:
    assert engine_choice.choose_engine("quick", 8, False, lambda text: None).engine == "jax"
    assert measured == ["jax"]
    assert engine_choice.choose_engine("slow", 8, False, lambda text: None).engine == "jax"
    assert measured[1:] == ["jax", "envpool", "gymnasium-sync"]


def test_envpool_is_not_asked_where_a_task_of_ours_is_fast_enough(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "available_engines", lambda env: pytest.fail("EnvPool was asked"))
    assert engine_choice.choose_engine("CartPole-v1", 8, False, lambda text: None).engine == "jax"
    assert measured == ["jax"]


def test_environments_are_split_where_it_pays_and_only_by_the_command(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: True)
    choice = engine_choice.choose_engine("slow", 8, False, lambda text: None, "gymnasium")
    assert choice.engine == "gymnasium-split"  # 11,000 against 8,000: more than 1.25 times
    assert "gymnasium-sync x 8: 8,000" in choice.reason
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: False)
    assert engine_choice.choose_engine("slow", 8, False, lambda text: None, "gymnasium").engine == "gymnasium-sync"


@pytest.mark.parametrize(("cores", "num_envs"), [(1, 8), (2, 1)])
def test_one_core_or_one_environment_is_not_split(
    measured: list[str], monkeypatch: pytest.MonkeyPatch, cores: int, num_envs: int
) -> None:
    monkeypatch.setattr(engine_choice, "started_by_command", lambda: True)
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: cores)
    assert (
        engine_choice.choose_engine("slow", num_envs, False, lambda text: None, "gymnasium").engine == "gymnasium-sync"
    )
    assert measured == []


def test_the_choice_is_remembered(measured: list[str]) -> None:
    first, second = (engine_choice.choose_engine("slow", 8, False, lambda text: None) for _ in range(2))
    assert second.engine == first.engine and "measured earlier" in second.reason
    assert len(measured) == 3
