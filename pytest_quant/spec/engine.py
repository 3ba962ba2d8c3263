"""One engine: a model in a backend at a precision."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_quant.errors import UsageError
from pytest_quant.spec.model import Model
from pytest_quant.spec.shapes import InputShapes

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "int4", "fp8")
QUANTIZED_PRECISIONS = ("int8", "int4", "fp8")
SCHEMES = ("static", "dynamic", "weight-only", "qat")


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a static scheme finds the ranges of activations.

    Attributes
    ----------
    method : ``minmax``, ``entropy`` or ``percentile``.
    percentile : share of the histogram kept by ``percentile``, in percent; see `check_percentile`.
    samples : use at most so many calibration samples; ``None`` uses all of them.
    batch_size : samples in one calibration batch.
    """

    method: str = "minmax"
    percentile: float = 99.999
    samples: int | None = None
    batch_size: int = 1


def check_percentile(percentile: float) -> float:
    """Return `percentile` if a calibration can use it.

    Half of the values or fewer is no range of them, but a share that was written as 0.99 and meant 99.

    Raises
    ------
    UsageError : it is not above 50 and at most 100.
    """
    if not 50.0 < percentile <= 100.0:
        raise UsageError(
            "the calibration percentile is the share of values kept, in percent",
            value=repr(percentile),
            allowed="above 50, at most 100",
            fix="write calibration={'method': 'percentile', 'percentile': 99.99}",
        )
    return percentile


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One model in one backend at one precision.

    Attributes
    ----------
    scheme : one of `SCHEMES` for a quantized precision, else ``None``.
    quantized : a model that is already quantized (scheme ``qat``), else ``None``.
    exclude : names of nodes to leave in float.
    options : what the backend alone understands, sorted by name; the backend checks it.
    shapes : what its inputs look like in the data; only for a backend that builds for them, empty without data.
    """

    backend: str
    precision: str
    scheme: str | None
    model: Model
    quantized: Model | None = None
    calibration: Calibration = field(default_factory=Calibration)
    exclude: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    shapes: tuple[InputShapes, ...] = ()

    @property
    def id(self) -> str:
        """A readable name, ``ort-int8-static`` or ``ort-fp32``; the same in test ids, tables and logs."""
        return "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
