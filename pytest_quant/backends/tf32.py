"""TF32, in which tensor cores compute FP32 products, their inputs rounded to ten bits: an option of some backends.

NVIDIA's libraries read the variable of the environment `OVERRIDE`, where 0 switches TF32 off whatever a program asks
for, and keep what they read first for the whole process (github.com/microsoft/onnxruntime/issues/26029).
"""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

TF32 = "tf32"
"""The option that allows it."""

OVERRIDE = "NVIDIA_TF32_OVERRIDE"
_OFF = "0"


def is_switched_off() -> bool:
    """Whether the environment of this process switches TF32 off."""
    return os.environ.get(OVERRIDE) == _OFF


def switch_off() -> None:
    """Switch TF32 off for this process and those that it starts, for libraries that have not read the variable yet."""
    os.environ[OVERRIDE] = _OFF


def with_tf32(spec: EngineSpec, *, allowed: bool) -> EngineSpec:
    """Return `spec` with the option that allows TF32, or without it, which leaves TF32 off.

    Raises
    ------
    UsageError : it is to be allowed, and the environment of this process switches it off.
    """
    if allowed and is_switched_off():
        raise UsageError(
            "TF32 is switched off in this process, so nothing can be timed with it",
            value=f"{OVERRIDE}={_OFF} in the environment",
            fix=f"unset {OVERRIDE}; a backend that needs it so sets it for the whole run, and runs apart from this",
        )
    others = {name: value for name, value in spec.options if name != TF32}
    options = {**others, TF32: True} if allowed else others
    return replace(spec, options=tuple(sorted(options.items())))
