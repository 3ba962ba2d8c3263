"""What an engine and its quantization are made from, as text: the keys of the cache."""

from __future__ import annotations

import json
from importlib.metadata import version

from pytest_quant.backends.openvino.files import digests_of
from pytest_quant.backends.openvino.recipe import overflow_fix, parse_options
from pytest_quant.environment import onednn_tier
from pytest_quant.spec import EngineSpec

RECIPE_VERSION = "3"
"""Raised when the same ingredients would be built into something else."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelError`."""
    ours = {
        **digests_of("model", spec.model),
        "openvino": version("openvino"),
        "instruction set": onednn_tier(),
        "recipe": RECIPE_VERSION,
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "threads": str(parse_options(spec.options).threads),
    }
    if spec.quantized is not None:
        return ours | digests_of("quantized model", spec.quantized)
    return ours | _quantizer(spec) if spec.scheme == "static" else ours


def quantizing_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the quantized model. Raises `ModelError`."""
    asked = spec.calibration
    return {
        **digests_of("model", spec.model),
        **_quantizer(spec),
        "method": asked.method,
        "percentile": str(asked.percentile) if asked.method == "percentile" else "not used",
        "openvino": version("openvino"),
        "recipe": RECIPE_VERSION,
        "samples": str(asked.samples),
        "batch_size": str(asked.batch_size),
    }


def _quantizer(spec: EngineSpec) -> dict[str, str]:
    options = parse_options(spec.options)
    return {
        "nncf": version("nncf"),
        "preset": options.preset,
        "overflow_fix": overflow_fix(options),
        "model_type": str(options.model_type),
        "fast_bias_correction": str(options.fast_bias_correction),
        "exclude": json.dumps(sorted(spec.exclude)),
    }
