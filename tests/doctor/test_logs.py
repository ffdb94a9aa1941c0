"""Logs of other trainers: real TensorBoard files and CSVs in their formats, read under our metric names."""

from __future__ import annotations

import csv
import math
import struct
from pathlib import Path

import pytest

from batchwright.api import diagnose
from batchwright.core.errors import UserError
from batchwright.doctor.logs.names import as_trainer_settings
from batchwright.doctor.logs.read import read_log
from batchwright.doctor.logs.tensorboard_file import read_scalars

tensorboardX = pytest.importorskip("tensorboardX")  # noqa: N816


def write_events(folder: Path, points: list[tuple[str, float, int]]) -> Path:
    with tensorboardX.SummaryWriter(str(folder)) as writer:
        for tag, value, step in points:
            writer.add_scalar(tag, value, step)
    return folder


def sb3_rows(iterations: int, **changes: float) -> list[dict[str, float]]:
    """What Stable-Baselines3's logger writes for PPO, one dump per iteration of 2048 steps, 10 epochs each."""
    return [
        {
            "time/iterations": k + 1,
            "time/total_timesteps": 2048 * (k + 1),
            "time/fps": 900,
            "rollout/ep_rew_mean": 20.0 + 5 * k,
            "rollout/ep_len_mean": 20.0 + 5 * k,
            "train/approx_kl": 0.008,
            "train/clip_fraction": 0.1,
            "train/clip_range": 0.2,
            "train/entropy_loss": -0.69 + 0.01 * k,
            "train/explained_variance": 0.8,
            "train/learning_rate": 0.0003,
            "train/loss": 10.0,
            "train/n_updates": 10 * (k + 1),
            "train/policy_gradient_loss": -0.01,
            "train/value_loss": 20.0,
        }
        | changes
        for k in range(iterations)
    ]


