"""What a plan is made from, as text: the key of the cache."""

from __future__ import annotations

from dataclasses import asdict

from pytest_quant.backends.onnx_files import file_digests, model_file
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt_graph import trt_quantize_ingredients
from pytest_quant.spec import EngineSpec

RECIPE_VERSION = "1"
"""Raised when the same ingredients would be built into something else."""


def engine_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides the plan. Raises `ModelError`."""
    options = parse_options(spec.backend, spec.options)
    builder = {name: str(value) for name, value in asdict(options).items()}
    ours = {"TensorRT": runtime_version, "builder recipe": RECIPE_VERSION, "backend": spec.backend, **builder}
    if spec.scheme == "static":
        return ours | trt_quantize_ingredients(spec)
    models = (
        {"model": spec.model} if spec.quantized is None else {"model": spec.model, "quantized model": spec.quantized}
    )
    digests = {
        f"{name} data {place}" if place else name: digest
        for name, model in models.items()
        for place, digest in file_digests(model_file(model)).items()
    }
    return ours | digests | {"precision": spec.precision, "scheme": str(spec.scheme)}
