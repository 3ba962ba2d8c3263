"""Is this something that the backend can do? Asked at collection, so no runtime is loaded."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.backends.ort.options import parse_options
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec

_METHODS = ("minmax", "entropy", "percentile")


def check_spec(spec: EngineSpec, schemes: Mapping[str, tuple[str | None, ...]]) -> None:
    """Raise `UsageError` when precision, scheme, options or calibration are not known here."""
    if spec.precision not in schemes:
        raise UsageError(f"backend 'ort' has no precision '{spec.precision}'", allowed=", ".join(schemes))
    offered = schemes[spec.precision]
    if spec.scheme not in offered:
        names = ", ".join(str(name) for name in offered if name) or "no scheme"
        raise UsageError(f"backend 'ort' has no scheme '{spec.scheme}' for {spec.precision}", allowed=names)
    if spec.scheme == "qat" and spec.quantized is None:
        raise UsageError(
            "scheme 'qat' is for a model that arrives quantized, and none is named",
            fix="write quantized='model_int8.onnx' in the mark",
        )
    parse_options(spec.options)
    if spec.scheme == "static":
        _check_calibration(spec)


def _check_calibration(spec: EngineSpec) -> None:
    asked = spec.calibration
    if asked.method not in _METHODS:
        raise UsageError(f"backend 'ort' has no calibration '{asked.method}'", allowed=nearest(asked.method, _METHODS))
    if not 50.0 < asked.percentile <= 100.0:
        raise UsageError(
            "the calibration percentile is the share of values kept",
            value=str(asked.percentile),
            allowed="above 50 and up to 100, in percent",
            fix="write Calibration(method='percentile', percentile=99.999)",
        )
    for name, count in (("batch_size", asked.batch_size), ("samples", asked.samples)):
        if count is not None and count < 1:
            raise UsageError(f"calibration {name} must be at least 1", value=str(count))
