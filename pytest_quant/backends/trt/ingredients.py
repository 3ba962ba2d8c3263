"""What a plan is made from, as text: the key of the cache."""

from __future__ import annotations

import json
from dataclasses import asdict

from pytest_quant.backends.onnx_files import file_digests, model_file, read_signature
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt.profile import profile_of
from pytest_quant.backends.trt_graph import trt_quantize_ingredients
from pytest_quant.spec import EngineSpec

RECIPE_VERSION = "3"
"""Raised when the same ingredients would be built into something else."""


_IN_PROFILE = ("shapes", "max_batch", "opt_batch")
"""Options that decide nothing beside the profile."""


def engine_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides the plan. Raises `ModelError`."""
    ours = _builder(spec, runtime_version)
    if spec.scheme == "static":
        return ours | trt_quantize_ingredients(spec)
    return ours | _models(spec) | {"precision": spec.precision, "scheme": str(spec.scheme)}


def implicit_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides a plan whose ranges TensorRT finds. Raises `ModelError`."""
    asked = spec.calibration
    return {
        **_builder(spec, runtime_version),
        **_models(spec),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "method": asked.method,
        "samples": str(asked.samples),
        "batch_size": str(asked.batch_size),
        "exclude": json.dumps(sorted(spec.exclude)),
    }


def _builder(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    options = parse_options(spec.backend, spec.options)
    builder = {name: str(value) for name, value in asdict(options).items() if name not in _IN_PROFILE}
    profile = profile_of(spec, read_signature(model_file(spec.quantized or spec.model)))
    return {
        "TensorRT": runtime_version,
        "builder recipe": RECIPE_VERSION,
        "backend": spec.backend,
        "profile": json.dumps(asdict(profile), sort_keys=True),
        **builder,
    }


def _models(spec: EngineSpec) -> dict[str, str]:
    models = {"model": spec.model} | ({} if spec.quantized is None else {"quantized model": spec.quantized})
    return {
        f"{name} data {place}" if place else name: digest
        for name, model in models.items()
        for place, digest in file_digests(model_file(model)).items()
    }
