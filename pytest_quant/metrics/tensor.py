"""Error of one output of the candidate against the reference's: SQNR, cosine, largest error, constant outputs.

Rounding makes an output constant only where the reference itself hardly varies, or where the output is a decision
and the samples are few. Any other constant output is broken, whatever the limits are:

- Continuous values (floats). Values of the reference within two int8 steps of each other, steps of 1/127 of the
  largest value, may round to one: one step for the rounding, and another because calibration may have seen a wider
  range than this set has. An output of zeros is never the rounding of a reference that varies.
- Decisions (integers, booleans, texts, floats that are all whole numbers). A few decisions may flip so that all
  samples have the same one. If every decision flipped with probability 1/2, ten would flip that way with a
  probability below 0.1 %; so a constant from which ten or more values of the reference differ is a fault.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_quant.errors import ModelError
from pytest_quant.metrics.metric import Array
from pytest_quant.result import OutputFault

_NUMBERS = "biuf"

_BLOCK = 1 << 18
"""Values that are computed with at once, and of a sample those that are kept until the next: outputs may be large, and
each value takes several times as much then."""


def _draw_values(rows: Array) -> Array:
    """Return samples (n, ...) as (n, values): all values, of more than `_BLOCK` so many, drawn at the same places."""
    flat = rows.reshape(len(rows), -1)
    if flat.shape[1] <= _BLOCK:
        return flat
    return flat[:, np.sort(np.random.default_rng(0).integers(flat.shape[1], size=_BLOCK))]


def _numbers(reference: Array, candidate: Array) -> tuple[Array, Array, Array] | None:
    """Return both in float64, 0 where either is not finite, and their difference; ``None`` if nothing is finite."""
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    finite = np.isfinite(r) & np.isfinite(c)
    if not finite.all():
        if not finite.any():
            return None
        r[~finite] = c[~finite] = 0.0
    return r, c, r - c


class TensorError:
    """Accumulates the error over the samples of a set, in float64 for every numeric dtype.

    ``sqnr_db`` is 10 log10(sum r^2 / sum (r - c)^2), any sign, higher is better; ``None`` without noise or signal.
    ``cosine`` is sum rc / sqrt(sum r^2 sum c^2), -1..1; ``None`` when reference or candidate is all zero.
    ``max_abs_error`` is the largest |r - c| and ``sample`` the index of the first sample with it.
    ``equal`` is whether all values are equal, the only figure of text; ``None`` when nothing was compared. -0.0 equals
    0.0. Positions where reference or candidate is not finite are left out of all other figures.
    ``centred_sqnr_db`` and ``centred_cosine`` are those of what varies over the samples: the mean of each value over
    them is taken from both outputs first. ``None`` unless means hold nine tenths of the reference's energy.
    """

    def __init__(self) -> None:
        self._signal = self._noise = self._candidate = self._product = 0.0
        self._about_mean: tuple[_AboutMean, ...] = (_AboutMean(), _AboutMean(), _AboutMean())
        self.equal: bool | None = None
        self.max_abs_error: float | None = None
        self.sample: int | None = None

    def add(self, reference: Array, candidate: Array, start: int) -> None:
        """Add a chunk of samples.

        Parameters
        ----------
        reference, candidate : outputs (n, ...) of one shape.
        start : index of the first sample in the set.
        """
        if reference.size == 0:
            return
        self.equal = self.equal is not False and bool(np.array_equal(reference, candidate))
        if reference.dtype.kind not in _NUMBERS or candidate.dtype.kind not in _NUMBERS:
            return
        values = reference.size // len(reference)
        # Whole samples, unless a sample is larger.
        step = _BLOCK // values * values or _BLOCK
        for first in range(0, reference.size, step):
            sides = _numbers(*(side.reshape(-1)[first : first + step] for side in (reference, candidate)))
            if sides is not None:
                place = self._add(*sides)
                self.sample = self.sample if place is None else start + (first + place) // values
            self._add_about_mean(sides if values <= _BLOCK else None, values)
        for row in range(len(reference) if values > _BLOCK else 0):
            self._add_about_mean(
                _numbers(*(_draw_values(side[row : row + 1]) for side in (reference, candidate))), values
            )

    def _add_about_mean(self, sides: tuple[Array, Array, Array] | None, values: int) -> None:
        for sums, side in zip(self._about_mean, sides or (), strict=False):
            sums.add(side.reshape(-1, min(values, _BLOCK)), values)

    def _add(self, r: Array, c: Array, noise: Array) -> int | None:
        """Add values, and return the place of the largest error; ``None`` if an earlier error was as large."""
        # Sums of products in place of dot products: those start threads, which then compete with the engine's.
        self._signal += float(np.sum(r * r))
        self._candidate += float(np.sum(c * c))
        self._product += float(np.sum(r * c))
        self._noise += float(np.sum(noise * noise))
        distance = np.abs(noise)
        worst = int(np.argmax(distance))
        if self.max_abs_error is not None and distance[worst] <= self.max_abs_error:
            return None
        self.max_abs_error = float(distance[worst])
        return worst

    @property
    def sqnr_db(self) -> float | None:
        """Signal to quantization noise in dB."""
        if not (0.0 < self._noise < math.inf and 0.0 < self._signal < math.inf):
            return None
        return 10.0 * (math.log10(self._signal) - math.log10(self._noise))

    @property
    def cosine(self) -> float | None:
        """Cosine similarity of the flattened outputs; exactly 1 without noise, whatever the rounding."""
        scale = math.sqrt(self._signal) * math.sqrt(self._candidate)
        if not 0.0 < scale < math.inf:
            return None
        return 1.0 if self._noise == 0.0 else max(-1.0, min(1.0, self._product / scale))

    @property
    def centred_sqnr_db(self) -> float | None:
        """SQNR without the mean over samples of each value."""
        signal, _, noise = (sums.squares for sums in self._about_mean)
        return 10.0 * (math.log10(signal) - math.log10(noise)) if self._is_offset and noise > 0.0 else None

    @property
    def centred_cosine(self) -> float | None:
        """Cosine without the mean over samples of each value; 0 for a candidate that does not vary."""
        signal, candidate, noise = (sums.squares for sums in self._about_mean)
        if not self._is_offset:
            return None
        scale = 2.0 * math.sqrt(signal) * math.sqrt(candidate)
        return max(-1.0, min(1.0, (signal + candidate - noise) / scale)) if scale else 0.0

    @property
    def _is_offset(self) -> bool:
        """Whether less than a tenth of the reference's mean square is variance over samples, and some is."""
        varying = self._about_mean[0]
        return varying.n > 1 and 0.0 < varying.squares / (varying.n - 1) < self._signal / varying.n / 10.0 < math.inf


