"""Figures become text that is true to the figure, and columns stand below each other in the cells of a terminal."""

from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_quant.report.text import GAP, align, figure, points, shorten

_FINITE = st.floats(-1e9, 1e9)


def _half_a_unit(text: str) -> float:
    """Half of what the last printed digit counts."""
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0**exponent


@given(_FINITE)
def test_a_printed_figure_is_the_figure_rounded(value: float) -> None:
    """Half a unit of the last digit away at the most; digits that were left out were zeros."""
    text = figure(value)
    assert math.isclose(float(text), value, rel_tol=0.5e-3)
    assert abs(float(text) - value) <= max(_half_a_unit(text), abs(value) * 0.5e-3) * (1 + 1e-9)


@given(st.floats(-100.0, 100.0))
def test_a_printed_percentage_is_right_to_two_decimals(value: float) -> None:
    """Or better where two decimals would hide what it is."""
    assert abs(float(points(value)) - value) <= 0.005 * (1 + 1e-9)


@given(st.floats(-100.0, 100.0))
def test_only_zero_is_printed_as_zero(value: float) -> None:
    """A drop of one sample in a million is not none."""
    assert (float(points(value)) == 0.0) is (value == 0.0)
    assert (float(figure(value)) == 0.0) is (value == 0.0)


@given(st.integers(1, 9).map(lambda digits: 100.0 - 10.0**-digits) | st.floats(99.0, 99.99999))
def test_only_all_of_it_is_printed_as_100(value: float) -> None:
    """Coverage of all but one node in a million is not 100 %."""
    if value < 99.999999:
        assert float(points(value)) < 100.0
    assert points(100.0) == "100.00"


def test_figures_that_are_odd() -> None:
    """What was not measured is never 0, zero has no sign, and large figures are written out."""
    assert (figure(None), points(None), points(-0.0), figure(-0.0)) == ("-", "-", "0.00", "0")
    assert [figure(12345.6), figure(9999.7), figure(1234.56)] == ["12346", "10000", "1235"]


@given(st.text(), st.integers(5, 60))
def test_a_shortened_text_keeps_both_ends(text: str, limit: int) -> None:
    """The beginning of a node id is its file, the end its parameters."""
    shown = shorten(text, limit)
    assert len(shown) == min(len(text), limit)
    assert (shown[0], shown[-1]) == (text[0], text[-1]) if text else shown == ""


_TEXTS = st.text(st.sampled_from("ab1.-% 点文é"), max_size=8)
_TABLES = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.lists(_TEXTS, min_size=n, max_size=n), min_size=1, max_size=5)
)


def _cut(line: str, first: int, after: int) -> str:
    """What a line has in these cells of the terminal."""
    starts = [cell_len(line[:place]) for place in range(len(line))]
    return "".join(char for char, start in zip(line, starts, strict=True) if first <= start < after)


@given(_TABLES, st.sets(st.integers(0, 3)))
def test_each_column_takes_the_same_cells_in_each_line(rows: list[list[str]], right: set[int]) -> None:
    """Read back from there a text is whole; it begins at the left of its column, or ends at its right."""
    sizes = [max(map(cell_len, texts)) for texts in zip(*rows, strict=True)]
    for row, line in zip(rows, align(rows, right), strict=True):
        assert line == line.rstrip()
        padded = line + " " * (sum(sizes) + len(GAP) * (len(sizes) - 1) - cell_len(line))
        for place, text in enumerate(row):
            first = sum(sizes[:place]) + len(GAP) * place
            cell = _cut(padded, first, first + sizes[place])
            assert cell.strip() == text.strip()
            assert cell.endswith(text) if place in right else cell.startswith(text)


def test_without_rows_there_are_no_lines() -> None:
    """And no sizes."""
    assert align([]) == []
