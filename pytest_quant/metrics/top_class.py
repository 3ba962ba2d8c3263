"""The class that scores best."""

from __future__ import annotations

import numpy as np

from pytest_quant.metrics.metric import Array

_FEW = 64
"""Up to so many classes numpy finds the largest of each column several times faster than that of each short row."""


def top_class(outputs: Array) -> Array:
    """Return the index of the largest score of each row of (n, classes): the first of equal ones, NaN before all."""
    if outputs.ndim != 2 or outputs.shape[1] > _FEW:
        return np.asarray(np.argmax(outputs, axis=1))
    return np.asarray(np.argmax(np.ascontiguousarray(outputs.T), axis=0))
