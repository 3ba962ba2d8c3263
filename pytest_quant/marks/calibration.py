"""The key `calibration`: a method's name or a dict."""

from __future__ import annotations

from dataclasses import asdict

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.values import choice, count, plain_number
from pytest_quant.spec import Calibration, check_percentile

METHODS = ("entropy", "minmax", "percentile")
_NAMES = ("batch_size", "method", "percentile", "samples")


def read_calibration(value: object | None) -> Calibration:
    """Read the key; ``None`` is the default calibration."""
    if value is None:
        return Calibration()
    if isinstance(value, Calibration):
        value = asdict(value)
    if isinstance(value, str):
        return Calibration(method=choice("calibration", value, METHODS))
    if not isinstance(value, dict):
        raise UsageError(
            "calibration must be a method or a dict",
            value=repr(value),
            allowed=f"{', '.join(METHODS)}, or a dict of {', '.join(_NAMES)}",
            fix="write calibration={'method': 'percentile', 'percentile': 99.99, 'samples': 200}",
        )
    for name in value:
        if name not in _NAMES:
            raise UsageError(f"calibration has no key {name!r}", allowed=nearest(str(name), _NAMES))
    default = Calibration()
    samples = value.get("samples")
    return Calibration(
        method=choice("calibration method", value.get("method", default.method), METHODS),
        percentile=check_percentile(
            plain_number("calibration percentile", value.get("percentile", default.percentile))
        ),
        samples=None if samples is None else count("calibration samples", samples),
        batch_size=count("calibration batch_size", value.get("batch_size", default.batch_size)),
    )
