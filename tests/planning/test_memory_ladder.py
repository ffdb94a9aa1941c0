"""The rungs that training takes when memory runs out."""

from hypothesis import given
from hypothesis import strategies as st

from batchwright.planning.memory_ladder import Rung, ladder, micro_batches, show_sizes


def sizes(rungs: list[Rung]) -> list[int]:
    return [rung.samples_per_step for rung in rungs]


def test_23_samples_go_down_by_about_a_quarter_each_time() -> None:
    rungs = ladder(Rung(23, False, "fp32"))
    assert sizes(rungs) == [17, 12, 9, 6, 6, 6, 4, 3, 2, 1]  # 23 x 0.75 = 17.25, and so on
    assert micro_batches(23, 17) == [17, 6]
    assert show_sizes(23, 9) == "2 x 9 + 5"


def test_checkpointing_comes_at_a_quarter_of_the_micro_batch_and_bf16_after_it() -> None:
    rungs = ladder(Rung(24, False, "fp32"))
    assert sizes(rungs) == [18, 13, 9, 6, 6, 6, 4, 3, 2, 1]
    assert [(rung.gradient_checkpointing, rung.precision) for rung in rungs[3:6]] == [
        (False, "fp32"),
        (True, "fp32"),
        (True, "bf16"),
    ]


def test_what_is_on_already_is_no_rung() -> None:
    assert sizes(ladder(Rung(2, True, "bf16"))) == [1]
    assert ladder(Rung(1, True, "bf16")) == []


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.booleans(), st.sampled_from(["fp32", "bf16"]))
def test_every_rung_keeps_the_samples_and_the_last_one_holds_a_single_sample(
    samples: int, most: int, checkpointing: bool, precision: str
) -> None:
    assert sum(micro_batches(samples, most)) == samples
    assert max(micro_batches(samples, most)) <= most
    rungs = [Rung(most, checkpointing, precision), *ladder(Rung(most, checkpointing, precision))]
    assert len(set(rungs)) == len(rungs)
    assert rungs[-1] == Rung(1, True, "bf16")
