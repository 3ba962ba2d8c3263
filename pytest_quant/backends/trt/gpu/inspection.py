"""The layers of a TensorRT engine as its inspector lists them.

Version 10 writes format and type of a layer as one phrase, ``"Format/Datatype": "Row major linear FP32"``; version 11
writes ``"Format"`` and ``"DataType"`` apart. Without the detailed verbosity a layer is a bare name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_quant.backends.trt.coverage import Layer
from pytest_quant.errors import BuildError

_WORDS = {"FP32": "Float", "FP16": "Half", "BF16": "BFloat16", "INT8": "Int8", "FP8": "FP8", "INT4": "Int4"}
_WORD = re.compile(r"\b(FP32|FP16|BF16|BFloat16|INT8|INT4|INT32|INT64|FP8|Float|Half|Bool)\b", re.IGNORECASE)
_CANONICAL = {word.lower(): word for word in ("Float", "Half", "BFloat16", "Int32", "Int64", "Bool")} | {
    short.lower(): word for short, word in _WORDS.items()
}
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\]")


def layers_in_inspection(text: str) -> list[Layer]:
    """Return the layers that ``get_engine_information(JSON)`` lists.

    Raises
    ------
    BuildError : it lists names only, so the precision of the layers is not known.
    """
    rows = json.loads(text)["Layers"]
    if any(not isinstance(row, Mapping) for row in rows):
        raise BuildError(
            "the engine's inspector gives names of layers only",
            fix="build it again with ProfilingVerbosity.DETAILED, as this plugin does",
        )
    return [_layer(row) for row in rows]


def _layer(row: Mapping[str, Any]) -> Layer:
    kinds = tuple(_type_of(tensor) for tensor in row.get("Inputs", ()))
    return Layer(row["Name"], row["LayerType"], kinds, tuple(_ONNX_LAYER.findall(row.get("Metadata") or "")))


def _type_of(tensor: Mapping[str, Any]) -> str:
    """Return the type as the builder's log spells it: Float, Half, Int8."""
    phrase = next((tensor[key] for key in ("DataType", "Datatype", "Format/Datatype") if tensor.get(key)), "")
    found = _WORD.search(phrase)
    return _CANONICAL.get(found[1].lower(), found[1]) if found else str(phrase)
