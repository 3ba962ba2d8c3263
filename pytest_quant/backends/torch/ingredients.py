"""What an engine and its program are made from, as text: the keys of the cache."""

from __future__ import annotations

import json
from importlib.metadata import version

from pytest_quant.backends.torch.module import module_digest
from pytest_quant.backends.torch.options import float_type, parse_options
from pytest_quant.environment import onednn_tier
from pytest_quant.spec import EngineSpec

RECIPE_VERSION = "1"
"""Raised when the same ingredients would be built into something else."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelError`."""
    options = parse_options(spec.options)
    ours = {
        **_common(spec),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "instruction set": onednn_tier(),
        "threads": str(options.threads),
        "compiled": str(options.compiled),
        "floating type": float_type(spec),
    }
    if spec.quantized is not None:
        return ours | {"quantized model": module_digest(spec.quantized)}
    return ours | _quantizer(spec) if spec.scheme else ours


def observing_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the converted program. Raises `ModelError`."""
    asked = spec.calibration
    return {**_common(spec), **_quantizer(spec), "samples": str(asked.samples), "batch_size": str(asked.batch_size)}


def _common(spec: EngineSpec) -> dict[str, str]:
    return {"model": module_digest(spec.model), "torch": version("torch"), "recipe": RECIPE_VERSION}


def _quantizer(spec: EngineSpec) -> dict[str, str]:
    return {
        "torchao": version("torchao"),
        "reduce_range": str(parse_options(spec.options).seven_bits),
        "exclude": json.dumps(sorted(spec.exclude)),
    }
