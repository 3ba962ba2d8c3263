"""A table of ranges for TensorRT's implicit INT8, as ONNX Runtime's TensorRT provider reads it.

ONNX Runtime's own writer puts max(highest, lowest) into it. TensorRT takes the number for the largest absolute value,
so a tensor that ranges from -5 to 1 would be cut off at 1 (github.com/microsoft/onnxruntime/issues/25621).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.errors import BuildError

TABLE_FILE = "ranges.flatbuffers"
Range = tuple[float, float]
"""Lowest and highest value."""


def read_ranges(file: Path) -> dict[str, Range]:
    """Return the ranges that a calibration of `pytest_quant.backends.ort` wrote, by tensor."""
    from onnxruntime.quantization.calibrate import load_tensors_data

    found = load_tensors_data(file).data
    return {name: (float(np.min(one.range_value[0])), float(np.max(one.range_value[1]))) for name, one in found.items()}


def largest_magnitude(tensor: str, lowest: float, highest: float) -> float:
    """Return the largest absolute value of a range.

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


def write_table(ranges: Mapping[str, Range], file: Path) -> None:
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
