"""Running statistics against NumPy's on all the data at once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from batchwright.nets.normalise import OBS_CLIP, RunningMoments, batch_moments, normalise_obs

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
BATCHES = st.lists(hnp.arrays(np.float64, st.tuples(st.integers(0, 6), st.just(3)), elements=NUMBERS), max_size=6)


def moments(rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    mean = rows.mean(0) if len(rows) else np.zeros(rows.shape[1])
    return len(rows), mean, np.square(rows - mean).sum(0)


@given(BATCHES)
def test_merged_batches_have_the_moments_of_all_rows_together(batches: list[np.ndarray]) -> None:
    running = RunningMoments.empty(3)
    for rows in batches:
        running = running.merge(*moments(rows))
    everything = np.concatenate([np.zeros((0, 3)), *batches])
    assert running.count == len(everything)
    if len(everything):
        scale = 1.0 + np.abs(everything).max()
        np.testing.assert_allclose(running.mean, everything.mean(0), atol=1e-12 * scale)
        np.testing.assert_allclose(running.squares / running.count, everything.var(0), atol=1e-12 * scale**2)


def test_a_small_spread_on_a_large_offset_survives() -> None:
    """Sums of squares in float32 would lose it; two passes and float64 do not."""
    draw = np.random.default_rng(0)
    rows = (1000 + 0.1 * draw.normal(size=(20_000, 1))).astype(np.float32)
    running = RunningMoments.empty(1)
    for part in np.split(rows, 20):
        running = running.merge(*batch_moments(jnp.asarray(part), jnp.ones(len(part))))
    np.testing.assert_allclose(running.std, rows.astype(np.float64).std(0), rtol=0.01)


def test_rows_without_weight_do_not_count() -> None:
    rows = jnp.float32([[1, 2], [99, 99], [3, 6]])
    count, mean, squares = batch_moments(rows, jnp.float32([1, 0, 1]))
    assert (float(count), mean.tolist(), squares.tolist()) == (2, [2, 4], [2, 8])
    before = RunningMoments.empty(2).merge(count, mean, squares)
    assert before.merge(*batch_moments(rows, jnp.zeros(3))) is before


def test_constant_dimensions_are_centred_and_not_blown_up() -> None:
    running = RunningMoments.empty(2).merge(*moments(np.array([[5.0, 1.0], [5.0, 3.0]])))
    assert running.std.tolist() == [1.0, 1.0]
    constant = RunningMoments.empty(1).merge(*moments(np.full((50, 1), 5.0)))
    assert constant.std.tolist() == [1.0]
    assert normalise_obs(jnp.float32([5.0]), constant.mean, constant.std).tolist() == [0.0]


def test_nothing_seen_leaves_observations_as_they_are() -> None:
    assert RunningMoments.empty(2).std.tolist() == [1.0, 1.0]
    assert RunningMoments.empty(2).merge(1, [7.0, 7.0], [0.0, 0.0]).std.tolist() == [1.0, 1.0]


def test_normalised_observations_are_clipped() -> None:
    found = normalise_obs(jnp.float32([1e6, -1e6, 3.0]), jnp.float32(1.0), jnp.float32(2.0))
    assert found.tolist() == [OBS_CLIP, -OBS_CLIP, 1.0]