def write_csv(path: Path, rows: list[dict[str, float]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=sorted(rows[0]))
        writer.writeheader()
        for index, row in enumerate(rows):
            # The first dump comes before any training: SB3 leaves those cells empty.
            writer.writerow({name: "" if index == 0 and name.startswith("train/") else v for name, v in row.items()})
    return path


def test_scalars_come_back_as_they_were_written(tmp_path: Path) -> None:
    folder = write_events(tmp_path, [("losses/entropy", 0.5, 2048), ("charts/episodic_return", -3.25, 2**40)])
    (file,) = folder.glob("events.out.tfevents.*")
    assert [tuple(point) for point in read_scalars(file)] == [
        (2048, "losses/entropy", 0.5),
        (2**40, "charts/episodic_return", -3.25),
    ]


def test_a_torn_end_and_foreign_bytes_end_reading_without_an_error(tmp_path: Path) -> None:
    folder = write_events(tmp_path, [("losses/entropy", 0.5, k) for k in range(10)])
    (file,) = folder.glob("events.out.tfevents.*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    assert len(list(read_scalars(file))) == 9
    # A frame of five bytes that is no event.
    file.write_bytes(struct.pack("<QI", 5, 0) + b"\xff" * 5 + b"\0" * 4)
    assert list(read_scalars(file)) == []


def test_a_scalar_in_a_tensor_is_read_too(tmp_path: Path) -> None:
    # Value: tag "a" and a tensor (8) of type float (1 = 1) with content (4) of 1.5.
    tensor = b"\x08\x01" + b"\x22\x04" + struct.pack("<f", 1.5)
    value = b"\x0a\x01a" + b"\x42" + bytes([len(tensor)]) + tensor
    event = b"\x10\x07" + b"\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes([len(value)]) + value
    (tmp_path / "f").write_bytes(struct.pack("<QI", len(event), 0) + event + b"\0" * 4)
    assert [tuple(point) for point in read_scalars(tmp_path / "f")] == [(7, "a", 1.5)]


def test_the_csv_of_a_healthy_sb3_run_raises_no_alarm(tmp_path: Path) -> None:
    write_csv(tmp_path / "progress.csv", sb3_rows(40))
    found = diagnose(tmp_path)
    assert found.status == "log of sb3" and found.iterations == 39
    assert [finding.name for finding in found.findings if finding.alarm] == []
    assert "gamma" in found.unknown and "learning_rate" not in found.unknown


def test_advice_for_an_sb3_run_with_a_huge_learning_rate_names_settings_of_sb3(tmp_path: Path) -> None:
    sick = {"train/learning_rate": 0.05, "train/approx_kl": 0.8, "train/clip_fraction": 0.7}
    write_csv(tmp_path / "progress.csv", sb3_rows(40, **sick))
    first = diagnose(tmp_path).findings[0]
    assert first.name == "learning-rate-too-high"
    assert first.flags[0] == "learning_rate=0.0003"


def test_settings_are_derived_from_an_sb3_log(tmp_path: Path) -> None:
    log = read_log(write_csv(tmp_path / "progress.csv", sb3_rows(10)))
    known = {name: log.facts.get(name) for name in ("algo", "rollout_transitions", "epochs", "clip_range")}
    assert known == {"algo": "ppo", "rollout_transitions": 2048, "epochs": 10, "clip_range": 0.2}
    assert log.records[0]["entropy"] == pytest.approx(0.68)  # entropy_loss is minus the entropy


def test_cleanrl_returns_of_single_episodes_are_averaged_into_their_update(tmp_path: Path) -> None:
    points = [("losses/policy_loss", -0.01, 100 * k) for k in range(1, 4)]
    points += [("charts/episodic_return", 10.0, 150), ("charts/episodic_return", 30.0, 180)]
    log = read_log(write_events(tmp_path, points))
    assert log.trainer == "cleanrl"
    assert [record.get("episode_return") for record in log.records] == [None, 20.0, None]
    assert log.records[1]["episode_return_std"] == 10.0


def test_nan_losses_of_cleanrl_are_divergence_and_where_it_began(tmp_path: Path) -> None:
    points = [("losses/policy_loss", -0.01 if k < 6 else math.nan, 2048 * k) for k in range(12)]
    points += [("losses/approx_kl", 0.01, 2048 * k) for k in range(12)]
    first = diagnose(write_events(tmp_path, points)).findings[0]
    assert (first.name, first.began) == ("divergence", 6)
    assert first.flags[0].startswith("--learning-rate ")


def test_an_export_of_wandb_is_read_under_the_names_of_cleanrl(tmp_path: Path) -> None:
    rows = [
        {
            "Step": 2048 * k,
            "PPO__1 - losses/entropy": 0.5,
            "PPO__1 - losses/entropy__MIN": 0.1,
            "PPO__1 - losses/policy_loss": 0.0,
        }
        for k in range(5)
    ]
    log = read_log(write_csv(tmp_path / "wandb.csv", rows))
    assert log.trainer == "cleanrl" and log.records[-1] == {
        "iteration": 4,
        "env_steps": 8192,
        "entropy": 0.5,
        "policy_loss": 0.0,
    }


def test_rl_games_is_recognised_and_advised_in_yaml(tmp_path: Path) -> None:
    points = []
    for k in range(30):
        values = {
            "losses/a_loss": 0.0,
            "losses/c_loss": 1.0,
            "losses/entropy": 0.6,
            "info/kl": 0.9,
            "info/last_lr": 0.02,
        }
        points += [(tag, value, 4096 * k) for tag, value in values.items()]
    found = diagnose(write_events(tmp_path, points))
    assert found.status == "log of rl_games"
    assert found.findings[0].name == "learning-rate-too-high"
    assert found.findings[0].flags[0] == "learning_rate: 0.0003"


def test_a_log_of_an_unknown_trainer_is_refused_with_the_trainers_that_are_known(tmp_path: Path) -> None:
    write_csv(tmp_path / "other.csv", [{"accuracy": 1.0}])
    with pytest.raises(UserError, match=r"no metric in .* has a name used by"):
        diagnose(tmp_path)


def test_flags_without_an_equivalent_in_a_trainer_are_left_out() -> None:
    assert as_trainer_settings("sb3", "--learning-rate 0.0003 --entropy-anneal 0.5") == "learning_rate=0.0003"
    assert as_trainer_settings("rl_games", "--epochs 4 --normalize-obs") == "mini_epochs: 4; normalize_input: True"
