"""The advice that follows from a probe of the loader; and a probe of real datasets."""

from dataclasses import replace

import pytest

from batchwright.core.errors import UserError
from batchwright.lerobot.lerobot_probe import judge, probed_sizes
from batchwright.planning.memory import PolicyMemory


def answer(speeds: dict[int, float], training: dict[int, float] | None = None, **others: object) -> dict:
    sweep = [{"workers": workers, "samples_per_second": speed} for workers, speed in speeds.items()]
    found = {
        "sweep": [row | {"training_samples_per_second": (training or {}).get(row["workers"])} for row in sweep],
        "update_samples_per_second": None,
        "decoded_images": 1,
        "sample_seconds": 0.005,
        "sample_seconds_here": 0.005,
        "chunk_size": 100,
        "image_keys": ["observation.images.top"],
        "video_keys": [],
        "video_backend": "pyav",
        "torchcodec": False,
        "shm_free_bytes": 2**34,
    }
    return found | others


def test_the_fewest_workers_within_a_tenth_of_the_best_are_advised() -> None:
    report = judge(answer({0: 10, 1: 18, 2: 30, 4: 32, 8: 20}), 8, 2, 10**6)
    assert report.advised == 2  # 30 of 32 is 94%
    assert report.verdicts[0].startswith("starved")
    assert report.verdicts[4].startswith("good")
    assert report.verdicts[8].startswith("too many")


def test_workers_that_the_update_cannot_use_are_not_advised() -> None:
    training = {0: 6.7, 1: 18.0, 2: 20.0, 4: 20.0}
    report = judge(answer({0: 10, 1: 18, 2: 30, 4: 32}, training, update_samples_per_second=20.0), 8, 2, 10**6)
    assert report.advised == 1  # 18 of 20
    assert report.verdicts[0] == "starved (34% of the best)"


def test_workers_that_take_cores_from_the_update_are_too_many() -> None:
    # By themselves 2 workers load four times as fast; the update is on the same cores and slows down.
    training = {0: 50.0, 1: 31.0, 2: 31.0}
    report = judge(answer({0: 250, 1: 500, 2: 1000}, training, update_samples_per_second=60.0), 8, 2, 10**6)
    assert report.advised == 0
    assert report.verdicts[1] == "too many (62% of the best)"


def test_the_chunk_defect_is_found_where_it_is_and_only_there() -> None:
    speeds = {0: 10.0, 1: 18.0}
    slow = judge(answer(speeds, decoded_images=101, sample_seconds=0.47), 8, 2, 10**6)
    assert "101 are decoded and 1 used, which takes 470.0 ms per sample" in slow.findings[0]
    assert judge(answer(speeds, sample_seconds=0.47), 8, 2, 10**6).findings == ()


def test_a_small_shm_is_named_with_both_figures() -> None:
    report = judge(answer({0: 1.0, 2: 30.0}, shm_free_bytes=64 * 2**20), 16, 2, 2 * 10**6)
    # 2 workers x 2 batches x 16 samples x 2 MB = 128 MB
    assert "/dev/shm has 64.0 MiB free, the batches of 2 workers take 122.1 MiB" in report.findings[-1]


def test_memory_is_measured_at_sizes_that_the_optimiser_does_not_hide() -> None:
    traced = PolicyMemory(600e6, 100e6, "", "", floor_bytes=1000e6)
    # 1.15 x 1000 MB = 600 MB + 5.5 x 100 MB: 6 samples, and twice as many.
    assert probed_sizes(traced, planned=24, fits=50) == (6, 12)
    assert probed_sizes(PolicyMemory(600e6, 100e6, "", ""), planned=24, fits=50) == (4, 8)
    # Small batches follow 800 MB + 80 MB x samples: from 10 samples on that is the lower line.
    bent = replace(traced, small_batches=((800e6, 80e6),))
    assert probed_sizes(bent, planned=24, fits=50) == (10, 20)
    assert probed_sizes(bent, planned=24, fits=19) == (6, 12)
    with pytest.raises(UserError, match="12 samples would tell what one takes, and 11 fit"):
        probed_sizes(traced, planned=24, fits=11)


def test_chunks_are_read_without_the_images_beside_them_and_samples_stay_equal(figures: dict) -> None:
    # The frame itself, and one more for each of the 8 actions.
    assert figures["chunks"]["images"] == {"decoded": [9, 1], "skipped": True, "equal": True}
    assert figures["chunks"]["video"] == {"decoded": [0, 0], "skipped": False, "equal": True}


@pytest.mark.parametrize("kind", ["images", "video"])
def test_a_probe_of_a_real_dataset_names_the_defect_where_it_is(figures: dict, kind: str) -> None:
    report = judge(figures["probed"][kind], 4, 2, 10**4)
    assert any("chunk_size x cameras" in text for text in report.findings) == (kind == "images")
    assert any("decoded from video" in text for text in report.findings) == (kind == "video")
    assert report.update_speed is not None
    assert "take: --workers" in str(report)
