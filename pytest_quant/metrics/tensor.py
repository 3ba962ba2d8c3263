"""How far one output of the candidate lies from the reference's, whatever it means: SQNR, cosine, largest error."""

from __future__ import annotations

import math

import numpy as np

from pytest_quant.metrics.metric import Array

_NUMBERS = "biuf"


class TensorError:
    """Accumulates over the samples of a set, in float64, whatever the dtype; outputs of text are told equal or not.

    ``sqnr_db`` is 10 log10(sum r^2 / sum (r - c)^2), any sign, higher is better; ``None`` without noise or signal.
    ``cosine`` is sum rc / sqrt(sum r^2 sum c^2), -1..1; ``None`` when a side is all zero.
    ``max_abs_error`` is the largest |r - c| and ``sample`` the index of the first sample that shows it.
    ``equal`` tells whether every value was; ``None`` when nothing was compared. -0.0 equals 0.0.
    Values that are not finite on both sides enter none of the sums.
    """

    def __init__(self) -> None:
        self._signal = self._noise = self._candidate = self._product = 0.0
        self.equal: bool | None = None
        self.max_abs_error: float | None = None
        self.sample: int | None = None

    def add(self, reference: Array, candidate: Array, start: int) -> None:
        """Add outputs (n, ...) of one shape; `start` is the index of the first sample."""
        if reference.size == 0:
            return
        self.equal = self.equal is not False and bool(np.array_equal(reference, candidate))
        if reference.dtype.kind not in _NUMBERS or candidate.dtype.kind not in _NUMBERS:
            return
        r, c = reference.astype(np.float64).ravel(), candidate.astype(np.float64).ravel()
        finite = np.isfinite(r) & np.isfinite(c)
        if not finite.all():
            if not finite.any():
                return
            r[~finite] = c[~finite] = 0.0
        noise = r - c
        # Sums of products in place of dot products: those start threads, which then compete with the engine's.
        self._signal += float(np.sum(r * r))
        self._candidate += float(np.sum(c * c))
        self._product += float(np.sum(r * c))
        self._noise += float(np.sum(noise * noise))
        np.abs(noise, out=noise)
        worst = int(np.argmax(noise))
        if self.max_abs_error is None or noise[worst] > self.max_abs_error:
            self.max_abs_error = float(noise[worst])
            self.sample = start + worst // (r.size // len(reference))

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
