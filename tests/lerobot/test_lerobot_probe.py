"""The advice that follows from a probe of the loader; and a probe of real datasets."""

from pathlib import Path

import pytest

from batchwright.lerobot.lerobot_probe import judge
from batchwright.lerobot.lerobot_python import LeRobotPython
from run_batchwright import run_line


def answer(speeds: dict[int, float], **others: object) -> dict:
    found = {
        "sweep": [{"workers": workers, "samples_per_second": speed} for workers, speed in speeds.items()],
        "sample_seconds": 0.005,
        "sample_seconds_without_chunk": 0.005,
        "chunk_size": 100,
        "image_keys": ["observation.images.top"],
        "video_keys": [],
        "video_backend": "pyav",
        "torchcodec": False,
        "shm_free_bytes": 2**34,
    }
    return found | others


def test_the_fewest_workers_within_a_tenth_of_the_best_are_advised() -> None:
    report = judge(answer({0: 10, 1: 18, 2: 30, 4: 32, 8: 20}), 8, None, 2, 10**6)
    assert report.advised == 2  # 30 of 32 is 94%
    assert report.verdicts[0].startswith("starved")
    assert report.verdicts[4].startswith("good")
    assert report.verdicts[8].startswith("too many")


def test_the_chunk_defect_is_found_where_it_is_and_only_there() -> None:
    speeds = {0: 10.0, 1: 18.0}
    slow = judge(answer(speeds, sample_seconds=0.47), 8, None, 2, 10**6)
    assert "470.0 ms with its 100 actions and 5.0 ms without" in slow.findings[0]
    assert judge(answer(speeds), 8, None, 2, 10**6).findings == ()
    video = answer(speeds, sample_seconds=0.47, image_keys=[], video_keys=["observation.images.top"])
    assert not any("chunk_size" in text for text in judge(video, 8, None, 2, 10**6).findings)


def test_a_small_shm_is_named_with_both_figures() -> None:
    report = judge(answer({0: 1.0, 2: 30.0}, shm_free_bytes=64 * 2**20), 16, None, 2, 2 * 10**6)
    # 2 workers x 2 batches x 16 samples x 2 MB = 128 MB
    assert "/dev/shm has 64.0 MiB free, the batches of 2 workers take 122.1 MiB" in report.findings[-1]


@pytest.mark.parametrize("kind", ["images", "video"])
def test_a_probe_measures_the_loader_of_a_dataset(
    lerobot: LeRobotPython, toy_data: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    line = f"lerobot probe --dataset {toy_data[kind]} --seconds 0.5 --hub-offline --json -- --policy.chunk_size=20"
    found = run_line(line + " --policy.n_action_steps=20")
    assert found.code == 0, found.err
    speeds = {row["workers"]: row["samples_per_second"] for row in found.json["sweep"]}
    assert {0, 1, 2} <= set(speeds)
    assert speeds[found.json["advised_workers"]] >= 0.9 * max(speeds.values())
    assert any("chunk_size x cameras" in text for text in found.json["findings"]) == (kind == "images")
