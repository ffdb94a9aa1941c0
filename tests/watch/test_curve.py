"""The learning curve as text: where its marks lie, its size, and how it handles missing points."""

import itertools
import math

from batchwright.watch.curve import learning_curve


def test_a_rising_curve_goes_from_the_lower_left_to_the_upper_right() -> None:
    lines = learning_curve([0, 50, 100], [0.0, 50.0, 100.0], 32, 5, ascii=True).splitlines()
    assert [line[:5] for line in lines[:5]] == ["100 |", "    |", " 50 |", "    |", "  0 |"]
    marks = [[column for column, mark in enumerate(line) if mark == "*"] for line in lines[:5]]
    assert marks[0][-1] == 31
    assert marks[4][0] == 5
    assert all(lower[-1] <= upper[0] for upper, lower in itertools.pairwise(marks))
    assert lines[-1].strip().startswith("0")
    assert lines[-1].endswith("100 steps")


def test_a_braille_curve_has_the_size_asked_for() -> None:
    steps = range(1000)
    lines = learning_curve(list(steps), [math.sin(step / 100) for step in steps], 60, 8).splitlines()
    assert len(lines) == 8 + 2
    assert all(len(line) <= 60 for line in lines)
    assert any(0x2800 < ord(mark) < 0x2900 for mark in "".join(lines))


def test_curves_of_nothing_of_one_point_and_of_holes_are_drawn() -> None:
    assert learning_curve([], []) == "no learning curve: no episode has ended"
    assert learning_curve([1], [math.nan]) == "no learning curve: no episode has ended"
    assert learning_curve([1, 2], [None, math.inf]) == "no learning curve: no episode has ended"
    assert learning_curve([5], [3.0]) == "no learning curve: one point alone, return 3.00 after 5 steps"
    assert "*" in learning_curve([5, 5, 5], [3.0, 4.0, 5.0], ascii=True)
    assert "*" in learning_curve([1, 2, 3, 4], [1.0, math.nan, None, 1.0], ascii=True)
    assert "*" in learning_curve([1, 2], [-1e30, 1e30], width=1, height=1, ascii=True)
