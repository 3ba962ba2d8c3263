"""How far the candidate's outputs lie from the reference's, whatever they mean: SQNR, cosine, largest error."""

from __future__ import annotations

import math

import numpy as np

from pytest_quant.metrics.metric import Array


class TensorError:
    """Accumulates over the samples of a set, in float64.

    ``sqnr_db`` is 10 log10(sum r^2 / sum (r - c)^2), any sign, higher is better; ``None`` without noise or signal.
    ``cosine`` is sum rc / sqrt(sum r^2 sum c^2), -1..1; ``None`` when a side is all zero.
    ``max_abs_error`` is the largest |r - c| and ``sample`` the index of the first sample that shows it.
    """

    def __init__(self) -> None:
        self._signal = self._noise = self._candidate = self._product = 0.0
        self.max_abs_error: float | None = None
        self.sample: int | None = None
        self.identical = True

    def add(self, reference: Array, candidate: Array, start: int) -> None:
        """Add finite outputs (n, ...) of one shape; `start` is the index of the first sample."""
        if reference.size == 0:
            return
        r, c = reference.astype(np.float64).ravel(), candidate.astype(np.float64).ravel()
        noise = r - c
        # Sums of products in place of dot products: those start threads, which then compete with the engine's.
        self._signal += float(np.sum(r * r))
        self._candidate += float(np.sum(c * c))
        self._product += float(np.sum(r * c))
        self._noise += float(np.sum(noise * noise))
        self.identical = self.identical and bool(np.array_equal(reference, candidate))
        np.abs(noise, out=noise)
        worst = int(np.argmax(noise))
        if self.max_abs_error is None or noise[worst] > self.max_abs_error:
            self.max_abs_error = float(noise[worst])
            self.sample = start + worst // (r.size // len(reference))

    @property
    def sqnr_db(self) -> float | None:
        """Signal to quantization noise in dB."""
        if self._noise == 0.0 or self._signal == 0.0:
            return None
        return 10.0 * math.log10(self._signal / self._noise)

    @property
    def cosine(self) -> float | None:
        """Cosine similarity of the flattened outputs."""
        scale = math.sqrt(self._signal) * math.sqrt(self._candidate)
        return self._product / scale if scale > 0.0 else None
