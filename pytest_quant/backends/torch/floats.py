"""Tensors and modules in the floating type that an engine computes in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_quant.backends.torch.options import float_type
from pytest_quant.spec import EngineSpec


def cast(tensors: Iterable[Any], spec: EngineSpec) -> tuple[Any, ...]:
    """Return `tensors` with floats as the engine of `spec` takes them; for ``fp32`` all stay as they are."""
    dtype = _narrow(spec)
    return tuple(one.to(dtype) if dtype and one.is_floating_point() else one for one in tensors)


def cast_module(module: Any, spec: EngineSpec) -> Any:
    """Return `module` with its floating weights as the engine of `spec` keeps them."""
    dtype = _narrow(spec)
    return module.to(dtype) if dtype else module


def _narrow(spec: EngineSpec) -> Any:
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(float_type(spec))
