"""Reward models from recorded episodes: what they learn; that runs repeat, resume, undo bad updates, and refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.store.recorded.bank import Bank
from batchwright.watch.agreement import spearman
from batchwright.watch.metric_log import first_difference, read_events, read_metrics
from run_batchwright import refusal, run, run_line

sys.path.insert(0, str(Path(__file__).parents[1] / "store" / "recorded"))
from recordings import point_mass, some_episodes, write_lerobot, write_libero, write_minari

SMALL = {"hidden": "32,32", "updates_per_iteration": 20, "subsequence_timesteps": 8, "quiet": True}


@pytest.fixture(scope="module")
def point_masses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 episodes of a point in the plane, its reward minus the distance to the origin."""
    return write_libero(tmp_path_factory.mktemp("data") / "point.hdf5", point_mass(120, 40), with_next=True)


@pytest.fixture(scope="module")
def trained(point_masses: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was given returns alone, in a file."""
    folder = tmp_path_factory.mktemp("runs")
    returns = {f"point.hdf5/demo_{k}": float(one.reward.sum()) for k, one in enumerate(point_mass(120, 40))}
    (folder / "returns.json").write_text(json.dumps(returns))
    wishes = {"hidden": "64,64", "subsequence_timesteps": 16, "total_updates": 1500, "learning_rate": 1e-3}
    found = batchwright.learn_reward(
        point_masses, returns=str(folder / "returns.json"), run_dir=folder / "run", quiet=True, **wishes
    )
    return found.run_dir


def test_from_returns_alone_the_true_rewards_are_found(trained: Path) -> None:
    reward = batchwright.load_reward(trained)
    fresh = point_mass(30, 40, seed=9)  # episodes that were in no file
    predicted = [reward(one.obs[:-1], one.action, one.obs[1:]) for one in fresh]
    assert spearman(np.concatenate(predicted), np.concatenate([one.reward for one in fresh])) > 0.9  # type: ignore[operator]
    # On the scale of one step: sums of predictions are returns.
    sums, returns = (np.array([x.sum() for x in part]) for part in (predicted, [one.reward for one in fresh]))
    assert np.abs(sums - returns).mean() < 0.2 * np.abs(returns - returns.mean()).mean()


def test_a_run_leaves_its_plan_its_record_its_fit_and_a_picture(trained: Path) -> None:
    fit = json.loads((trained / "fit.json").read_text())
    assert fit["held_out"]["episodes"] == 24
    assert fit["held_out"]["spearman"] > 0.9
    assert fit["held_out"]["error_share"] < 0.5
    assert fit["held_out"]["step_spearman"] > 0.9  # recorded rewards judge the model; they did not teach it
    plan = json.loads((trained / "plan.json").read_text())["quantities"]
    assert plan["training_episodes"]["value"] == 96
    assert len(read_metrics(trained / "metrics.jsonl")) == plan["iterations"]["value"] == 15
    assert (trained / "rewards.html").read_text().count("<polyline") == 8  # predicted and recorded, 4 episodes
    assert not list(trained.rglob("*.pkl"))


@pytest.mark.parametrize("how", ["rrd-unbiased", "full"])
def test_every_form_learns_the_returns(how: str, point_masses: Path, tmp_path: Path) -> None:
    wishes = SMALL | {"total_updates": 400, "learning_rate": 3e-3}
    if how == "full":
        del wishes["subsequence_timesteps"]
    found = batchwright.learn_reward(point_masses, redistribute=how, run_dir=tmp_path / "run", **wishes)
    assert found.fit["held_out"]["spearman"] > 0.9
    assert found.fit["held_out"]["step_spearman"] > 0.7


def test_two_runs_are_the_same_to_the_bit_and_another_seed_is_not(point_masses: Path, tmp_path: Path) -> None:
    records = []
    for name, wishes in (("a", {}), ("b", {"frames_on_disk": True}), ("c", {"seed": 1})):
        batchwright.learn_reward(point_masses, run_dir=tmp_path / name, total_updates=60, **SMALL, **wishes)
        records.append(read_metrics(tmp_path / name / "metrics.jsonl"))
    assert first_difference(records[0], records[1]) is None
    assert first_difference(records[0], records[2]) is not None
    assert not (tmp_path / "b" / "frames").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_or_killed_run_resumes_to_the_bit(number: signal.Signals, point_masses: Path, tmp_path: Path) -> None:
    wishes = "--hidden 32,32 --updates-per-iteration 5 --total-updates 1000 --subsequence-timesteps 8 --eval-every 0"
    wishes += f" --checkpoint-every {1000 if number == signal.SIGINT else 7}"
    words = [sys.executable, "-m", "batchwright.cli", "rrd", str(point_masses), *wishes.split()]
    words += ["--run-dir", str(tmp_path / "cut"), "--quiet"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    record = tmp_path / "cut" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while (not record.exists() or record.stat().st_size < 4000) and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(child.pid, number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), errors
    assert 0 < len(read_metrics(record)) < 200
    resumed = run("resume", str(tmp_path / "cut"))
    assert resumed.code == 0, resumed.err
    assert "resumed after iteration" in resumed.out
    whole = run_line(f"rrd {point_masses} {wishes} --run-dir {tmp_path / 'whole'} --quiet")
    assert whole.code == 0
    assert first_difference(read_metrics(record), read_metrics(tmp_path / "whole" / "metrics.jsonl")) is None


def test_a_run_is_proved_by_a_second_one(trained: Path) -> None:
    answer = run("prove", str(trained))
    assert answer.code == 0, answer.err
    assert answer.out.startswith("identical: 15 iterations")


def test_three_undone_iterations_in_a_row_end_with_code_3_and_a_lower_rate(point_masses: Path, tmp_path: Path) -> None:
    wishes = "--hidden 64,64 --learning-rate 10 --weight-decay 1 --total-updates 2000 --updates-per-iteration 400"
    answer = run_line(f"rrd {point_masses} {wishes} --run-dir {tmp_path / 'run'} --quiet")
    assert answer.code == 3
    assert "fix: --learning-rate 1\n" in answer.err
    kinds = [event["kind"] for event in read_events(tmp_path / "run" / "events.jsonl")]
    assert kinds.count("non-finite") == 3
    assert kinds[-1] == "diverged"


def test_a_bad_iteration_is_undone_and_the_run_goes_on(
    point_masses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, calls = Bank.draw, []

    def draw_nan_once(self: Bank, *arguments: Any) -> Any:
        calls.append(1)
        sample = draw(self, *arguments)
        return sample._replace(episode_return=sample.episode_return * np.nan) if len(calls) == 2 else sample

    monkeypatch.setattr(Bank, "draw", draw_nan_once)
    result = batchwright.learn_reward(point_masses, run_dir=tmp_path / "run", total_updates=60, **SMALL)
    first, bad, last = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert "the update of iteration 2 is undone" in capsys.readouterr().err
    assert bad["parameters_digest"] == first["parameters_digest"] != last["parameters_digest"]
    assert [one["updates_total"] for one in (first, bad, last)] == [20, 20, 40]
    assert (result.iterations, result.updates, result.interrupted) == (3, 40, False)
    assert np.isfinite(last["loss"])


def test_a_finished_run_shows_its_fit_again(trained: Path) -> None:
    before = (trained / "fit.json").read_bytes(), read_metrics(trained / "metrics.jsonl")
    answer = run("resume", str(trained))
    assert answer.code == 0, answer.err
    assert "resumed after iteration 15" in answer.out
    assert "held out" in answer.out
    assert before == ((trained / "fit.json").read_bytes(), read_metrics(trained / "metrics.jsonl"))


def test_warnings_of_the_plan_are_events_of_the_first_start_alone(point_masses: Path, tmp_path: Path) -> None:
    wishes = "--subsequence-timesteps 8 --rrd-timesteps-per-update 8 --total-updates 4 --updates-per-iteration 2"
    assert run_line(f"rrd {point_masses} {wishes} --hidden 8 --run-dir {tmp_path / 'run'} --quiet").code == 0
    assert run("resume", str(tmp_path / "run"), "--quiet").code == 0
    events = read_events(tmp_path / "run" / "events.jsonl")
    (warning,) = [event["message"] for event in events if event["kind"] == "warning"]
    assert "one is a noisy gradient" in warning


def test_a_recording_that_changed_is_not_resumed(tmp_path: Path) -> None:
    file = write_libero(tmp_path / "a.hdf5", some_episodes(8))
    batchwright.learn_reward(file, run_dir=tmp_path / "run", total_updates=20, **SMALL)
    write_libero(file, some_episodes(9))
    assert "has changed since" in refusal(f"resume {tmp_path / 'run'}").err


def test_images_of_24_pixels_and_numbers_are_learned_from_together(tmp_path: Path) -> None:
    recorded = some_episodes(6, image_side=24)
    found = batchwright.learn_reward(
        write_lerobot(tmp_path / "l", recorded), run_dir=tmp_path / "run", total_updates=4, updates_per_iteration=2,
        subsequence_timesteps=4, rrd_timesteps_per_update=8, quiet=True,
    )  # fmt: skip
    reward, one = batchwright.load_reward(found.run_dir), recorded[0]
    obs, after = (
        {"observation.state": one.obs[part], "observation.images.top": one.images[part]}  # type: ignore[index]
        for part in (slice(None, -1), slice(1, None))
    )
    assert reward(obs, one.action, after).shape == (6,)
    assert "data:image/png" in (found.run_dir / "rewards.html").read_text()
    assert "images with a side of 24: smaller filters" in (found.run_dir / "plan.json").read_text()


def test_choices_are_learned_from(tmp_path: Path) -> None:
    path = write_minari(tmp_path / "m", some_episodes(6), discrete=3)
    found = batchwright.learn_reward(path, run_dir=tmp_path / "run", total_updates=20, **SMALL)
    reward = batchwright.load_reward(found.run_dir)
    obs = np.zeros((2, 3), np.float32)
    one, three = (reward(obs, np.array([choice, choice]), obs) for choice in (1, 3))
    assert one[0] == one[1] != three[0]


def test_a_loaded_reward_checks_what_it_is_given(trained: Path) -> None:
    reward = batchwright.load_reward(trained)
    one = point_mass(1, 10)[0]
    both = reward(one.obs[:2], one.action[:2], one.obs[1:3])
    alone = reward(one.obs[0], one.action[0], one.obs[1])
    assert alone.shape == ()
    assert alone == pytest.approx(both[0], rel=1e-5)
    for wrong in (
        lambda: reward(one.obs[:2, :1], one.action[:2], one.obs[1:3]),
        lambda: reward(one.obs[:2], one.action[:3], one.obs[1:3]),
        lambda: reward({"other": one.obs[:2]}, one.action[:2], one.obs[1:3]),
        lambda: reward(one.obs[:2], one.action[:2], one.obs[1]),
    ):
        with pytest.raises(UserError):
            wrong()


def test_success_only_demonstrations_are_refused_with_what_it_means(tmp_path: Path) -> None:
    recorded = some_episodes(6)
    ones = [np.r_[np.zeros(len(one.reward) - 1), 1.0] for one in recorded]
    file = write_libero(tmp_path / "a.hdf5", recorded, rewards=ones)
    errors = refusal(f"rrd {file} --run-dir {tmp_path / 'run'}").err
    assert "all 6 returns of a.hdf5 are 1 (sum of rewards)" in errors
    assert "--allow-constant-returns" in errors
    assert not (tmp_path / "run").exists()
    allowed = f"rrd {file} --allow-constant-returns --total-updates 20 --updates-per-iteration 20 --hidden 8"
    assert run_line(f"{allowed} --run-dir {tmp_path / 'run'} --quiet").code == 0


def test_what_the_recording_holds_is_shown_without_training(tmp_path: Path) -> None:
    file = write_libero(tmp_path / "a.hdf5", some_episodes(4, image_side=36))
    summary = run_line(f"rrd {file} --show --json --obs-keys ee_pos").json
    assert (summary["episodes"], summary["steps"], summary["length"]) == (4, 30, {"min": 6, "mean": 7.5, "max": 9})
    assert summary["keys"]["agentview_rgb"] == {
        "shape": [36, 36, 3], "dtype": "uint8", "part": "observation", "used": False, "bytes": 34 * 36 * 36 * 3,
    }  # fmt: skip
    assert summary["bytes"] == 34 * 12 + 30 * (8 + 4)
    shown = run_line(f"rrd {file} --show").out
    assert "4 episodes, 30 steps; lengths 6 to 9" in shown
    bare = write_lerobot(tmp_path / "l", some_episodes(4), reward=False)
    assert "returns: none recorded" in run_line(f"rrd {bare} --show").out
    assert "has no 'next.reward'" in refusal(f"rrd {bare}").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--rrd-timesteps-per-update 4 --subsequence-timesteps 8", "4 timesteps per update cannot hold one"),
        ("--redistribute rrd-unbiased --subsequence-timesteps 1", "one timestep has no variance"),
        ("--redistribute full --subsequence-timesteps 8", "full takes all of an episode"),
        ("--reward-key rewards --returns x.json", "two sources of returns"),
        ("--obs-keys nothing", "there are ee_pos"),
        ("--obs-keys ,", "names no key"),
        ("--returns nowhere.json", "nowhere.json cannot be read as returns"),
        ("--redistribute ircr", "ircr"),
        ("--num-envs 4", "unknown flag --num-envs"),
        ("--held-out 1", "out of range"),
    ],
)
def test_bad_wishes_are_refused_with_a_fix(words: str, message: str, point_masses: Path) -> None:
    answer = refusal(f"rrd {point_masses} {words}")
    assert message in answer.err
    assert "fix:" in answer.err


def test_a_recording_larger_than_ram_is_refused_with_the_most_that_fits(tmp_path: Path) -> None:
    # 40 episodes of 6 to 45 steps: 1060 observations of 3072 float32 are 12.4 MiB; 0.01 GiB are 10.2 MiB.
    wide = [one._replace(obs=np.tile(one.obs, 1024)) for one in some_episodes(40)]
    file = write_libero(tmp_path / "a.hdf5", wide)
    wishes = "--ram-gb 0.01 --hidden 8 --updates-per-iteration 1 --total-updates 1 --subsequence-timesteps 4"
    wishes += " --rrd-timesteps-per-update 4"
    errors = refusal(f"rrd {file} {wishes} --run-dir {tmp_path / 'no'}").err
    assert "The most episodes that fit, as long as the longest, are 16" in errors
    assert "--recorded-episodes 16" in errors
    assert run_line(f"rrd {file} {wishes} --recorded-episodes 16 --run-dir {tmp_path / 'few'} --quiet").code == 0
    assert run_line(f"rrd {file} {wishes} --frames-on-disk --run-dir {tmp_path / 'disk'} --quiet").code == 0


def test_a_preset_gives_its_numbers_and_names_what_it_leaves_out(point_masses: Path, tmp_path: Path) -> None:
    words = f"rrd {point_masses} --preset libero --total-updates 64 --hidden 8 --run-dir {tmp_path / 'run'}"
    shown = run_line(words).out
    assert "TRAIN_BATCHES    updates per iteration          64" in shown
    assert "1 subsequence per reward update; one is a noisy gradient" in shown
    assert "are for training in an environment; not used" in shown


def test_settings_may_stand_in_a_file_under_the_names_of_rrd_scripts(point_masses: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"data: {point_masses}\nrrd_batch_size: 32\nrrd_sample_size: 8\ntrain_batches: 5\n")
    shown = run_line(f"rrd --config {file} --total-updates 5 --hidden 8 --run-dir {tmp_path / 'run'}").out
    assert "RRD_BATCH_SIZE   timesteps per update           32   = 4 subsequences" in shown
    for command in ("plan", "train CartPole-v1"):
        assert f"batchwright rrd {point_masses}" in refusal(f"{command} --config {file}").err
    assert "the name is empty" in refusal('rrd ""').err


def test_a_policy_and_a_reward_model_are_not_mixed_up(trained: Path, tmp_path: Path) -> None:
    policy = prepare("CartPole-v1", run_dir=tmp_path / "policy", quiet=True, engine="jax", preset="none")
    with pytest.raises(UserError, match="is not the run of a reward model"):
        batchwright.load_reward(policy)
    with pytest.raises(UserError, match="reward model"):
        batchwright.load(trained)
