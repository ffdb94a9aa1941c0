"""Bursts of steps: how long they are, and that programs beside them do not change what counts."""

from __future__ import annotations

import itertools

from batchwright.envs.engines.measure import chunks_of_a_burst, measure_engines

CHUNK_SECONDS = 1e-5
HELD_UP_SECONDS = 60e-3
"""As long as a machine with 25 programs in turn on 2 cores holds one up."""


def test_a_burst_takes_about_two_milliseconds() -> None:
    # 128 chunks of 10 us are the first power of two that takes at least 1 ms.
    assert chunks_of_a_burst(lambda chunks: (chunks * CHUNK_SECONDS, chunks * CHUNK_SECONDS)) == 128


def test_bursts_that_were_held_up_do_not_make_the_others_shorter() -> None:
    held_up = itertools.cycle([True] * 9 + [False])  # nine of ten wait for other programs

    def timed(chunks: int) -> tuple[float, float]:
        return chunks * CHUNK_SECONDS + (HELD_UP_SECONDS if next(held_up) else 0.0), chunks * CHUNK_SECONDS

    assert chunks_of_a_burst(timed) == 128


def test_an_environment_of_seconds_is_not_stepped_twenty_times() -> None:
    asked: list[int] = []

    def timed(chunks: int) -> tuple[float, float]:
        asked.append(chunks)
        return 1.5, 0.0  # it waits for something outside

    assert chunks_of_a_burst(timed) == 1
    assert asked == [1]


def test_a_slow_environment_is_told_from_a_busy_machine_at_the_first_step() -> None:
    asked: list[int] = []

    def timed(chunks: int) -> tuple[float, float]:
        asked.append(chunks)
        return 0.3, 0.01

    assert chunks_of_a_burst(timed) == 1
    assert asked == [1]


def test_memory_and_rate_of_each_candidate_are_known() -> None:
    found = measure_engines("CartPole-v1", [("gymnasium-sync", 2), ("gymnasium-sync", 4)], 0.01, num_threads=1)
    assert {measured.num_envs for measured in found} == {2, 4}
    assert all(measured.steps_per_second > 0 and measured.memory_bytes >= 0 for measured in found)
