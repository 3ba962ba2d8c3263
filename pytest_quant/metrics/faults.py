"""Outputs of the candidate that cannot be compared with the reference's."""

from __future__ import annotations

import numpy as np

from pytest_quant.errors import ModelError
from pytest_quant.metrics.metric import Array
from pytest_quant.result import OutputFault

_NUMBERS = "biuf"
_TEXT = "OU"
"""Runtimes give text as Python objects, numpy as one dtype for each length."""


def check_reference(name: str, reference: Array, start: int) -> None:
    """Raise `ModelError` where the reference is NaN: nothing can be compared with it.

    `start` is the index of the first sample.
    """
    if reference.dtype.kind != "f":
        return
    nan = np.isnan(reference)
    if nan.any():
        raise ModelError(
            f"the reference gives NaN in output '{name}'",
            value=f"sample {start + _first(nan)}",
            fix="check the model and the sample in FP32 first; nothing can be compared with NaN",
        )


def find_mismatch(name: str, reference: Array, candidate: Array | None, start: int) -> OutputFault | None:
    """Return why `candidate` is another kind of output than `reference`, ``None`` when it is the same kind."""
    if candidate is None:
        return OutputFault(name, "missing", start, "the candidate does not give it")
    if candidate.shape != reference.shape:
        return OutputFault(name, "other shape", start, f"{candidate.shape} in place of {reference.shape}")
    both_text = candidate.dtype.kind in _TEXT and reference.dtype.kind in _TEXT
    if candidate.dtype != reference.dtype and not both_text:
        return OutputFault(name, "other dtype", start, f"{candidate.dtype} in place of {reference.dtype}")
    return None


def sound_rows(reference: Array, candidate: Array) -> Array:
    """Mask (n,) of the samples where every value is finite on both sides, or the same infinity on both."""
    kinds = reference.dtype.kind + candidate.dtype.kind
    if "f" not in kinds or not set(kinds) <= set(_NUMBERS):
        return np.ones(len(reference), dtype=bool)
    sound = np.isfinite(reference) & np.isfinite(candidate)
    if sound.all():
        return np.ones(len(reference), dtype=bool)
    return np.asarray((sound | (reference == candidate)).reshape(len(reference), -1).all(axis=1))


def find_unsound(name: str, candidate: Array, sound: Array, start: int) -> OutputFault | None:
    """Return the fault of the first sample that is not `sound`, ``None`` when all are."""
    if sound.all():
        return None
    row = int(np.argmin(sound))
    detail = "NaN or Inf where the reference is finite"
    if np.isfinite(candidate[row]).all():
        detail = "finite where the reference is infinite"
    return OutputFault(name, "not finite", start + row, detail)


def _first(found: Array) -> int:
    """Index of the first row of (n, ...) that holds a true value."""
    return int(np.argmax(found.reshape(len(found), -1).any(axis=1)))
