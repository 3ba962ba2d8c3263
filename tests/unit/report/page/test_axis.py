"""Places along an axis, and its marks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.report.page.axis import Axis

_FIGURES = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6)


def test_the_middle_is_in_the_middle() -> None:
    """Equal differences have equal lengths."""
    axis = Axis.around([0.0, 10.0], 0.0, 100.0)
    assert axis.at(5.0) == 50.0
    assert axis.at(2.5) - axis.at(0.0) == pytest.approx(axis.at(10.0) - axis.at(7.5), abs=0.2)


def test_far_apart_figures_are_told_by_their_ratios() -> None:
    """Equal ratios have equal lengths, where there are only positive figures of which one is 20 times another."""
    axis = Axis.around([0.1, 1.0, 10.0], 0.0, 100.0, spread=True)
    assert axis.logarithmic
    assert axis.at(1.0) == 50.0
    for values in ([0.0, 1.0, 100.0], [-1.0, 100.0], [1.0, 10.0]):
        assert not Axis.around(values, 0.0, 100.0, spread=True).logarithmic
    assert not Axis.around([0.1, 10.0], 0.0, 100.0).logarithmic


def test_marks_are_round_and_within() -> None:
    """Of 1, 2 or 5 times a power of ten, written without the rounding of binary fractions."""
    assert [tick.text for tick in Axis(0.0, 1.0, 0.0, 100.0).ticks()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [tick.text for tick in Axis(91.9, 98.3, 0.0, 100.0).ticks()] == ["92", "94", "96", "98"]
    assert [tick.text for tick in Axis(0.09, 11.0, 0.0, 100.0, logarithmic=True).ticks(6)] == [
        "0.1",
        "0.3",
        "1",
        "3",
        "10",
    ]


@given(_FIGURES, st.booleans())
def test_every_figure_has_a_place(values: list[float], spread: bool) -> None:
    """Within the ends, in the order of the figures, however large, small or equal they are; marks have one too."""
    axis = Axis.around(values, 10.0, 90.0, spread=spread)
    places = [axis.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(10.0 <= place <= 90.0 for place in places)
    ticks = axis.ticks()
    assert all(10.0 <= tick.at <= 90.0 and math.isfinite(float(tick.text)) for tick in ticks)
    assert len(ticks) <= 7


def test_the_ends_may_be_turned_round() -> None:
    """As those of a drawing, whose places go down."""
    axis = Axis.around([0.0, 10.0], 100.0, 0.0)
    assert axis.at(10.0) < axis.at(0.0)
