"""Every transition once per epoch, whatever the number of environments and minibatches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.store.minibatches import cut, layout, shuffled_orders


@given(st.integers(1, 5000), st.data())
def test_the_layout_holds_every_row_once_in_sizes_that_differ_by_at_most_one(rows: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, rows))
    position, weight = layout(rows, parts)
    assert position.shape == weight.shape == (parts, -(-rows // parts))
    assert sorted(position[weight == 1].tolist()) == list(range(rows))
    sizes = weight.sum(1)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1
    assert set(np.unique(weight)) <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("num_envs", "steps", "parts"), [(7, 24, 7), (7, 5, 3), (13, 5, 4), (1000, 3, 11), (1021, 5, 7), (1021, 1, 1)]
)
def test_an_epoch_sees_every_row_exactly_once(num_envs: int, steps: int, parts: int) -> None:
    rows = num_envs * steps
    position, weight = layout(rows, parts)
    for order in shuffled_orders(3, rows, epochs=2):
        index = np.asarray(cut(order, position))
        counted = np.bincount(index[weight == 1], minlength=rows)
        assert counted.tolist() == [1] * rows
        assert index.shape == position.shape
        assert 0 <= index.min() <= index.max() < rows  # padding points at real rows, never past the end


def test_each_epoch_and_each_stream_has_another_order() -> None:
    orders = [*shuffled_orders(0, 60, epochs=3), *shuffled_orders(1, 60, epochs=1)]
    assert len({order.tobytes() for order in orders}) == 4
    assert not np.array_equal(orders[0], np.arange(60))
    np.testing.assert_array_equal(shuffled_orders(0, 60, epochs=3), orders[:3])
