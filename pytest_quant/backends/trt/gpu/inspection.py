"""The layers of a TensorRT engine as its inspector lists them.

Version 10 writes format and type of a layer as one phrase, ``"Format/Datatype": "Row major linear FP32"``; version 11
writes ``"Format"`` and ``"DataType"`` apart. Without the detailed verbosity a layer is a bare name. Of tensors with
free axes it may say ``N/A due to dynamic shapes``, even to a context that has shapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_quant.backends.trt.coverage import Layer, nodes_in
from pytest_quant.errors import BuildError

_WORDS = {"FP32": "Float", "FP16": "Half", "BF16": "BFloat16", "INT8": "Int8", "FP8": "FP8", "INT4": "Int4"}
_WORD = re.compile(r"\b(FP32|FP16|BF16|BFloat16|INT8|INT4|INT32|INT64|FP8|FP4|Float|Half|Bool)\b", re.IGNORECASE)
_CANONICAL = {word.lower(): word for word in ("Float", "Half", "BFloat16", "Int32", "Int64", "Bool")} | {
    short.lower(): word for short, word in _WORDS.items()
}
_TACTIC = re.compile(
    r"(?P<Int8>i8(?:i8|i32|f16|f32)|imma|int8)|(?P<BFloat16>bf16(?:bf16|f32))|(?P<FP8>e4m3e4m3)"
    r"|(?P<Half>(?<!b)f16(?:f16|f32)|h884|h1688|h16816)|(?P<Float>f32(?:f32|tf32)|ffma|scudnn|sgemm)"
)
"""In the name of a kernel its operands come first, ``i8f32_i8i32_f32``: what it reads, writes and multiplies in."""


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
    kinds = [_type_of(tensor) for tensor in row.get("Inputs", ())]
    tactic = row.get("TacticName") or ""
    if kinds[:1] == [""]:
        by_kernel = _TACTIC.search(tactic)
        kinds[0] = _word((row.get("Weights") or {}).get("Type")) or (by_kernel and by_kernel.lastgroup) or ""
    return Layer(row["Name"], row["LayerType"], tuple(kinds), tuple(nodes_in(row.get("Metadata") or "")), tactic)


def _type_of(tensor: Mapping[str, Any]) -> str:
    """Return the type as the builder's log spells it, Float, Half or Int8; an empty text where it is hidden."""
    return _word(next((tensor[key] for key in ("DataType", "Datatype", "Format/Datatype") if tensor.get(key)), ""))


def _word(phrase: str | None) -> str:
    found = _WORD.search(phrase or "")
    return _CANONICAL.get(found[1].lower(), found[1]) if found else ""
