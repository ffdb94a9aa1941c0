"""Environments as Python has them: objects, classes, functions, names with keyword arguments; and notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.envs.catalog import describe
from batchwright.envs.env_names import split_name, with_kwargs
from batchwright.envs.passed_envs import factory_of, name_passed
from run_batchwright import refusal, run
from small_runs import SMALL, record

TINY = SMALL | {"engine": None, "num_envs": 2, "total_steps": 64, "preset": "none"}
del TINY["env"]


class Line(gymnasium.Env):
    """Walks on a line for `length` steps."""

    observation_space: Any = gymnasium.spaces.Box(-99, 99, (1,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 5) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place, self.steps = self.place + (1 if action else -1), self.steps + 1
        return np.array([self.place], np.float32), float(action), self.steps >= self.length, False, {}


class Reversed(gymnasium.Wrapper):  # type: ignore[type-arg]
    """A wrapper as people write it, without RecordConstructorArgs."""

    def step(self, action: Any) -> Any:
        return self.env.step(1 - action)


def test_a_wrapper_of_ones_own_around_a_registered_environment_is_copied() -> None:
    env = Reversed(gymnasium.make("CartPole-v1", max_episode_steps=7))
    make = factory_of(env)
    first, second = make(), make()
    assert isinstance(first, Reversed)
    assert first is not second
    assert first.unwrapped is not second.unwrapped
    assert first.get_wrapper_attr("_max_episode_steps") == 7


def test_names_hold_keyword_arguments() -> None:
    name = with_kwargs("LunarLander-v3", {"continuous": True, "wind": [1.5, "a:b?&="]})
    assert split_name(name) == ("LunarLander-v3", {"continuous": True, "wind": [1.5, "a:b?&="]})
    assert split_name("file.py:make?size=3") == ("file.py:make", {"size": 3})
    with pytest.raises(UserError, match="is not KEY=VALUE"):
        split_name("CartPole-v1?3")
    with pytest.raises(UserError, match="which a name cannot hold"):
        with_kwargs("CartPole-v1", {"key": object()})


def test_keyword_arguments_reach_the_environment(tmp_path: Path) -> None:
    assert describe(with_kwargs("Pendulum-v1", {"g": 1.0})).max_episode_steps == 200
    words = ["--num-envs", "2", "--rollout-steps", "16", "--total-steps", "32", "--hidden", "8", "--quiet"]
    path = tmp_path / "run"
    done = run(
        "train", "tests/envs/test_passed_envs.py:Line", "--env-kwargs", "length=3", "--run-dir", str(path), *words
    )
    assert done.code == 0, done.err
    assert {line["episode_length"] for line in record(path)} == {3.0}
    assert "is not KEY=VALUE" in refusal("train CartPole-v1 --env-kwargs 3").err


def test_a_class_that_can_be_imported_keeps_its_name() -> None:
    assert name_passed(Line, {}) == f"{Line.__module__}:Line"
    assert name_passed(Line, {"length": 2}) == f"{Line.__module__}:Line?length=2"


@pytest.mark.parametrize("kind", ["object", "lambda", "wrapped", "registered"])
def test_objects_and_functions_are_trained(kind: str, tmp_path: Path) -> None:
    env: Any = {
        "object": Line(length=4),
        "lambda": lambda: Line(length=4),
        "wrapped": gymnasium.wrappers.TimeLimit(Line(length=9), 4),
        "registered": gymnasium.make("CartPole-v1", max_episode_steps=4),
    }[kind]
    result = batchwright.train(env, run_dir=tmp_path / "run", quiet=True, **TINY)
    assert {line["episode_length"] for line in record(result.run_dir)} == {4.0}
    assert batchwright.load(result.run_dir, env=env).evaluate(2)["episodes"] == 2


def test_a_process_without_the_object_says_so(tmp_path: Path) -> None:
    made = batchwright.train(lambda: Line(6), run_dir=tmp_path / "run", quiet=True, **TINY)
    from batchwright.envs import env_names

    kept = dict(env_names._passed)
    env_names._passed.clear()
    try:
        with pytest.raises(UserError, match="was passed as a Python object"):
            batchwright.load(made.run_dir)
        assert batchwright.load(made.run_dir, env=lambda: Line(6)).iteration == 2
    finally:
        env_names._passed.update(kept)


def test_a_vector_environment_stands_for_its_functions_and_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = gymnasium.vector.SyncVectorEnv([lambda: Line(length=4), lambda: Line(length=4), lambda: Line(length=4)])
    settings = {key: value for key, value in TINY.items() if key != "num_envs"}
    result = batchwright.train(several, run_dir=tmp_path / "run", quiet=True, **settings)
    several.close()
    assert "note: the first of the 3 functions of the SyncVectorEnv makes every environment" in capsys.readouterr().err
    assert {line["episode_length"] for line in record(result.run_dir)} == {4.0}
    assert (batchwright.plan(several)["num_envs"], batchwright.plan(several, n_envs=7)["num_envs"]) == (3, 7)


def test_a_vectorised_environment_of_the_registry_stands_for_its_id() -> None:
    assert name_passed(gymnasium.make_vec("CartPole-v1", num_envs=5), {}) == "CartPole-v1"
    several = gymnasium.make_vec("CartPole-v1", num_envs=5, max_episode_steps=30)
    assert name_passed(several, {}) == "CartPole-v1?max_episode_steps=30"
    assert batchwright.plan(several)["num_envs"] == 5
    assert describe("CartPole-v1?max_episode_steps=30").max_episode_steps == 30


class Rows:
    """Shaped as the vector environments of Stable-Baselines3 are."""

    num_envs = 2
    observation_space, action_space = Line.observation_space, Line.action_space

    def env_method(self, name: str) -> None: ...


def test_what_cannot_be_taken_apart_is_refused() -> None:
    several = gymnasium.wrappers.vector.NormalizeObservation(gymnasium.make_vec("CartPole-v1", num_envs=2))
    with pytest.raises(UserError, match="NormalizeObservation of 2 environments; pass one"):
        batchwright.train(several)
    with pytest.raises(UserError, match="Rows of 2 environments; pass one"):
        batchwright.train(Rows())
    with pytest.raises(UserError, match="no environment, class or function"):
        batchwright.train(3)


def test_what_only_this_process_has_is_named_by_what_it_is() -> None:
    assert name_passed(gymnasium.wrappers.TimeLimit(Line(), 4), {}) == "python:Line"
    assert name_passed(lambda: Line(3), {}) == "python:lambda"

    def make_line() -> Line:
        return Line()

    assert name_passed(make_line, {"length": 2}) == "python:make_line?length=2"


def test_plans_and_outcomes_are_tables_in_a_notebook(tmp_path: Path) -> None:
    plan = batchwright.plan("CartPole-v1", gamma=0.9)
    assert "<td style='text-align:left'>gamma</td>" in plan._repr_html_()
    result = batchwright.train(Line(), run_dir=tmp_path / "<b>", quiet=True, **TINY)
    assert "mean return" in result._repr_html_()
    assert "&lt;b&gt;" in result._repr_html_()
    assert "report" in result._repr_html_()
    short = batchwright.train(Line(), run_dir=tmp_path / "short", quiet=True, **TINY | {"total_steps": 1})
    assert "finished, 1 iteration<" in batchwright.api.diagnose(short.run_dir)._repr_html_()
    assert "<th" not in result._repr_html_()  # pairs have no header
    assert "<p>" in batchwright.api.diagnose(result.run_dir)._repr_html_()


def test_a_notebook_plans_trains_and_calls_an_environment_of_its_own(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    environment = (
        "\n".join(
            [
                "import gymnasium, numpy as np, batchwright",
                Path(__file__).read_text().split("class Line", 1)[1].split("\n\n\ndef ")[0],
            ]
        )
        .replace("(gymnasium.Env):", "class Line(gymnasium.Env):", 1)
        .replace("Any", "object")
    )
    settings = {**TINY, "run_dir": str(tmp_path / "run"), "quiet": True}
    cells = [environment, "batchwright.plan(Line)", f"result = batchwright.train(Line, **{settings!r})\nresult"]
    cells.append("batchwright.load(result.run_dir)(np.zeros(1, np.float32))")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output["data"] for cell in book.cells for output in cell["outputs"] if "data" in output]
    assert ["text/html" in data for data in shown] == [True, True, False]
    assert "mean return" in shown[1]["text/html"]
