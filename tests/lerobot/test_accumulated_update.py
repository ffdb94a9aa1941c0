"""Micro-batches, the ladder and traced memory, on a small ACT inside of LeRobot's interpreter."""

import pytest


def test_any_split_of_a_batch_has_the_gradient_of_the_whole(figures: dict) -> None:
    for size in ("1", "3", "4", "5"):  # 4 + 2 and 5 + 1 are uneven
        assert figures["splits"][size] < 1e-6, size


def test_checkpointing_changes_no_gradient_and_draws_the_same_noise(figures: dict) -> None:
    assert figures["blocks"] >= 3
    assert figures["splits"]["checkpointed"] < 1e-6
    assert figures["splits"]["checkpointed_noise"] < 1e-4


def test_the_whole_gradient_is_clipped_once(figures: dict) -> None:
    # A clipped step is small beside the weights that it is read off, which rounds it.
    assert figures["splits"]["clipped"] < 1e-5
    assert figures["splits"]["clipped_norm"] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("update", [0, 2])
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_out_of_memory_goes_down_by_a_quarter_and_keeps_samples_and_schedule(
    figures: dict, phase: str, update: int
) -> None:
    run, plain = figures["shortages"]["short"][f"{phase} {update}"], figures["shortages"]["plain"]
    # 6 samples are too many, and so are 4; 3 fit.
    assert run["rungs"] == [[update, 4, phase], [update, 3, phase]]
    assert run["samples"] == plain["samples"] == [6, 6, 6, 6]
    assert run["rates"] == plain["rates"]
    assert run["steps"] == plain["steps"] == 4
    assert run["distance"] < 1e-4


@pytest.mark.parametrize("update", [0, 2])
def test_out_of_memory_in_the_optimiser_is_tried_again_with_the_same_gradient(figures: dict, update: int) -> None:
    run, plain = figures["shortages"]["short"][f"optimiser step {update}"], figures["shortages"]["plain"]
    assert run["rungs"] == [[update, 6, "optimiser step"]]
    assert run["rates"] == plain["rates"]
    assert run["steps"] == 4
    assert run["distance"] < 1e-6


def test_each_frame_is_seen_once_per_epoch_and_batches_are_full(figures: dict) -> None:
    batches = figures["orders"]["batches"]
    assert [len(batch) for batch in batches] == [4] * 5
    seen = [frame for batch in batches for frame in batch]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_a_resumed_order_goes_on_with_the_next_batch(figures: dict) -> None:
    assert figures["orders"]["resumed"] == figures["orders"]["batches"][3]


def test_processes_share_the_batch_of_one(figures: dict) -> None:
    assert figures["orders"]["shared"] == [sorted(batch) for batch in figures["orders"]["batches"]]


def test_weights_decide_from_which_dataset_samples_come(figures: dict) -> None:
    # A quarter of the weight for 90 frames, three quarters for 10: 4 standard errors of 1000 draws are 5.5%.
    assert figures["orders"]["weighted_share"] == pytest.approx(0.75, abs=0.055)


def test_traced_memory_is_within_5_percent_of_what_the_allocator_counts(figures: dict) -> None:
    for case in figures["memory"]:
        assert case["traced"] == pytest.approx(case["counted"], rel=0.05), case
    assert {case["decided_by"] for case in figures["memory"]} == {"floor", "line", "small batches"}
