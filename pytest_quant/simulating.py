"""``--quant-simulate``: TensorRT checks on a machine without a GPU, asked for and never silent."""

from __future__ import annotations

from dataclasses import replace

from pytest_quant.backends import get_backend
from pytest_quant.spec import Check, EngineSpec

SIMULATED = ("ort-trt", "trt", "trt-rtx")
TARGET_OPTION = "compute_capability"


def simulate_check(check: Check, target: str | None) -> Check:
    """Name `target`, such as ``SM89``, to the TensorRT engines of `check` that cannot be had here otherwise."""
    if target is None:
        return check
    return replace(check, candidate=_targeted(check.candidate, target), reference=_targeted(check.reference, target))


def _targeted(spec: EngineSpec, target: str) -> EngineSpec:
    named = any(name == TARGET_OPTION for name, _ in spec.options)
    if spec.backend not in SIMULATED or named or get_backend(spec.backend).availability(spec).available:
        return spec
    return replace(spec, options=tuple(sorted((*spec.options, (TARGET_OPTION, target)))))
