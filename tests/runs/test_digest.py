"""The fingerprint of parameters that records carry and `prove` compares."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from batchwright.runs.engine_learner import DIGEST_SUMS, digest

LARGE = 2 * 16 * DIGEST_SUMS + 1001  # float32 numbers: 16 rows of sums and a part of another
SMALL = 1000


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(count).astype(np.float32)


def changed(count: int, *places: int) -> np.ndarray:
    found = numbers(count)
    found[list(places)] = np.nextafter(found[list(places)], np.float32(np.inf))
    return found


def negated(count: int, *places: int) -> np.ndarray:
    found = numbers(count)
    found[list(places)] *= -1
    return found


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_equal_bits_have_equal_digests(count: int) -> None:
    assert digest(numbers(count)) == digest(numbers(count).copy())


@pytest.mark.parametrize("count", [SMALL, LARGE])
@pytest.mark.parametrize("place", [0, 1, 501, -1])
def test_the_last_bit_of_one_number_changes_the_digest(count: int, place: int) -> None:
    assert digest(changed(count, place)) != digest(numbers(count))


@pytest.mark.parametrize("row", [0, 1, 7, 15])
def test_signs_that_change_together_do_not_cancel(row: int) -> None:
    """Odd places of float32 hold the highest bit of a word of 8 bytes: without a shift two of them would cancel."""
    here, there = 2 * DIGEST_SUMS * row + 1, 2 * DIGEST_SUMS * ((row + 3) % 16) + 1
    found = {digest(numbers(LARGE)), digest(negated(LARGE, here)), digest(negated(LARGE, here, there))}
    assert len(found) == 3
    assert digest(-numbers(LARGE)) != digest(numbers(LARGE))


def test_numbers_that_change_places_change_the_digest() -> None:
    found = numbers(LARGE)
    below = 2 * DIGEST_SUMS  # the same sum, another row
    found[[0, below]] = found[[below, 0]]
    assert digest(found) != digest(numbers(LARGE))


def test_a_zero_and_a_negative_zero_differ() -> None:
    zeros = np.zeros(LARGE, np.float32)
    assert digest(-zeros) != digest(zeros)


def test_a_small_array_is_hashed_as_it_is() -> None:
    assert digest(numbers(SMALL)) == hashlib.blake2b(numbers(SMALL).tobytes(), digest_size=8).hexdigest()
