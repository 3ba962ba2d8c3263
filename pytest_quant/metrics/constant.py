"""Outputs that say nothing about the input: the same for every sample, while the reference's are not.

Rounding makes a constant of an output only where the reference itself hardly varies, or where the output is a
decision and the samples are few. What is beyond that is a broken output, whatever the limits say:

- Values of a continuous kind (floats). Those that lie within two steps of int8 of each other, steps of 1/127 of the
  largest value, may come out as one: one step for the rounding, and as much again because calibration may have
  seen a wider range than this set has. An output of zeros is no rounding of a reference that varies.
- Decisions (integers, truth values, texts, floats that are all whole numbers). A few may flip and so be the same for
  all samples. That each of ten flips has a chance below 0.1 %, even if every second decision flipped: where ten
  values of the reference or more are others than the constant, it is no chance.
"""

from __future__ import annotations

import numpy as np

from pytest_quant.metrics.metric import Array
from pytest_quant.result import OutputFault

_STEPS = 2 / 127
_FEWEST_DECISIONS = 10


class ConstantOutput:
    """Accumulates over the samples of a set. An output that varies costs one look at two samples of it."""

    def __init__(self) -> None:
        self._n = 0
        self._reference, self._candidate = _First(), _First()
        self._beside = _Beside()

    def add(self, reference: Array, candidate: Array) -> None:
        """Add outputs (n, ...) of one shape."""
        if reference.size == 0:
            return
        self._n += len(reference)
        self._reference.add(reference)
        self._candidate.add(candidate)
        if self._candidate.same:
            self._beside.add(reference, candidate)

    @property
    def reference_constant(self) -> bool:
        """Whether the reference gave every sample the same; of one sample, whether all its values are equal."""
        same, value = self._reference.same, self._reference.value
        return self._n > 0 and same and (self._n > 1 or value is not None)

    def fault(self, name: str) -> OutputFault | None:
        """Return the fault of a candidate that is constant where the reference is not, ``None`` when it is not so."""
        if self._n == 0 or not self._candidate.same:
            return None
        value = self._candidate.value
        if value is not None and self._beside.varies_beyond(value):
            return OutputFault(name, "constant", 0, f"{_shown(value)} everywhere, {self._beside.told()}")
        if self._n > 1 and self._beside.varies_between_samples():
            told = "the same for every sample, where the reference's are not"
            return OutputFault(name, "constant", 0, told)
        return None


class _First:
    """The first sample of a stream of outputs, kept for as long as all others equal it."""

    def __init__(self) -> None:
        self._row: Array | None = None
        self.same = True

    def add(self, rows: Array) -> None:
        """Compare outputs (n, ...) with the first sample."""
        if not self.same:
            return
        if self._row is None:
            self._row = np.array(rows[0], dtype=rows.dtype)
        # Where outputs vary the last sample nearly always shows it, and the others need no look.
        self.same = bool(np.array_equal(rows[-1], self._row) and np.all(rows == self._row))
        if not self.same:
            self._row = None

    @property
    def value(self) -> object | None:
        """The value that all of them have everywhere; ``None`` when there are several."""
        if self._row is None:
            return None
        values = self._row.reshape(-1)
        return values[0] if np.all(values == values[0]) else None


class _Beside:
    """The reference's values beside a candidate that has not varied yet; a few numbers for each value of a sample."""

    def __init__(self) -> None:
        self._first: Array | None = None
        self._whole = True

    def add(self, reference: Array, candidate: Array) -> None:
        """Add outputs (n, ...) of one shape, which is the same each time."""
        r, c = reference.reshape(len(reference), -1), candidate.reshape(len(reference), -1)
        if self._first is None:
            self._first = r[0].copy()
            self._varies = np.zeros(r.shape[1], dtype=bool)
            self._other = np.zeros(r.shape[1], dtype=np.int64)
            self._low, self._high = np.full(r.shape[1], np.inf), np.full(r.shape[1], -np.inf)
        self._varies |= np.any(r != self._first, axis=0)
        self._other += np.sum(r != c, axis=0)
        if r.dtype.kind == "f":
            finite = np.nan_to_num(r.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
            np.minimum(self._low, finite.min(axis=0), out=self._low)
            np.maximum(self._high, finite.max(axis=0), out=self._high)
            self._whole = self._whole and bool(np.all(finite == np.rint(finite)))

    def varies_beyond(self, value: object) -> bool:
        """Whether a candidate that is `value` everywhere has lost what the reference tells."""
        first = self._first
        if first is None or not (self._varies.any() or np.any(first != first[0])):
            return False
        if self._are_decisions:
            return int(self._other.sum()) >= _FEWEST_DECISIONS
        return bool(value == 0) or float(self._high.max() - self._low.min()) > self._rounding

    def varies_between_samples(self) -> bool:
        """Whether a candidate that is the same for every sample has lost what tells the reference's samples apart."""
        if self._are_decisions:
            return int(self._other[self._varies].sum()) >= _FEWEST_DECISIONS
        return bool(np.any(self._high - self._low > self._rounding))

    def told(self) -> str:
        """Say what the reference gives."""
        if self._are_decisions:
            return f"where {int(self._other.sum())} values of the reference are others"
        return f"where the reference goes from {self._low.min():.4g} to {self._high.max():.4g}"

    @property
    def _are_decisions(self) -> bool:
        return self._first is None or self._first.dtype.kind != "f" or self._whole

    @property
    def _rounding(self) -> float:
        return _STEPS * float(max(self._high.max(), -self._low.min()))


def _shown(value: object) -> str:
    return f"{value + 0.0:.4g}" if isinstance(value, np.floating) else str(value)
