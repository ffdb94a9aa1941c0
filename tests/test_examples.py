"""Every example runs with a tiny budget and leaves its files where it was started."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
BUDGETS = {
    "plan_in_python.py": [],
    "train_in_python.py": ["4000"],
    "own_network.py": ["4000"],
    "own_loop.py": ["60"],
    "reward_from_recording.py": ["600"],
    "reward_components.py": ["4000"],
    "callbacks.py": ["60000"],
    "optuna_pruning.py": ["2048", "3"],
}
"""Words for the examples that are programs; environments are trained by the command instead."""
LONGEST_EXAMPLE_LINES = 60


def run(words: list[str], folder: Path) -> str:
    """What a program printed, after checking that it ended well."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr[-2000:]}"
    return done.stdout


def copy_of_examples(folder: Path) -> Path:
    """A copy, so that nothing is written beside the originals."""
    return Path(shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__")))


def test_every_example_is_run_by_a_test() -> None:
    trained = {"own_environment.py", "hybrid_actions.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*BUDGETS, *trained}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_a_page(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_EXAMPLE_LINES


def test_plans_are_read_changed_and_refused_in_python(tmp_path: Path) -> None:
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / "plan_in_python.py")], tmp_path)
    assert "held: " in printed
    assert "refused: " in printed


@pytest.mark.parametrize("name", ["train_in_python.py", "own_network.py"])
def test_a_training_example_leaves_one_run_and_tells_its_evaluation(name: str, tmp_path: Path) -> None:
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / name), *BUDGETS[name]], tmp_path)
    assert "evaluation: mean " in printed
    runs = list((tmp_path / "runs").iterdir())
    assert len(runs) == 1
    # 8 environments x 32 steps in the tuned preset: 4000 steps are 16 iterations, rounded up.
    assert len((runs[0] / "metrics.jsonl").read_text().splitlines()) == 16


def test_a_reward_model_tells_near_from_far(tmp_path: Path) -> None:
    name = "reward_from_recording.py"
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / name), *BUDGETS[name]], tmp_path)
    near, far = (float(word) for word in re.findall(r"origin (-?[\d.]+), far from it (-?[\d.]+)", printed)[0])
    assert near > far + 1
    assert (tmp_path / "runs" / "point" / "rewards.html").is_file()


def test_a_loop_of_your_own_learns_from_the_buffer(tmp_path: Path) -> None:
    """A policy that pushes at random keeps the pole up for about 22 steps."""
    words = [sys.executable, str(copy_of_examples(tmp_path) / "own_loop.py"), *BUDGETS["own_loop.py"]]
    last = run(words, tmp_path).splitlines()[-1]
    assert last.startswith("mean length of the last 10 episodes: ")
    assert float(last.split()[-1]) > 35


def test_components_are_trained_beside_the_plain_sum(tmp_path: Path) -> None:
    name = "reward_components.py"
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / name), *BUDGETS[name]], tmp_path)
    assert re.search(r"^plain sum: success rate ", printed, re.MULTILINE)
    assert re.search(r"^balanced components: success rate .*large .*small", printed, re.MULTILINE)


def test_a_curriculum_walks_the_longest_corridor_and_stops_early(tmp_path: Path) -> None:
    name = "callbacks.py"
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / name), *BUDGETS[name]], tmp_path)
    # 16 steps at -0.1, and 1 at the end.
    assert re.search(r"^by a callback after \d+ steps: -0.60$", printed, re.MULTILINE), printed


def test_optuna_prunes_with_a_callback(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    name = "optuna_pruning.py"
    printed = run([sys.executable, str(copy_of_examples(tmp_path) / name), *BUDGETS[name]], tmp_path)
    assert re.search(r"^best: [\d.]+ with \{'learning_rate': [\d.e-]+\}; \d of 3 pruned$", printed, re.MULTILINE)


@pytest.mark.parametrize("name", ["own_environment", "hybrid_actions"])
def test_an_environment_in_a_file_is_trained_by_its_name(name: str, tmp_path: Path) -> None:
    copy_of_examples(tmp_path)
    words = ["train", f"examples/{name}.py:make_env", "--total-steps", "2048", "--run-dir", "runs/own"]
    printed = run([sys.executable, "-m", "batchwright.cli", *words], tmp_path)
    assert "evaluation: mean return " in printed
    assert (tmp_path / "runs" / "own" / "metrics.jsonl").is_file()
