"""The options of this backend: names, types, defaults. An option of another scheme is ignored, an unknown one is not.

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

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_quant.backends.option_rules import FLAG, Rule, checked, one_of, whole_number
from pytest_quant.backends.ort.extra import check_extra
from pytest_quant.errors import UsageError

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
