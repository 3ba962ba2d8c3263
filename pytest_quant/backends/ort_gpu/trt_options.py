"""What `OrtTrtBackend` understands beside the options of the TensorRT builder, and what the provider is told.

======  ===================  ==========================================================================
option  type                 meaning
======  ===================  ==========================================================================
ranges  "qdq" or "table"     int8 static: Q/DQ pairs in the graph, or a table of ranges beside the float
                             graph (implicit INT8, TensorRT 10 only); default "qdq"
======  ===================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.option_rules import checked, one_of
from pytest_quant.backends.ort_gpu.trt_table import TABLE_FILE
from pytest_quant.backends.trt.options import Range, parse_options
from pytest_quant.spec import EngineSpec

_RANGES = "ranges"
QDQ, TABLE = "qdq", "table"
_OWN = {_RANGES: one_of(QDQ, TABLE)}


def uses_table(spec: EngineSpec) -> bool:
    """Tell whether `spec` asks for a table of ranges. Raises `UsageError` when it asks for something else."""
    own = [(name, value) for name, value in spec.options if name == _RANGES]
    return spec.scheme == "static" and checked(spec.backend, own, _OWN).get(_RANGES) == TABLE


def builder_spec(spec: EngineSpec) -> EngineSpec:
    """Return `spec` with the options of the TensorRT builder only."""
    return replace(spec, options=tuple(pair for pair in spec.options if pair[0] != _RANGES))


def target_of(spec: EngineSpec) -> str | None:
    """Return the compute capability that is named, if one is. Raises `UsageError`."""
    return parse_options(spec.backend, builder_spec(spec).options).compute_capability


def provider_options(spec: EngineSpec, folder: Path) -> dict[str, str]:
    """Return what the provider is told: every switch that changes results, and its cache of engines in `folder`.

    It keys its engines by names and not by weights (github.com/microsoft/onnxruntime/issues/6455), so each engine of
    ours has a folder of its own. With Q/DQ pairs in the graph a table would make it fail.
    """
    asked = parse_options(spec.backend, builder_spec(spec).options)
    options = {
        "device_id": "0",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_fp16_enable": "1" if spec.precision == "fp16" else "0",
        "trt_bf16_enable": "1" if spec.precision == "bf16" else "0",
        "trt_int8_enable": "1" if spec.precision == "int8" else "0",
    }
    if uses_table(spec):
        options |= {"trt_int8_calibration_table_name": TABLE_FILE, "trt_int8_use_native_calibration_table": "0"}
    if asked.workspace_mb is not None:
        options["trt_max_workspace_size"] = str(asked.workspace_mb * 10**6)
    if asked.optimization_level is not None:
        options["trt_builder_optimization_level"] = str(asked.optimization_level)
    return options


def profile_options(shapes: Mapping[str, Range]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what the provider is told of shapes, ``name:1x3x64x64,other:1x7``, and a note where it cannot be told.

    Without it the provider builds at the first run, for that run's shapes alone, and again whenever a later run lies
    outside of all before. Colon and comma part its entries, so an input with one of them in its name has no spelling.
    """
    if not shapes:
        return {}, ()
    unspeakable = [name for name in shapes if ":" in name or "," in name]
    if unspeakable:
        names = ", ".join(f"'{name}'" for name in unspeakable)
        return {}, (f"the provider cannot be told shapes of {names} (colon or comma): it builds anew for new shapes",)
    words = ("min", "opt", "max")
    return {
        f"trt_profile_{word}_shapes": ",".join(
            f"{name}:{'x'.join(map(str, shapes[name][place]))}" for name in sorted(shapes)
        )
        for place, word in enumerate(words)
    }, ()
