"""`batchwright rl-games`: a run directory of ours around another process. Real rl_games: benchmarks/checkers.py."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from run_batchwright import refusal, run_line

# Stands in for an interpreter with rl_games: answers the probe, and "trains" by writing records and a checkpoint.
INTERPRETER = """#!{python}
import json, os, sys
from pathlib import Path
if sys.argv[1] == "-c":
    print(json.dumps([{{"rl-games": "{version}", "gymnasium": "1.4.0"}}, []]))
    sys.exit(0)
assert sys.argv[1:3] == ["-m", "batchwright.adapters.rl_games_child"], sys.argv
job = json.loads(Path(sys.argv[3]).read_text())
config = job["config"]["params"]["config"]
first = int(Path(job["checkpoint"]).read_text()) if job["checkpoint"] else 0
last = {last} if not job["checkpoint"] else config["max_epochs"]
with os.fdopen(int(sys.argv[4]), "w") as lines:
    for epoch in range(first, last):
        steps = (epoch + 1) * config["num_actors"] * config["horizon_length"]
        record = {{"iteration": epoch, "env_steps": steps, "episodes": 2, "episode_return": 10.0 * epoch, "kl": 0.01}}
        lines.write(json.dumps(record) + "\\n")
        if epoch == {saves}:
            Path(job["folder"], "last.pth").write_text(str(epoch + 1))
            lines.write(json.dumps({{"saved": epoch + 1}}) + "\\n")
    if epoch + 1 == {killed}:
        lines.flush()
        os.kill(os.getpid(), 9)
    if {fails}:
        print("ValueError: something of rl_games")
        sys.exit(1)
