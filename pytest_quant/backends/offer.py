"""Is this something that a backend offers? The same questions for all of them; no runtime is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import Calibration, EngineSpec, check_percentile

Schemes = Mapping[str, tuple[str | None, ...]]


def check_offer(spec: EngineSpec, schemes: Schemes) -> None:
    """Raise `UsageError` when precision or scheme is not offered, or ``qat`` names no model."""
    if spec.precision not in schemes:
        message = f"backend '{spec.backend}' has no precision '{spec.precision}'"
        raise UsageError(message, allowed=", ".join(schemes))
    offered = schemes[spec.precision]
    if spec.scheme not in offered:
        names = ", ".join(str(name) for name in offered if name) or "no scheme"
        message = f"backend '{spec.backend}' has no scheme '{spec.scheme}' for {spec.precision}"
        raise UsageError(message, allowed=names)
    if spec.scheme == "qat" and spec.quantized is None:
        raise UsageError(
            "scheme 'qat' is for a model that arrives quantized, and none is named",
            fix="write quantized='model_int8.onnx' in the mark",
        )


def check_calibration(spec: EngineSpec, methods: Sequence[str]) -> None:
    """Raise `UsageError` when the calibration's method is not one of `methods`, or a number is out of range."""
    asked: Calibration = spec.calibration
    if asked.method not in methods:
        message = f"backend '{spec.backend}' has no calibration '{asked.method}'"
        raise UsageError(message, allowed=nearest(asked.method, methods))
    check_percentile(asked.percentile)
    for name, count in (("batch_size", asked.batch_size), ("samples", asked.samples)):
        if count is not None and count < 1:
            raise UsageError(f"calibration {name} must be at least 1", value=str(count))
