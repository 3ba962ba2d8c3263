"""The layers of a built engine, with the precision of each, out of the builder's detailed log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_LAYER = re.compile(
    r"^(?:\[\w+\] )?Name: (?P<name>.*?), LayerType: (?P<kind>.*?), Inputs: \[(?P<inputs>.*?)\], Constants: "
    r".*?TacticName: .*?Metadata: ?(?P<metadata>.*)$"
)
_DATATYPE = re.compile(r"Datatype: (\w+)")
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\]")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its type in TensorRT's words, the types of what it reads, and the ONNX nodes it was made from."""

    name: str
    kind: str
    input_types: tuple[str, ...]
    nodes: tuple[str, ...]


def layers_in_log(text: str) -> list[dict[str, Any]]:
    """Return every layer that the log lists, in plain JSON types; see `layer_of`."""
    found = []
    for line in text.splitlines():
        match = _LAYER.match(line)
        if match is not None:
            found.append(
                {
                    "name": match["name"],
                    "kind": match["kind"],
                    "input_types": _DATATYPE.findall(match["inputs"]),
                    "nodes": _ONNX_LAYER.findall(match["metadata"]),
                }
            )
    return found


def layer_of(row: dict[str, Any]) -> Layer:
    """Return a `Layer` from its JSON form."""
    return Layer(row["name"], row["kind"], tuple(row["input_types"]), tuple(row["nodes"]))
