"""Correlations by hand, and the picture of rewards."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image

from batchwright.watch.agreement import agreement, pearson, ranks, spearman
from batchwright.watch.reward_picture import Strip, picture, png


def test_equal_values_share_their_mean_rank() -> None:
    assert ranks(np.array([10.0, 20.0, 10.0, 30.0])).tolist() == [1.5, 3.0, 1.5, 4.0]


def test_rank_correlation_sees_order_and_not_size() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(x, np.exp(x)) == pytest.approx(1.0)
    assert spearman(x, -np.exp(x)) == pytest.approx(-1.0)
    # Deviations (-1.5, -.5, .5, 1.5) and (-1, 1, -1, 1): 2 / sqrt(5 x 4).
    assert pearson(x, np.array([0.0, 2.0, 0.0, 2.0])) == pytest.approx(2 / np.sqrt(20))


def test_constant_values_have_no_correlation() -> None:
    assert spearman(np.ones(4), np.arange(4)) is None
    assert pearson(np.array([1.0]), np.array([2.0])) is None


def test_the_error_is_compared_with_that_of_a_constant() -> None:
    found = agreement(np.array([1.0, 3.0]), np.array([2.0, 2.0 + 2.0]), constant=3.0)
    assert (found["error"], found["constant_error"], found["error_share"]) == (1.0, 1.0, 1.0)


def test_a_png_of_ours_is_read_back_by_pillow_as_it_was() -> None:
    image = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png(image)))), image)
    grey = image[..., :1]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png(grey)))), grey[..., 0])


def test_the_picture_has_a_point_for_every_step_and_fetches_nothing() -> None:
    frames = [(0, np.zeros((40, 40, 3), np.uint8)), (4, np.ones((40, 40, 3), np.uint8))]
    page = picture([Strip("a<b>", 1.0, np.arange(5.0), -np.arange(5.0), frames)], "x & y")
    lines = re.findall(r'<polyline class="(\w+)" points="([^"]*)"', page)
    assert [(name, len(points.split())) for name, points in lines] == [("true", 5), ("predicted", 5)]
    assert page.count("data:image/png;base64,") == 2
    assert "a<b>" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_a_flat_line_is_pictured_too() -> None:
    assert "nan" not in picture([Strip("a", 0.0, np.zeros(3))], "flat")
