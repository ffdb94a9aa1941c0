"""The command lerobot: what it refuses, each with one message and the fix."""

import json
from pathlib import Path

import pytest

from batchwright.lerobot import lerobot_python
from batchwright.lerobot.lerobot_versions import describe_version, find_version
from batchwright.watch.metric_log import read_events
from run_batchwright import refusal, run_line


def dataset(folder: Path, **changes: object) -> Path:
    """A folder with the metadata of a dataset, which is all that checks read."""
    camera = {"dtype": "video", "shape": [96, 128, 3]}
    vector = {"dtype": "float32", "shape": [2]}
    features = {"observation.images.top": camera, "observation.state": vector, "action": vector}
    info = {"codebase_version": "v3.0", "robot_type": "so100", "fps": 30, "total_frames": 100, "features": features}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info | changes))
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BATCHWRIGHT_LEROBOT_PYTHON", raising=False)
    monkeypatch.setattr(lerobot_python, "_local_paths", list)


def test_without_lerobot_the_one_command_that_installs_it_is_named(tmp_path: Path) -> None:
    answer = refusal(f"lerobot train --policy act --dataset {dataset(tmp_path / 'a')}")
    assert "no LeRobot was found" in answer.err
    assert "make lerobot" in answer.err


def test_an_interpreter_without_lerobot_is_refused(tmp_path: Path) -> None:
    answer = refusal(f"lerobot train --dataset {dataset(tmp_path / 'a')} --lerobot-python /bin/true")
    assert "/bin/true has no LeRobot" in answer.err


def test_a_folder_that_is_no_dataset_is_refused(tmp_path: Path) -> None:
    assert "is not a dataset in LeRobot's format" in refusal(f"lerobot plan --dataset {tmp_path}").err


def test_an_old_format_is_refused_with_the_converter(tmp_path: Path) -> None:
    old = dataset(tmp_path / "a", codebase_version="v2.1")
    assert "convert_dataset_v21_to_v30" in refusal(f"lerobot plan --dataset {old}").err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fps": 15}, "frames per second 30 and 15"),
        ({"robot_type": "aloha"}, "robot so100 and aloha"),
        ({"features": {"action": {}, "observation.state": {}}}, "lacks the camera observation.images.top"),
    ],
)
def test_datasets_that_do_not_fit_together_are_refused(tmp_path: Path, changes: dict, said: str) -> None:
    one, other = dataset(tmp_path / "a"), dataset(tmp_path / "b", **changes)
    assert said in refusal(f"lerobot plan --dataset {one} {other}").err


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("--bf16=true", "--precision bf16"),
        ("--gradient_accumulation_steps=2", "--accumulation"),
        ("--gradient_checkpointing=true", "--gradient-checkpointing"),
        ("--batch_size=8", "--samples-per-step"),
    ],
)
def test_flags_that_do_not_exist_are_answered_with_ours(word: str, instead: str) -> None:
    assert instead in refusal(f"lerobot plan --policy act {word}").err
    assert instead in refusal(f"lerobot plan --policy act -- {word}").err


def test_a_policy_that_cannot_fit_is_refused_with_what_would() -> None:
    assert "--gpu-memory-gb" in refusal("lerobot plan --policy smolvla --gpu-memory-gb 2").err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lerobot fly", "unknown command"),
        ("lerobot train --policy act", "needs a dataset"),
        ("lerobot plan --dataset nothing/here/at/all", "neither a folder nor a name"),
        ("lerobot plan --dataset some/where --hub-offline", "forbids to download"),
        ("train CartPole-v1 --algo ppo --policy act", "lerobot train"),
    ],
)
def test_other_mistakes_are_one_message(line: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lerobot_python, "_ask", lambda path: lerobot_python.LeRobotPython(path, "0.4.4"))
    monkeypatch.setenv("BATCHWRIGHT_LEROBOT_PYTHON", "python")
    assert said in refusal(line).err


def test_a_plan_without_lerobot_uses_figures_that_were_traced_before(tmp_path: Path) -> None:
    answer = run_line(f"lerobot plan --dataset {dataset(tmp_path / 'a')} --gpu-memory-gb 12 --json")
    assert answer.code == 0
    quantities = answer.json["quantities"]
    assert quantities["cameras"]["value"] == 1
    assert quantities["image_size"]["value"] == 128
    assert quantities["frames"]["value"] == 100
    assert "no LeRobot was found" in answer.err


