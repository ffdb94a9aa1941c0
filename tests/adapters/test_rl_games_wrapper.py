"""A training script that knows nothing of us runs with any number of environments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.adapters.rl_games_wrapper import read_words
from batchwright.core.errors import UserError

# Stand-ins with the call order of Isaac Lab's scripts/reinforcement_learning/rl_games/train.py: Isaac Sim starts, then
# rl_games is imported, the task's settings are read, num_envs overrides them, agent.yaml is written, the environment
# is made, num_actors is set, Runner.load is called.
TRAIN = """
import argparse, json, sys
parser = argparse.ArgumentParser()
parser.add_argument("--task"); parser.add_argument("--num_envs", type=int)
args, hydra_args = parser.parse_known_args()
assert "rl_games" not in sys.modules, "Isaac Sim starts before rl_games is imported"
from rl_games.torch_runner import Runner
from isaaclab_tasks.utils.hydra import read_task
env_cfg, agent_cfg = read_task(args.task, hydra_args)
env_cfg.scene.num_envs = args.num_envs if args.num_envs is not None else env_cfg.scene.num_envs
print("SAVED", agent_cfg["params"]["config"]["minibatch_size"])
agent_cfg["params"]["config"]["num_actors"] = env_cfg.scene.num_envs
runner = Runner()
runner.load(agent_cfg)
runner.run({"train": True})
"""
RUNNER = """
class Runner:
    def load(self, yaml_config):
        self.config = yaml_config["params"]["config"]
    def run(self, args):
        batch, size = self.config["horizon_length"] * self.config["num_actors"], self.config["minibatch_size"]
        assert(batch % size == 0)
        print("TRAINED", self.config["num_actors"], size, batch // size)
"""
PARSE = """
class Scene: num_envs = 4096
class EnvCfg: scene = Scene
def load_cfg_from_registry(task_name, entry_point_key):
    if entry_point_key == "env_cfg_entry_point":
        return EnvCfg
    config = {"num_actors": -1, "horizon_length": 16, "minibatch_size": 32768, "mini_epochs": 5}
    return {"params": {"algo": {"name": "a2c_continuous"}, "network": {}, "config": config}}
"""
HYDRA = """
from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry
def read_task(task, hydra_args):
    env, agent = load_cfg_from_registry(task, "env_cfg_entry_point"), load_cfg_from_registry(task, "rl_games")
    for word in hydra_args:
        assert word.startswith("agent.params.config."), f"unrecognised {word}"
        name, _, value = word.removeprefix("agent.params.config.").partition("=")
        agent["params"]["config"][name] = int(value)
    return env, agent
"""


@pytest.fixture
def isaac_lab(tmp_path: Path) -> Path:
    for name, text in {
        "train.py": TRAIN,
        "site/rl_games/__init__.py": "",
        "site/rl_games/torch_runner.py": RUNNER,
        "site/isaaclab_tasks/__init__.py": "",
        "site/isaaclab_tasks/utils/__init__.py": "",
        "site/isaaclab_tasks/utils/parse_cfg.py": PARSE,
        "site/isaaclab_tasks/utils/hydra.py": HYDRA,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run_script(folder: Path, *words: str, wrapped: bool = True) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "site"), *[entry for entry in sys.path if entry]])
    start = [sys.executable, *(["-m", "batchwright.adapters.rl_games"] if wrapped else [])]
    return subprocess.run(
        [*start, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_the_script_alone_refuses_16_environments_and_wrapped_it_trains(isaac_lab: Path) -> None:
    alone = run_script(isaac_lab, "train.py", "--task", "Ant", "--num_envs", "16", wrapped=False)
    assert "assert(batch % size == 0)" in alone.stderr
    wrapped = run_script(isaac_lab, "train.py", "--task", "Ant", "--num_envs", "16")
    assert wrapped.returncode == 0, wrapped.stderr
    # The author's 16 x 4096 / 32768 = 2 minibatches; 4096 was read from the task's settings.
    assert "TRAINED 16 128 2" in wrapped.stdout
    assert "minibatch_size = 128 (auto-calculated)" in wrapped.stdout
    assert "SAVED 32768" in wrapped.stdout  # agent.yaml was written before; the docs say so


def test_the_wrapper_takes_its_flags_and_hands_the_others_on(isaac_lab: Path) -> None:
    found = run_script(isaac_lab, "train.py", "--num_envs", "16", "--minibatch_size", "512", "--task", "Ant")
    assert "TRAINED 16 256 1" in found.stdout, found.stderr
    assert "512 requested, 256 used" in found.stdout
    by_hydra = run_script(isaac_lab, "train.py", "--num_envs", "16", "agent.params.config.minibatch_size=64")
    assert "TRAINED 16 64 4" in by_hydra.stdout, by_hydra.stderr


def test_contradicting_overrides_and_missing_scripts_are_refused(isaac_lab: Path) -> None:
    twice = run_script(isaac_lab, "train.py", "--minibatch_size", "64", "agent.params.config.minibatch_size=32")
    assert (twice.returncode, "asked for twice: 64 and 32" in twice.stderr) == (2, True)
    nothing = run_script(isaac_lab, "absent.py")
    assert nothing.returncode == 2
    assert "absent.py cannot be read" in nothing.stderr


def test_a_flag_that_the_script_declares_stays_its_own(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text('parser.add_argument("--minibatch_size", type=int)', encoding="utf-8")
    assert read_words([str(script), "--minibatch_size", "8"]) == (str(script), {}, ["--minibatch_size", "8"])
    assert read_words(["--minibatch_size=8", str(script), "--x"])[1:] == ({"minibatch_size": 8}, ["--x"])


@pytest.mark.parametrize("words", [[], ["--minibatch_size", "many", "x.py"], ["--task", "x.py"], ["--minibatch_size"]])
def test_bad_words_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError):
        read_words(words)
