"""Traces on disk: found again for the same question, and only for it."""

from pathlib import Path

import pytest

from batchwright.lerobot.lerobot_python import LeRobotPython
from batchwright.lerobot.trace_cache import NUMBERS, TraceCache

QUESTION = {"words": ["--policy.type=act"], "cameras": 3}
ANSWER = {"traced": [dict.fromkeys(NUMBERS, 7) | {"small_batches": [[5, 3]]}]}
PYTHON = LeRobotPython("python", "0.4.4", ("torch 2.13.0",))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def test_an_answer_is_found_again_for_the_same_question_and_versions() -> None:
    TraceCache(QUESTION, (None, None), PYTHON).write(ANSWER)
    assert TraceCache(dict(QUESTION), (None, None), PYTHON).read() == ANSWER
    assert TraceCache(QUESTION | {"cameras": 2}, (None, None), PYTHON).read() is None
    newer = LeRobotPython("python", "0.4.4", ("torch 2.14.0",))
    assert TraceCache(QUESTION, (None, None), newer).read() is None


def test_another_configuration_in_the_same_folder_is_another_question(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    TraceCache(QUESTION, (str(tmp_path),), PYTHON).write(ANSWER)
    assert TraceCache(QUESTION, (str(tmp_path),), PYTHON).read() == ANSWER
    (tmp_path / "config.json").write_text('{"layers": 2}')
    assert TraceCache(QUESTION, (str(tmp_path),), PYTHON).read() is None


def test_a_model_on_the_hub_is_known_by_its_commit_once_it_is_here(tmp_path: Path) -> None:
    TraceCache(QUESTION, ("user/model",), PYTHON).write(ANSWER)
    assert TraceCache(QUESTION, ("user/model",), PYTHON).read() is None
    commit = tmp_path / "hub" / "hub" / "models--user--model" / "refs" / "main"
    commit.parent.mkdir(parents=True)
    commit.write_text("abc")
    TraceCache(QUESTION, ("user/model",), PYTHON).write(ANSWER)
    assert TraceCache(QUESTION, ("user/model",), PYTHON).read() == ANSWER


@pytest.mark.parametrize("damage", ["", "[]", '{"traced": []}', '{"traced": [{"floor_bytes": "x"}]}'])
def test_a_damaged_file_is_no_answer(damage: str) -> None:
    cache = TraceCache(QUESTION, (None,), PYTHON)
    cache.write(ANSWER)
    cache.path.write_text(damage)
    assert cache.read() is None
