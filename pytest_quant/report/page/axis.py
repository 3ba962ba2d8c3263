"""From figures to places in a drawing: an axis with round marks, linear or by powers of ten."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_quant.report.page.content import Tick

_PAD = 0.08
_WIDE = 20.0
"""Positive figures whose largest is so many times the least are told apart by powers of ten only."""

_LEAST, _LARGEST = 1e-150, 1e150
"""Beyond them nothing is told apart, and no step of the sums below leaves what a float holds."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Attributes
    ----------
    low, high : the figures at its ends, `low` below `high`.
    start, end : the places of its ends in the drawing.
    logarithmic : equal ratios have equal lengths.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, *, spread: bool = False) -> Axis:
        """Return an axis that holds all `values`, with some room beside them.

        Parameters
        ----------
        values : finite figures, one at least.
        start, end : the places of its ends.
        spread : by powers of ten, where all figures are positive and far apart.
        """
        known = [min(max(value, -_LARGEST), _LARGEST) for value in values]
        low, high = min(known), max(known)
        if spread and low > _LEAST and high / low > _WIDE:
            room = (high / low) ** _PAD
            return cls(low / room, high * room, start, end, logarithmic=True)
        room = (high - low) * _PAD
        if room <= _LEAST:
            room = abs(high) * _PAD if abs(high) > _LEAST else 1.0
        return cls(low - room, high + room, start, end)

    def at(self, value: float) -> float:
        """Return the place of a figure, to a tenth; one beyond an end is at that end."""
        if self.logarithmic:
            low, high = math.log(self.low), math.log(self.high)
            share = (math.log(max(value, self.low)) - low) / (high - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)

    def ticks(self, most: int = 5) -> tuple[Tick, ...]:
        """Return round figures along the axis, `most` at the most."""
        values = self._decades(most) if self.logarithmic else self._steps(most)
        return tuple(Tick(self.at(value), f"{value:.6g}") for value in values)

    def _steps(self, most: int) -> list[float]:
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((factor * power for factor in (1.0, 2.0, 5.0) if factor * power >= rough), 10.0 * power)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        # Of the step's own digits: 3 * 0.1 is not 0.3.
        return [float(f"{number * step:.12g}") for number in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
            marks = [factor * 10.0**power for power in powers for factor in factors]
            found = [mark for mark in marks if self.low <= mark <= self.high]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]
