"""Statistics of returns against figures worked out by hand, and against SciPy where it has them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.watch.statistics import MovingStatistics, bootstrap_interval, interquartile_mean, summarise


def test_eight_returns_by_hand() -> None:
    # sorted 1 2 3 4 5 6 7 100; quartiles at positions 1.75 and 5.25; the middle half is 3 4 5 6
    found = summarise([100, 7, 6, 5, 4, 3, 2, 1])
    assert found["episodes"] == 8
    assert found["mean"] == 16
    assert found["median"] == 4.5
    assert found["iqr"] == [2.75, 6.25]
    assert found["iqm"] == 4.5
    assert found["returns"] == [100, 7, 6, 5, 4, 3, 2, 1]


def test_one_episode_has_a_middle_and_no_interval() -> None:
    found = summarise([3])
    assert (found["mean"], found["median"], found["iqr"], found["iqm"]) == (3, 3, [3, 3], 3)
    assert found["mean_interval"] is None
    assert found["iqm_interval"] is None


def test_the_interval_of_two_episodes_is_both() -> None:
    # a resample is low-low or high-high one time in four each: beyond 2.5% on both sides
    found = summarise([10, 20])
    assert found["mean"] == found["iqm"] == 15
    assert found["mean_interval"] == found["iqm_interval"] == [10, 20]


def test_equal_returns_have_an_interval_of_no_width() -> None:
    assert summarise([500.0] * 20)["iqm_interval"] == [500, 500]


def test_no_episode_and_returns_that_are_not_finite_are_counted_not_averaged() -> None:
    assert summarise([])["mean"] is None
    found = summarise([1.0, math.nan, 3.0, math.inf])
    assert (found["episodes"], found["nonfinite_episodes"], found["mean"]) == (4, 2, 2.0)
    assert found["returns"] == [1.0, None, 3.0, None]
    assert summarise([math.nan])["iqr"] is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_the_interquartile_mean_is_the_one_of_the_literature(values: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")  # rliable computes it so
    assert interquartile_mean(np.array(values)) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-9, abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_intervals_are_ordered_inside_the_returns_and_plain_json(values: list[float]) -> None:
    found = summarise(values)
    for name in ("mean_interval", "iqm_interval"):
        low, high = found[name]
        assert min(values) - 1e-6 <= low <= high <= max(values) + 1e-6
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_same_returns_give_the_same_interval_and_no_global_generator_is_touched() -> None:
    values = np.random.default_rng(5).normal(size=50)
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    assert summarise(values) == summarise(values)
    assert np.random.get_state()[1].tolist() == before


def test_the_interval_of_the_mean_is_about_two_standard_errors_to_each_side() -> None:
    values = np.random.default_rng(0).normal(10.0, 2.0, size=400)
    low, high = bootstrap_interval([values], lambda drawn: drawn.mean(axis=-1)) or (0, 0)
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.25 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.25 * error)


def test_groups_are_resampled_within_themselves() -> None:
    # mixed freely, the mean of these would vary; each group by itself cannot
    groups = [np.zeros(5), np.full(5, 100.0)]
    assert bootstrap_interval(groups, lambda drawn: drawn.mean(axis=-1)) == [50, 50]


def test_many_returns_are_resampled_in_pieces() -> None:
    low, high = summarise(np.arange(30_000.0))["mean_interval"]
    assert 14_800 < low < 14_999.5 < high < 15_200


def test_the_first_moving_average_equals_the_return() -> None:
    moving = MovingStatistics()
    assert (moving.mean, moving.moving, moving.best) == (None, None, None)
    moving.add(1.234)
    assert (moving.mean, moving.moving, moving.best) == (1.234, 1.234, 1.234)


def test_the_average_moves_over_ten_iterations_and_best_is_the_highest() -> None:
    moving = MovingStatistics()
    for value in (100, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        moving.add(value)
    assert (moving.mean, moving.moving, moving.best) == (10, 5.5, 100)


def test_an_iteration_without_episodes_has_no_return_and_leaves_the_rest() -> None:
    moving = MovingStatistics()
    moving.add(4.0)
    for nothing in (None, math.nan):
        moving.add(nothing)
        assert (moving.mean, moving.moving, moving.best) == (None, 4.0, 4.0)


def test_a_resumed_run_goes_on_with_the_figures_of_its_record() -> None:
    straight, resumed = MovingStatistics(), MovingStatistics()
    records = [{"iteration": i, "episode_return": float(i * i % 7)} for i in range(20)]
    straight.add_records(records, "episode_return")
    resumed.add_records(records[:13], "episode_return")
    resumed.add_records(records[13:], "episode_return")
    assert (straight.moving, straight.best) == (resumed.moving, resumed.best)
