"""What an engine and its calibration are made from, as text: the keys of the cache."""

from __future__ import annotations

import json
from importlib.metadata import version

from pytest_quant.backends.onnx_files import file_digests, model_file
from pytest_quant.backends.ort.options import parse_options, runtime_version
from pytest_quant.backends.ort.recipe import RECIPE_VERSION, Recipe, recipe_of
from pytest_quant.environment import isa_tier
from pytest_quant.spec import EngineSpec, Model

_OPTIONS_OF = {
    "static": ("op_types", "per_channel", "reduce_range", "activation_type", "weight_type", "symmetric", "extra"),
    "dynamic": ("op_types", "per_channel", "reduce_range", "weight_type", "extra"),
    "weight-only": ("symmetric", "block_size", "accuracy_level"),
}
"""Options that each scheme reads; the float reference is not rebuilt when an option of the candidate changes."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelError`."""
    recipe = recipe_of(spec)
    options = {name: _text(recipe, name) for name in _OPTIONS_OF.get(spec.scheme or "", ())}
    return {
        **_common(spec),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "exclude": json.dumps(sorted(spec.exclude)),
        "threads": str(parse_options(spec.options).threads),
        **options,
        **({} if spec.quantized is None else _model("quantized model", spec.quantized)),
    }


def range_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the ranges of activations. Raises `ModelError`."""
    recipe, asked = recipe_of(spec), spec.calibration
    return {
        **_common(spec),
        "method": asked.method,
        "percentile": str(asked.percentile) if asked.method == "percentile" else "not used",
        "samples": str(asked.samples),
        "batch_size": str(asked.batch_size),
        "op_types": _text(recipe, "op_types"),
        "upgraded opset": str(recipe.per_channel),
        "calibrator options": json.dumps(recipe.calibrator_extra, sort_keys=True),
    }


def _common(spec: EngineSpec) -> dict[str, str]:
    versions = {name: version(name) for name in ("onnx", "numpy")}
    return {
        **_model("model", spec.model),
        **versions,
        "onnxruntime": runtime_version(),
        "instruction set": isa_tier(),
        "recipe": RECIPE_VERSION,
    }


def _model(name: str, model: Model) -> dict[str, str]:
    digests = file_digests(model_file(model))
    return {f"{name} data {location}" if location else name: digest for location, digest in digests.items()}


def _text(recipe: Recipe, name: str) -> str:
    return json.dumps(getattr(recipe, name))
