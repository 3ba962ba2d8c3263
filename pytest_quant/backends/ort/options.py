"""What this backend can be asked for: its options, their types and defaults; no runtime is loaded.

=================  ===========================  ==========================================================
option             type                         meaning
=================  ===========================  ==========================================================
threads            int >= 1, default 1          threads of one operator; spinning is always off
provider           "CPUExecutionProvider"       the only one this backend runs on
op_types           list of op types, or "all"   what to quantize; default by scheme, see `build`
per_channel        bool, default True           one scale for each output channel of a weight
reduce_range       bool                         7-bit weights; default True on x86 without VNNI
activation_type    "uint8" or "int8"            default uint8 on x86, int8 on ARM
weight_type        "int8" or "uint8"            default int8
symmetric          bool                         zero in the middle; default: activations no, int4 blocks yes
block_size         16, 32, 64, 128 or 256       int4: weights that share a scale, default 32
accuracy_level     int 0..4                     int4: see MatMulNBits, 0 computes in float, 4 in int8
extra              dict                         ``extra_options`` of onnxruntime.quantization
=================  ===========================  ==========================================================
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from pytest_quant.backends.options import (
    FLAG,
    Rule,
    Schemes,
    check_calibration,
    check_offer,
    checked,
    one_of,
    whole_number,
)
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec


def runtime_version() -> str:
    """Return the version of the onnxruntime that is imported, whichever wheel brought it."""
    import onnxruntime

    return str(onnxruntime.__version__)


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Keep the quantizer's prints and log lines off the screen, and give the errors that it only logs.

    One of its modules calls ``logging.basicConfig`` when it is imported; a handler that is already there makes that
    do nothing, so the user's logging stays as it was.
    """
    errors: list[str] = []
    handler = _Errors(errors)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with redirect_stdout(io.StringIO()):
            yield errors
    finally:
        root.removeHandler(handler)


class _Errors(logging.Handler):
    """Keeps what is logged as an error by ONNX Runtime."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__()
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.name.startswith("onnxruntime"):
            self._errors.append(record.getMessage())


_QUANTIZER_KEYS = frozenset(
    {
        "ActivationRestrictedAsymmetric",
        "ActivationSymmetric",
        "AddQDQPairToWeight",
        "BlockSize",
        "DedicatedQDQPair",
        "DefaultTensorType",
        "EnableSubgraph",
        "ForceQuantizeNoInputCheck",
        "MatMulConstBOnly",
        "MinimumRealRange",
        "OpTypesToExcludeOutputQuantization",
        "QDQDisableWeightAdjustForInt32Bias",
        "QDQKeepRemovableActivations",
        "QDQOpTypePerChannelSupportToAxis",
        "QuantizeBias",
        "UseQDQContribOps",
        "WeightSymmetric",
    }
)
CALIBRATOR_KEYS = {
    "CalibMovingAverage": "moving_average",
    "CalibMovingAverageConstant": "averaging_constant",
    "CalibTensorRangeSymmetric": "symmetric",
}
"""Key in ``extra`` and the calibrator's own word for it."""

_REFUSED = {
    "CalibMaxIntermediateOutputs": "it throws collected batches away (onnxruntime 1.31); memory is bounded without",
    "CalibPercentile": "the mark has a key for it: calibration=Calibration(method='percentile', percentile=99.99)",
    "CalibStridedMinMax": "calibration data is streamed already",
    "SmoothQuant": "it needs neural-compressor and its own calibration pass",
}


def check_extra(extra: Mapping[object, object]) -> dict[str, object]:
    """Return `extra` with known keys and values that JSON can hold.

    Raises
    ------
    UsageError : a key is unknown, or does harm here; or a value is not made of numbers, strings, lists and dicts.
    """
    known = _QUANTIZER_KEYS | CALIBRATOR_KEYS.keys()
    for key, value in extra.items():
        if key in _REFUSED:
            raise UsageError(f"extra option '{key}' is not taken", value=repr(value), fix=_REFUSED[str(key)])
        if key not in known:
            raise UsageError(
                f"ONNX Runtime has no extra option '{key}', and would ignore it",
                value=repr(value),
                allowed=nearest(str(key), known),
            )
        if not _is_plain(value):
            raise UsageError(
                f"extra option '{key}' cannot be that", value=repr(value), allowed="numbers, strings, lists and dicts"
            )
    return {str(key): value for key, value in extra.items()}


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


CPU = "CPUExecutionProvider"
ALL_OPS = "all"


@dataclass(frozen=True, slots=True)
class OrtOptions:
    """Options as asked; ``None`` leaves the choice to the scheme and the machine. `extra` is JSON text."""

    threads: int = 1
    provider: str = CPU
    op_types: tuple[str, ...] | None = None
    per_channel: bool = True
    reduce_range: bool | None = None
    activation_type: str | None = None
    weight_type: str = "int8"
    symmetric: bool | None = None
    block_size: int = 32
    accuracy_level: int = 0
    extra: str = "{}"


def _is_op_types(value: object) -> bool:
    if value == ALL_OPS:
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(name, str) and name for name in value)


RULES = {
    "threads": whole_number(1),
    "provider": one_of(CPU),
    "op_types": Rule('a list of op types such as ["MatMul", "Conv"], or "all"', _is_op_types),
    "per_channel": FLAG,
    "reduce_range": FLAG,
    "activation_type": one_of("uint8", "int8"),
    "weight_type": one_of("int8", "uint8"),
    "symmetric": FLAG,
    "block_size": one_of(16, 32, 64, 128, 256),
    "accuracy_level": one_of(0, 1, 2, 3, 4),
    "extra": Rule("a dict of ONNX Runtime's extra_options", lambda value: isinstance(value, dict)),
}


def parse_options(options: Iterable[tuple[str, object]]) -> OrtOptions:
    """Turn the options of a mark into `OrtOptions`.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range; or it asks for a provider that is not here.
    """
    asked = tuple(options)
    for name, value in asked:
        if name == "provider" and value != CPU:
            raise _wrong_provider(value)
    given: dict[str, Any] = {name: _frozen(name, value) for name, value in checked("ort", asked, RULES).items()}
    parsed = OrtOptions(**given)
    if (parsed.activation_type, parsed.weight_type) == ("int8", "uint8"):
        raise UsageError(
            "ONNX Runtime has no kernels for int8 activations with uint8 weights",
            allowed="uint8 with int8 (x86), int8 with int8 (ARM), uint8 with uint8",
            fix="drop weight_type, or write activation_type='uint8'",
        )
    return parsed


def _frozen(name: str, value: object) -> object:
    if name == "extra" and isinstance(value, dict):
        return json.dumps(check_extra(value), sort_keys=True)
    if name == "op_types":
        return (ALL_OPS,) if value == ALL_OPS else tuple(value)  # type: ignore[arg-type]
    return value


def _wrong_provider(value: object) -> UsageError:
    return UsageError(
        "backend 'ort' runs on the CPU, and never falls back to it in silence",
        value=f"provider={value!r}",
        allowed=CPU,
        fix="drop the option; another device needs the backend made for it (pytest-quant doctor lists them)",
    )


_METHODS = ("minmax", "entropy", "percentile")


def check_spec(spec: EngineSpec, schemes: Schemes) -> None:
    """Raise `UsageError` when precision, scheme, options or calibration are not known here."""
    check_offer(spec, schemes)
    parse_options(spec.options)
    if spec.scheme == "static":
        check_calibration(spec, _METHODS)
