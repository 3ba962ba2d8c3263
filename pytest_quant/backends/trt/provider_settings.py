"""The settings of ONNX Runtime's TensorRT provider: its options, the shapes, and a table of ranges.

ONNX Runtime's own writer of the table puts max(highest, lowest) into it. TensorRT takes the number for the largest
absolute value, so a tensor that ranges from -5 to 1 would be cut off at 1
(github.com/microsoft/onnxruntime/issues/25621).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.trt.options import Range, float_type, parse_options, uses_table
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec

TABLE_FILE = "ranges.flatbuffers"
TensorRange = tuple[float, float]
"""Lowest and highest value."""


def read_ranges(file: Path) -> dict[str, TensorRange]:
    """Return the ranges that a calibration of `pytest_quant.backends.ort` wrote, by tensor."""
    from onnxruntime.quantization.calibrate import load_tensors_data

    tensors = load_tensors_data(file).data
    return {
        name: (float(np.min(entry.range_value[0])), float(np.max(entry.range_value[1])))
        for name, entry in tensors.items()
    }


def largest_magnitude(tensor: str, lowest: float, highest: float) -> float:
    """Return the largest absolute value of a range.

    Parameters
    ----------
    tensor : name of the tensor, for the error.
    lowest, highest : smallest and largest value of the tensor in the calibration.

    Raises
    ------
    BuildError : the range is not finite, runs backwards, or holds nothing but 0.
    """
    largest = max(abs(lowest), abs(highest))
    if isfinite(lowest) and isfinite(highest) and lowest <= highest and largest > 0.0:
        return largest
    raise BuildError(
        f"TensorRT cannot quantize '{tensor}' by its range",
        value=f"{lowest} to {highest}",
        allowed="two finite numbers in order, not both 0",
        fix="calibrate on samples for which the network computes numbers that are finite and not all 0",
    )


def write_table(ranges: Mapping[str, TensorRange], file: Path) -> None:
    """Write the largest absolute value of each tensor into `file`. Raises `BuildError`."""
    from onnxruntime.quantization.CalTableFlatBuffers import KeyValue, TrtTable

    builder: Any = import_module("flatbuffers").Builder(1024)
    entries = []
    for name in sorted(ranges):
        key = builder.CreateString(name)
        value = builder.CreateString(repr(largest_magnitude(name, *ranges[name])))
        KeyValue.KeyValueStart(builder)
        KeyValue.KeyValueAddKey(builder, key)
        KeyValue.KeyValueAddValue(builder, value)
        entries.append(KeyValue.KeyValueEnd(builder))
    TrtTable.TrtTableStartDictVector(builder, len(entries))
    # A flatbuffer is written from its end, so the last entry goes first.
    for entry in reversed(entries):
        builder.PrependUOffsetTRelative(entry)
    entries_at = builder.EndVector()
    TrtTable.TrtTableStart(builder)
    TrtTable.TrtTableAddDict(builder, entries_at)
    builder.Finish(TrtTable.TrtTableEnd(builder))
    file.write_bytes(bytes(builder.Output()))


def write_float_with_table(spec: EngineSpec, calibration: Path, folder: Path) -> None:
    """Write the float graph and the table of its ranges. The table uses the names of the graph that was calibrated.

    Parameters
    ----------
    spec : the engine, whose float model is read.
    calibration : a folder that `pytest_quant.backends.ort.calibrate.write_ranges` filled.
    folder : gets ``model.onnx`` with its external data, and `TABLE_FILE`.

    Raises
    ------
    ModelError : the model is missing or broken.
    BuildError : the model cannot be prepared, its graph has Q/DQ pairs or operators that TensorRT cannot take, or a
        range is refused by `largest_magnitude`.
    """
    from pytest_quant.backends.ort.calibrate import RANGES_FILE
    from pytest_quant.backends.ort.prepare import prepare
    from pytest_quant.backends.trt.build import GRAPH_FILE
    from pytest_quant.backends.trt.preflight import check_graph
    from pytest_quant.backends.trt.quantize import quantizer_spec

    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        prepared = prepare(quantizer_spec(spec), Path(work), per_channel=True)
        for file in Path(work).glob(f"{prepared.name}*"):
            name = GRAPH_FILE if file == prepared else file.name
            shutil.copyfile(file, folder / name)
    check_graph(folder / GRAPH_FILE, calibrator=True)
    write_table(read_ranges(calibration / RANGES_FILE), folder / TABLE_FILE)


def provider_options(spec: EngineSpec, folder: Path) -> dict[str, str]:
    """Return the options of the provider: every switch that changes results, and its cache of engines in `folder`.

    It keys its engines by names and not by weights (github.com/microsoft/onnxruntime/issues/6455), so each engine of
    ours has a folder of its own. With Q/DQ pairs in the graph a table would make it fail.
    """
    parsed, floats = parse_options(spec.backend, spec.options), float_type(spec)
    options = {
        "device_id": "0",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_fp16_enable": "1" if floats == "fp16" else "0",
        "trt_bf16_enable": "1" if floats == "bf16" else "0",
        "trt_int8_enable": "1" if spec.precision == "int8" else "0",
    }
    if uses_table(spec):
        options |= {"trt_int8_calibration_table_name": TABLE_FILE, "trt_int8_use_native_calibration_table": "0"}
    if parsed.workspace_mb is not None:
        options["trt_max_workspace_size"] = str(parsed.workspace_mb * 10**6)
    if parsed.optimization_level is not None:
        options["trt_builder_optimization_level"] = str(parsed.optimization_level)
    return options


def profile_options(shapes: Mapping[str, Range]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the provider's options for shapes, ``name:1x3x64x64,other:1x7``, and a note where they cannot be written.

    Without them the provider builds at the first run, for that run's shapes alone, and again whenever a later run lies
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
