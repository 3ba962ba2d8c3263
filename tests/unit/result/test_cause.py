"""What an engine's range lacks or has too much of."""

from __future__ import annotations

import pytest

from pytest_quant.result import RangeRow


@pytest.mark.parametrize(
    ("engine", "data", "factor", "is_off"),
    [
        ((0.0, 255.0), (0.0, 2.0), 127.5, True),
        ((0.0, 3.0), (0.0, 2.0), 1.5, False),
        ((0.0, 1.5), (0.0, 2.0), 0.75, False),
        ((0.0, 1.49), (0.0, 2.0), 0.745, True),
        ((-0.75, 0.75), (-1.0, 1.0), 0.75, False),
        ((-0.7, 0.7), (-1.0, 1.0), 0.7, True),
        # As wide as what the samples need, and elsewhere.
        ((0.0, 2.0), (-1.0, 1.0), 1.0, True),
        ((-1.0, 1.0), (3.0, 3.0), 0.0, True),
        # Nobody knows the engine's.
        ((0.0, 0.0), (0.0, 2.0), 0.0, False),
    ],
)
def test_a_range_is_off_if_it_cuts_off_a_quarter_or_has_half_as_much_again(
    engine: tuple[float, float], data: tuple[float, float], factor: float, is_off: bool
) -> None:
    """Of what the samples need; its factor is the ratio of the widths."""
    row = RangeRow(("conv",), engine, data)
    assert row.factor == pytest.approx(factor)
    assert row.is_off == is_off