def test_memory_of_a_probe_is_not_the_setting_of_recurrent_policies(tmp_path: Path) -> None:
    assert "no LeRobot was found" in refusal(f"lerobot probe --memory --dataset {dataset(tmp_path / 'a')}").err


def test_a_version_that_was_never_tried_is_said() -> None:
    assert find_version("0.4.4") is not None
    assert find_version("0.6.1").prefetch_factor == 4  # type: ignore[union-attr]
    assert "never tried" in describe_version("0.9.0")


def strange_run(folder: Path, data: Path, **job: object) -> Path:
    """A run of somebody else, as far as it is read before an interpreter is started."""
    answer = run_line(f"lerobot plan --dataset {data} --total-updates 4 --json")
    folder.mkdir()
    (folder / "config.yaml").write_text("policy: act\n")
    (folder / "plan.json").write_text(json.dumps(answer.json))
    words = {"words": [], "root": str(data), "python": "/bin/true", "lerobot": "0.4.4"}
    (folder / "lerobot.json").write_text(json.dumps(words | job))
    return folder


def test_an_interpreter_that_a_run_names_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "python").write_text(f"#!/bin/sh\ntouch {ran}\necho 0.4.4 1 1\n")
    (tmp_path / "python").chmod(0o755)
    run = strange_run(tmp_path / "run", dataset(tmp_path / "a"), python=str(tmp_path / "python"))
    assert f"BATCHWRIGHT_LEROBOT_PYTHON={tmp_path / 'python'}" in refusal(f"resume {run}").err
    assert not ran.exists()
    monkeypatch.setenv("BATCHWRIGHT_LEROBOT_PYTHON", "python")
    monkeypatch.setattr(lerobot_python, "_ask", lambda path: lerobot_python.LeRobotPython(path, "0.6.1"))
    assert "was trained with LeRobot 0.4.4; python has 0.6.1" in refusal(f"resume {run}").err


def test_a_training_process_that_is_killed_is_told_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nif [ "$1" = -c ]; then echo 0.4.4 1 1; else kill -9 $$; fi\n')
    python.chmod(0o755)
    run = strange_run(tmp_path / "run", dataset(tmp_path / "a"))
    monkeypatch.setenv("BATCHWRIGHT_LEROBOT_PYTHON", str(python))
    answer = run_line(f"resume {run}")
    assert answer.code == 1
    assert "training was ended by SIGKILL, which the kernel sends when RAM runs out, after update 0" in answer.err
    assert f"batchwright resume {run}" in answer.err
    assert [event["kind"] for event in read_events(run / "events.jsonl")] == ["failed"]


def test_words_that_import_a_package_are_refused(tmp_path: Path) -> None:
    word = "--policy.discover_packages_path=evil"
    assert "would import code" in refusal(f"lerobot plan -- {word}").err
    run = strange_run(tmp_path / "run", dataset(tmp_path / "a"), words=[word])
    assert "would import code" in refusal(f"resume {run}").err


def test_weights_draw_from_whole_datasets(tmp_path: Path) -> None:
    pair = f"{dataset(tmp_path / 'a')} {dataset(tmp_path / 'b')}"
    line = f"lerobot train --dataset {pair} --weights 2 1 -- --dataset.episodes=[0]"
    assert "whole datasets" in refusal(line).err
    assert "3 weights for 2 datasets" in refusal(f"lerobot train --dataset {pair} --weights 1 1 1").err


def test_runs_on_recorded_data_are_compared_by_their_losses(tmp_path: Path) -> None:
    run = strange_run(tmp_path / "run", dataset(tmp_path / "a"))
    records = [
        {"iteration": k, "env_steps": 24 * k, "updates": k, "samples": 24 * k, "loss": loss, "samples_per_second": 5.0}
        for k, loss in enumerate((3.0, 1.0, 2.0))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    row = run_line(f"compare {run} {run} --json").json[0]
    assert (row["samples"], row["last_loss"], row["lowest_loss"]) == (48, 2.0, 1.0)
    assert row["done"] == 0.75