class _AboutMean:
    """Sum of squares about the mean over `n` samples of each value, by the updates of Chan, Golub and LeVeque (1979).

    Without end where samples differ in size, and so have no mean.
    """

    def __init__(self) -> None:
        self.n = 0
        self.squares = 0.0
        self._mean: Array = np.zeros(1)

    def add(self, rows: Array, values: int) -> None:
        """Add samples (n, kept), which stand for so many values each."""
        if self.n and rows.shape[1:] != self._mean.shape:
            self.squares = math.inf
            return
        mean = np.mean(rows, axis=0)
        within, apart, share = rows - mean, mean - self._mean, len(rows) / (self.n + len(rows))
        between = float(np.einsum("i,i->", apart, apart)) * self.n * share
        self.squares += (float(np.einsum("ij,ij->", within, within)) + between) * values / rows.shape[1]
        apart *= share
        self._mean = apart + self._mean
        self.n += len(rows)


_FEWEST_DECISIONS = 10


class ConstantOutput:
    """Detects an output that is constant over a set; one that varies costs one comparison of two samples per chunk.

    Attributes
    ----------
    _same : whether all samples so far equal the first, of the reference and of the candidate.
    _varies, _differ : of each value of a sample, whether the reference varies there, and in how many samples the
        candidate has another value; gathered, as all below, only while the candidate is constant.
    _low, _high : extremes of each value of the reference.
    _whole : all values of the reference are whole numbers.
    """

    def __init__(self) -> None:
        self._n = 0
        self._same = (True, True)
        self._whole = True

    def add(self, reference: Array, candidate: Array) -> None:
        """Add outputs (n, ...) of one shape; of samples with very many values some are looked at."""
        if reference.size == 0:
            return
        reference, candidate = _draw_values(reference), _draw_values(candidate)
        if self._n == 0:
            self._first = np.array(reference[0], reference.dtype), np.array(candidate[0], candidate.dtype)
            size = self._first[0].size
            self._varies, self._differ = np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int64)
            self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        self._n += len(reference)
        sides = zip(self._same, self._first, (reference, candidate), strict=True)
        # Where outputs vary the last sample nearly always differs, and the others need no comparison.
        reference_same, candidate_same = (
            same and np.array_equal(rows[-1], first) and bool(np.all(rows == first)) for same, first, rows in sides
        )
        self._same = reference_same, candidate_same
        if candidate_same:
            self._see_spread(reference, candidate)

    def _see_spread(self, reference: Array, candidate: Array) -> None:
        self._varies |= np.any(reference != self._first[0], axis=0)
        self._differ += np.sum(reference != candidate, axis=0)
        if reference.dtype.kind == "f":
            finite = np.nan_to_num(reference.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
            np.minimum(self._low, finite.min(axis=0), out=self._low)
            np.maximum(self._high, finite.max(axis=0), out=self._high)
            self._whole = self._whole and bool(np.all(finite == np.rint(finite)))

    @property
    def reference_constant(self) -> bool:
        """Whether the reference gives all samples the same output; of one sample, whether all values are equal."""
        return self._n > 0 and self._same[0] and (self._n > 1 or _only_value(self._first[0]) is not None)

    def fault(self, name: str) -> OutputFault | None:
        """Return the fault of a candidate that is constant although the reference is not, else ``None``."""
        if self._n == 0 or not self._same[1]:
            return None
        value = _only_value(self._first[1])
        decisions = self._first[0].dtype.kind != "f" or self._whole
        rounding = 2 / 127 * float(max(self._high.max(), -self._low.min()))
        if value is not None and (self._varies.any() or _only_value(self._first[0]) is None):
            differ = int(self._differ.sum())
            where = f"{differ} values of the reference are others"
            lost = differ >= _FEWEST_DECISIONS
            if not decisions:
                where = f"the reference goes from {self._low.min():.4g} to {self._high.max():.4g}"
                lost = bool(value == 0) or float(self._high.max() - self._low.min()) > rounding
            if lost:
                shown = f"{value + 0.0:.4g}" if isinstance(value, np.floating) else str(value)
                return OutputFault(name, "constant", 0, f"{shown} everywhere, where {where}")
        told_apart = int(self._differ[self._varies].sum()) >= _FEWEST_DECISIONS
        if self._n > 1 and (told_apart if decisions else bool(np.any(self._high - self._low > rounding))):
            return OutputFault(name, "constant", 0, "the same for every sample, where the reference's are not")
        return None


def _only_value(row: Array) -> object | None:
    """Return the one value of all elements, ``None`` when there are several."""
    values = row.reshape(-1)
    return values[0] if np.all(values == values[0]) else None


_TEXT = "OU"
"""Runtimes give text as Python objects, numpy as one dtype for each length."""


def check_reference(name: str, reference: Array, start: int) -> None:
    """Check that no value of the reference is NaN, with which nothing can be compared.

    Parameters
    ----------
    name : of the output.
    reference : its values (n, ...).
    start : index of the first sample in the set, for messages.

    Raises
    ------
    ModelError : a value is NaN.
    """
    # The least value is NaN where any is.
    if reference.dtype.kind == "f" and reference.size and np.isnan(reference.min()):
        raise ModelError(
            f"the reference gives NaN in output '{name}'",
            value=f"sample {start + int(np.argwhere(np.isnan(reference))[0, 0])}",
            fix="check the model and the sample in FP32 first; if NaN is meant, export the model without this "
            "output, or with numbers in place of NaN: torch.nan_to_num(x), or Where(IsNaN(x), 0, x) in ONNX",
        )


def find_mismatch(name: str, reference: Array, candidate: Array | None, start: int) -> OutputFault | None:
    """Compare presence, shape and dtype of one output.

    Parameters
    ----------
    name : of the output.
    reference : its values (n, ...).
    candidate : its values by the candidate; ``None`` where the candidate does not have the output.
    start : index of the first sample in the set.

    Returns
    -------
    The fault, ``None`` when the outputs can be compared value by value.
    """
    if candidate is None:
        return OutputFault(name, "missing", start, "the candidate does not give it")
    if candidate.shape != reference.shape:
        return OutputFault(name, "other shape", start, f"{candidate.shape} in place of {reference.shape}")
    both_text = candidate.dtype.kind in _TEXT and reference.dtype.kind in _TEXT
    if candidate.dtype != reference.dtype and not both_text:
        return OutputFault(name, "other dtype", start, f"{candidate.dtype} in place of {reference.dtype}")
    return None


def sound_rows(reference: Array, candidate: Array) -> Array:
    """Return a mask (n,) of the samples whose every value is finite in both outputs, or the same infinity in both."""
    kinds = reference.dtype.kind + candidate.dtype.kind
    if "f" not in kinds or not set(kinds) <= set(_NUMBERS):
        return np.ones(len(reference), dtype=bool)
    sound = np.isfinite(reference) & np.isfinite(candidate)
    return np.asarray((sound | (reference == candidate)).reshape(len(reference), -1).all(axis=1))


def answered_rows(reference: Array, candidate: Array) -> Array:
    """Return a mask (n,) of the samples whose largest score is finite in both outputs (n, classes)."""
    return np.asarray(np.isfinite(reference.max(axis=1)) & np.isfinite(candidate.max(axis=1)))


def find_unsound(name: str, candidate: Array, sound: Array, start: int) -> OutputFault | None:
    """Return the fault of the first sample that is not finite where it should be.

    Parameters
    ----------
    name : of the output.
    candidate : its values (n, ...).
    sound : mask (n,) by `sound_rows`.
    start : index of the first sample in the set.

    Returns
    -------
    ``None`` when every sample is sound.
    """
    if sound.all():
        return None
    row = int(np.argmin(sound))
    detail = "NaN or Inf, and the reference is finite"
    if np.isfinite(candidate[row]).all():
        detail = "finite, and the reference is infinite"
    return OutputFault(name, "not finite", start + row, detail)
