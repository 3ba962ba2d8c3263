"""A file as it is written, run node by node: whether two files compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.ort.refusal import refused
from pytest_quant.errors import BuildError

_TOLERANCE = 1e-3
"""Largest relative difference: each operator may be spelled by others, which round in the seventh digit."""


def run_unoptimized(path: Path, feeds: Feeds) -> Outputs:
    """Run the model in `path` once over `feeds`, without any optimization. Raises `BuildError`."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds), strict=True))
    except Exception as error:
        raise refused(f"the model {path.name}", error) from error


def check_same(original: Path, changed: Path, feeds: Feeds) -> None:
    """Refuse the file `changed` unless it gives over `feeds` what `original` does; one that draws at random may differ.

    Raises
    ------
    BuildError : names the output and the difference.
    """
    wanted, found = run_unoptimized(original, feeds), run_unoptimized(changed, feeds)
    for (name, one), other in zip(wanted.items(), found.values(), strict=True):
        off = _difference(one, other)
        if off > _TOLERANCE and _difference(one, run_unoptimized(original, feeds)[name]) == 0.0:
            raise BuildError(
                f"onnx raised the opset of {original.name}, and it computes something else now",
                value=f"output '{name}' is off by {off:.3g} of its largest value",
                allowed=f"{_TOLERANCE:g}",
                fix="export the model with opset_version=17, or write options={'per_channel': False}",
            )


def _difference(wanted: NDArray[Any], found: NDArray[Any]) -> float:
    """Return the largest difference as a share of the largest value; infinite where they cannot be compared."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return float("inf")
    if wanted.dtype.kind not in "fc" or not wanted.size:
        return 0.0 if np.array_equal(wanted, found) else float("inf")
    if not np.array_equal(np.isfinite(wanted), np.isfinite(found)):
        return float("inf")
    finite = np.isfinite(wanted)
    if not finite.any():
        return 0.0
    values, others = wanted[finite].astype(np.float64), found[finite].astype(np.float64)
    return float(np.abs(values - others).max() / (np.abs(values).max() or 1.0))
