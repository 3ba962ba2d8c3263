"""Outputs of the candidate that cannot be compared with the reference's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pytest_quant.errors import ModelError
from pytest_quant.metrics.metric import Array
from pytest_quant.result import OutputFault


def find_fault(name: str, reference: Array, candidate: Array | None, start: int) -> OutputFault | None:
    """Return why `candidate` cannot stand beside `reference`, ``None`` when it can.

    `start` is the index of the first sample of both.

    Raises
    ------
    ModelError : the reference itself is NaN, so that there is nothing to compare with.
    """
    if candidate is None:
        return OutputFault(name, "missing", start, "the candidate does not give it")
    if candidate.shape != reference.shape:
        sizes = f"{candidate.shape} in place of {reference.shape}"
        return OutputFault(name, "other shape", start, sizes)
    if candidate.dtype != reference.dtype:
        return OutputFault(name, "other dtype", start, f"{candidate.dtype} in place of {reference.dtype}")
    bad = _first_where(reference, np.isnan)
    if bad is not None:
        raise ModelError(
            f"the reference gives NaN in output '{name}'",
            value=f"sample {start + bad}",
            fix="check the model and the sample in FP32 first; nothing can be compared with NaN",
        )
    bad = _first_where(candidate, lambda values: ~np.isfinite(values) & (values != reference))
    if bad is not None:
        return OutputFault(name, "not finite", start + bad, "NaN or Inf where the reference is finite")
    return None


def finite_rows(reference: Array, candidate: Array) -> Array:
    """Mask (n,) of the samples whose values are finite on both sides."""
    if not np.issubdtype(reference.dtype, np.floating):
        return np.ones(len(reference), dtype=bool)
    axes = tuple(range(1, reference.ndim))
    return np.asarray(np.all(np.isfinite(reference) & np.isfinite(candidate), axis=axes))


def _first_where(values: Array, test: Callable[[Array], Array]) -> int | None:
    if not np.issubdtype(values.dtype, np.floating):
        return None
    found = test(values)
    if not found.any():
        return None
    return int(np.argmax(found.reshape(len(values), -1).any(axis=1)))
