"""What the live page is given of groups of seeds, settings, and the ends of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import append, event, line, make_run

from batchwright.web.folder import Folder
from batchwright.web.server import Refused, Watcher
from batchwright.web.status import CRASHED, end_reason


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    """2 settings x 4 seeds; the return of seed s is 10 i + s, and twice that with the larger rate."""
    for rate in (1, 2):
        for seed in range(4):
            records = [line(i, episode_return=rate * (10.0 * i + seed)) for i in range(20)]
            make_run(tmp_path / f"rate{rate}-s{seed}", records, seed=seed, learning_rate=rate)
    return Watcher(Folder(tmp_path))


def test_eight_runs_of_two_settings_are_two_bands_of_quartiles(watcher: Watcher) -> None:
    names = sorted(watcher.records()[0])
    watcher.state([(name, None) for name in names], 256, bands=False)  # reads the records, as the page does
    groups = watcher.groups(names, "iteration")["groups"]
    assert [(group["label"], len(group["runs"])) for group in groups] == [
        ("learning_rate 1", 4),
        ("learning_rate 2", 4),
    ]
    curves = groups[0]["curves"]
    assert curves["band"] == "quartiles"
    assert curves["axes"]["iteration"][-1] == 19
    assert (curves["mean"]["episode_return"][-1], curves["low"]["episode_return"][-1]) == (191.5, 190.75)
    assert groups[1]["curves"]["high"]["episode_return"][-1] == 384.5


def test_a_group_is_drawn_from_the_runs_that_are_named_and_there(watcher: Watcher) -> None:
    watcher.state([("rate1-s0", None)], 256, bands=False)
    groups = watcher.groups(["rate1-s0", "nowhere"], "env_steps")["groups"]
    assert [group["runs"] for group in groups] == [["rate1-s0"]]


def test_settings_name_every_number_and_the_group_of_a_run(watcher: Watcher) -> None:
    found = watcher.settings()
    assert found["rate2-s3"]["plan"]["learning_rate"] == "2"
    assert found["rate2-s3"]["plan"]["num_envs"] == "8"
    assert found["rate2-s3"]["group"] == found["rate2-s0"]["group"] != found["rate1-s0"]["group"]


def test_groups_of_one_environment_beside_another_are_told_apart(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 3, learning_rate=1)
    make_run(tmp_path / "b", 3, learning_rate=2)
    make_run(tmp_path / "c", 3, env="Pendulum-v1", learning_rate=1)
    labels = {name: one["label"] for name, one in Watcher(Folder(tmp_path)).settings().items()}
    assert labels == {
        "a": "CartPole-v1, learning_rate 1",
        "b": "CartPole-v1, learning_rate 2",
        "c": "Pendulum-v1",
    }


def test_the_list_says_why_a_run_ended(tmp_path: Path) -> None:
    make_run(tmp_path / "killed", 3)
    failed = make_run(tmp_path / "failed", 3, events=[event("failed", 2, "ValueError: the arm hit the table")])
    make_run(tmp_path / "diverged", 3, events=[event("diverged", 2, "training diverged: loss is nan")])
    raised = make_run(tmp_path / "raised", 3)
    (raised / "traceback-20260101-000000-7.txt").write_text("batchwright train X\n\nOSError: disk full\n")
    reasons = {run["name"]: run["reason"] for run in Watcher(Folder(tmp_path)).state([], 16, bands=False)["runs"]}
    assert reasons["failed"] == "ValueError: the arm hit the table"
    assert reasons["diverged"] == "training diverged: loss is nan"
    assert reasons["raised"] == "OSError: disk full"
    assert reasons["killed"].startswith("killed, or its machine stopped")
    append(failed / "events.jsonl", event("resume", 2, "resumed"))
    assert end_reason(CRASHED, [event("failed", 1, "old"), event("resume", 2)], "").startswith("killed")


def test_a_run_that_finished_needs_no_reason(tmp_path: Path) -> None:
    make_run(tmp_path / "done", 20, events=[event("finished", 19, "finished after iteration 20")])
    assert Watcher(Folder(tmp_path)).state([], 16, bands=False)["runs"][0]["reason"] == ""


def test_groups_of_no_run_are_none(watcher: Watcher) -> None:
    assert watcher.groups([], "env_steps") == {"groups": []}
    with pytest.raises(Refused):
        watcher.record("nowhere")
