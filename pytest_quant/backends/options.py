"""Options of a mark: checked against what a backend offers, and part of keys and notes. No runtime is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_quant.errors import UsageError, nearest
from pytest_quant.readers import Key
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


def calibration_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return what decides the ranges of a calibration beside the model, the data and the library that finds them."""
    asked = spec.calibration
    return {
        "method": asked.method,
        "percentile": str(asked.percentile) if asked.method == "percentile" else "not used",
        "samples": str(asked.samples),
        "batch_size": str(asked.batch_size),
    }


def seven_bits_note(what: str, tier: str, keeps_8: str) -> str:
    """Return the note that `what` got seven bits, because the kernels of this CPU add products in 16 bits.

    Parameters
    ----------
    what : weights or activations.
    tier : the instruction set of the kernels.
    keeps_8 : the option that keeps eight bits, as a mark has it.
    """
    cause = f"this CPU ({tier}) has no VNNI, and its int8 kernels saturate with 8"
    return f"{what} have 7 bits: {cause}; options={{{keeps_8}}} keeps 8"


def checked(backend: str, options: Iterable[tuple[str, object]], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return `options` by name, each value in its normal form.

    Parameters
    ----------
    backend : name of the backend, for errors.
    options : name and value of each option as the user wrote it.
    keys : the options that the backend takes, by name.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range.
    """
    found = {}
    for name, value in options:
        if name not in keys:
            raise UsageError(
                f"backend '{backend}' has no option '{name}'", value=repr(value), allowed=nearest(name, keys)
            )
        found[name] = keys[name].reader.form(name, value)
        if found[name] is None:
            message = f"option '{name}' of backend '{backend}' cannot be that"
            raise UsageError(message, value=repr(value), allowed=keys[name].reader.allowed)
    return found
