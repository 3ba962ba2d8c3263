"""The shapes of samples, found while the data is read."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from pytest_quant.data.batch import Feeds

Shape = tuple[int, ...]

_MAX_KINDS = 4096
"""Different shapes that are counted; one that comes later only widens the range."""


@dataclass(frozen=True, slots=True)
class SampleShapes:
    """Shapes of one input over all samples, without a batch axis.

    Attributes
    ----------
    smallest, largest : by axis; no single sample need have all of them at once.
    commonest : the shape of this input in the commonest kind of sample.
    """

    smallest: Shape
    commonest: Shape
    largest: Shape


class ShapeScan:
    """Counts the samples of each kind: those whose inputs all have the same shapes.

    Inputs are counted together, because the commonest shape of each by itself may belong to different samples, and a
    network whose inputs share an axis takes no such mixture.
    """

    def __init__(self) -> None:
        self._kinds: Counter[tuple[Shape, ...]] = Counter()
        self._names: tuple[str, ...] = ()
        self._ranges: dict[str, tuple[Shape, Shape] | None] = {}

    def see(self, feeds: Feeds, n: int) -> None:
        """Take note of `n` samples of one kind, as arrays with a leading axis."""
        self._names = tuple(feeds)
        self._count(tuple(rows.shape[1:] for rows in feeds.values()), n)

    def add(self, other: ShapeScan) -> None:
        """Take note of everything that `other` has seen."""
        self._names = self._names or other._names
        for kind, n in other._kinds.items():
            self._count(kind, n)
        for name, known in other._ranges.items():
            for shape in known or ():
                self._widen(name, shape)

    def found(self) -> dict[str, SampleShapes]:
        """Return the shapes of each input; one whose samples differ in rank is left out.

        Where several kinds are equally common, the one in the middle by its number of elements is taken.
        """
        most = max(self._kinds.values(), default=0)
        common = sorted((kind for kind, n in self._kinds.items() if n == most), key=_elements)
        if not common:
            return {}
        middle = dict(zip(self._names, common[len(common) // 2], strict=True))
        return {
            name: SampleShapes(known[0], middle[name], known[1])
            for name, known in self._ranges.items()
            if known is not None
        }

    def _count(self, kind: tuple[Shape, ...], n: int) -> None:
        if kind in self._kinds:
            self._kinds[kind] += n
            return
        if len(self._kinds) < _MAX_KINDS:
            self._kinds[kind] = n
        for name, shape in zip(self._names, kind, strict=True):
            self._widen(name, shape)

    def _widen(self, name: str, shape: Shape) -> None:
        known = self._ranges.get(name, (shape, shape))
        if known is None or len(known[0]) != len(shape):
            self._ranges[name] = None
            return
        low, high = known
        self._ranges[name] = tuple(map(min, low, shape)), tuple(map(max, high, shape))


def _elements(kind: tuple[Shape, ...]) -> int:
    return sum(math.prod(shape) for shape in kind)