Path(job["folder"], "last.pth").write_text(str(last))
sys.exit(130 if last < config["max_epochs"] else 0)
"""


def interpreter(folder: Path, last: int = 12, **kind: object) -> Path:
    path = folder / f"python-{last}-{'-'.join(kind)}"
    kinds: dict[str, object] = {"fails": False, "version": "1.6.5", "saves": -1, "killed": -1} | kind
    path.write_text(INTERPRETER.format(python=sys.executable, last=last, **kinds), encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    numbers = {
        "env_name": "CartPole-v1",
        "horizon_length": 16,
        "minibatch_size": 64,
        "mini_epochs": 4,
        "max_epochs": 12,
        "learning_rate": 3e-4,
        "gamma": 0.99,
        "tau": 0.95,
        "e_clip": 0.2,
    }
    path = tmp_path / "agent.yaml"
    body = {"params": {"seed": 3, "algo": {"name": "a2c_discrete"}, "network": {}, "config": numbers}}
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def test_a_run_of_rl_games_is_read_by_report_and_doctor(tmp_path: Path, config: Path) -> None:
    run = tmp_path / "run"
    answer = run_line(f"rl-games {config} --num_envs 7 --python {interpreter(tmp_path)} --run-dir {run}")
    assert answer.code == 0, answer.err
    assert "minibatch_size = 112 (auto-calculated)" in answer.out  # 7 x 16, all of it
    plan = json.loads((run / "plan.json").read_text())
    figures = {name: quantity["value"] for name, quantity in plan["quantities"].items()}
    assert (figures["num_envs"], figures["minibatch_transitions"], figures["iterations"]) == (7, 112, 12)
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 12
    assert '"finished"' in (run / "events.jsonl").read_text()
    assert run_line(f"report {run}").code == 0
    diagnosis = run_line(f"doctor {run}").out
    assert "finished, 12 iterations" in diagnosis
    assert "horizon_length: " in diagnosis, diagnosis  # advice in rl_games' settings, not in our flags
    assert "Try: --" not in diagnosis


def test_an_interrupted_run_goes_on_and_only_by_its_own_command(tmp_path: Path, config: Path) -> None:
    run, python = tmp_path / "run", interpreter(tmp_path, last=5)
    stopped = run_line(f"rl-games {config} --num_envs 7 --python {python} --run-dir {run}")
    assert stopped.code == 130
    assert f"batchwright rl-games --resume {run}" in stopped.out
    assert "rl-games --resume" in refusal(f"resume {run}").err
    assert run_line(f"rl-games --resume {run}").code == 0
    iterations = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert iterations == list(range(12))


def test_a_killed_run_goes_on_from_its_last_checkpoint_and_the_epochs_after_it_are_made_again(
    tmp_path: Path, config: Path
) -> None:
    run, python = tmp_path / "run", interpreter(tmp_path, last=8, saves=4, killed=8)
    assert run_line(f"rl-games {config} --num_envs 7 --python {python} --run-dir {run}").code == 2
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 8
    resumed = run_line(f"rl-games --resume {run}")
    assert resumed.code == 0, resumed.err
    assert "3 epochs again" in resumed.out
    iterations = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert iterations == list(range(12))


def test_a_version_of_rl_games_that_was_not_tried_is_said(tmp_path: Path, config: Path) -> None:
    python = interpreter(tmp_path, version="2.0.0")
    answer = run_line(f"rl-games {config} --num_envs 7 --python {python} --run-dir {tmp_path / 'run'}")
    assert "rl_games 2.0.0 was not tried; its rules are taken for those of 1.6.1 and 1.6.5" in answer.out


def test_a_changed_checkpoint_or_job_is_not_loaded_unless_trusted(tmp_path: Path, config: Path) -> None:
    run, python = tmp_path / "run", interpreter(tmp_path, last=5)
    run_line(f"rl-games {config} --num_envs 7 --python {python} --run-dir {run} --quiet")
    (run / "rl_games" / "last.pth").write_text("6", encoding="utf-8")
    assert "pickle of PyTorch" in refusal(f"rl-games --resume {run}").err
    (run / "rl_games" / "last.pth").write_text("5", encoding="utf-8")
    job = (run / "rl_games.json").read_text()
    (run / "rl_games.json").write_text(job.replace(str(python), "/bin/false"), encoding="utf-8")
    assert "pickle of PyTorch" in refusal(f"rl-games --resume {run}").err
    (run / "rl_games.json").write_text(job + " ", encoding="utf-8")
    assert run_line(f"rl-games --resume {run} --trust --quiet").code == 0


def test_an_error_of_rl_games_is_named_with_its_output(tmp_path: Path, config: Path) -> None:
    run = tmp_path / "run"
    answer = run_line(
        f"rl-games {config} --num_envs 4 --python {interpreter(tmp_path, fails=True)} --run-dir {run} --quiet"
    )
    assert answer.code == 2
    assert "something of rl_games" in answer.err
    assert str(run / "rl_games" / "output.txt") in answer.err


def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, config: Path) -> None:
    python = interpreter(tmp_path)
    assert "needs a config" in refusal("rl-games").err
    assert "needs a config" in refusal(f"rl-games {config}").err
    assert "not a whole number" in refusal(f"rl-games {config} --num_envs many").err
    assert "cannot be used as an interpreter" in refusal(f"rl-games {config} --num_envs 4 --python /nowhere").err
    assert "rl_games is not installed" in refusal(f"rl-games {config} --num_envs 4 --python {sys.executable}").err
    assert (
        "envpool is not installed" in refusal(f"rl-games {config} --num_envs 4 --python {python} --engine envpool").err
    )
    assert "is no run of rl_games" in refusal(f"rl-games --resume {_our_run(tmp_path)}").err
    body = yaml.safe_load(config.read_text())
    del body["params"]["config"]["max_epochs"]
    config.write_text(yaml.safe_dump(body), encoding="utf-8")
    assert "a run needs an end" in refusal(f"rl-games {config} --num_envs 4 --python {python}").err
    assert not os.path.lexists("runs/CartPole-v1-rl_games-s3")


def _our_run(folder: Path) -> Path:
    run = folder / "ours"
    done = run_line("plan --num-envs 4 --rollout-steps 8 --json")
    run.mkdir()
    (run / "plan.json").write_text(done.out, encoding="utf-8")
    (run / "config.yaml").write_text("num_envs: 4\n", encoding="utf-8")
    return run
