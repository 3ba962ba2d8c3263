"""Is this something that the backend can do? Asked at collection, so no runtime is loaded."""

from __future__ import annotations

from pytest_quant.backends.offer import Schemes, check_calibration, check_offer
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.spec import EngineSpec

_METHODS = ("minmax", "entropy", "percentile")


def check_spec(spec: EngineSpec, schemes: Schemes) -> None:
    """Raise `UsageError` when precision, scheme, options or calibration are not known here."""
    check_offer(spec, schemes)
    parse_options(spec.options)
    if spec.scheme == "static":
        check_calibration(spec, _METHODS)
