"""What can be told about a check before its model and data exist."""

from __future__ import annotations

from collections.abc import Callable

from pytest_quant.backends import Backend
from pytest_quant.marks.asked import Asked, ModelSource
from pytest_quant.marks.check import engine_specs
from pytest_quant.marks.variants import Variant
from pytest_quant.spec import Model


def named_only(source: ModelSource | None, default: str) -> Model:
    """Return a model that has nothing but the name the mark gives it."""
    return source if isinstance(source, Model) else Model(name=str(source or default))


def check_backend(asked: Asked, variant: Variant, get: Callable[[str], Backend]) -> None:
    """Let each backend refuse options, calibration, precision or a limit on speed; loads no runtime."""
    model = named_only(asked.model, "quant_model")
    quantized = None if asked.quantized is None else named_only(asked.quantized, "quantized")
    reference, candidate = engine_specs(asked, variant, model, quantized)
    for spec in (reference, candidate):
        get(spec.backend).check(spec)
    refusal = get(candidate.backend).refuses_speed(candidate) if asked.limits.on_latency else None
    if refusal is not None:
        raise refusal
