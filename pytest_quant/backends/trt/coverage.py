"""The precisions that a built TensorRT engine computes in: counted from the layers in the builder's log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.coverage import Kind, Tallied, tally
from pytest_quant.backends.ort.products import find_products
from pytest_quant.result import Coverage

_LAYER = re.compile(
    r"^(?:\[\w+\] )?Name: (?P<name>.*?), LayerType: (?P<kind>.*?), Inputs: \[(?P<inputs>.*?)\], Constants: "
    r".*?TacticName: .*?Metadata: ?(?P<metadata>.*)$"
)
_DATATYPE = re.compile(r"Datatype: (\w+)")
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\]")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its type as TensorRT spells it, the types of its inputs, and the ONNX nodes it was made from."""

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


_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
COMPUTE_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}) | _RECURRENT
"""ONNX operators that multiply and accumulate."""

_POINTWISE = frozenset(
    {"kgen", "shape_call", "signal", "wait", "Reformat", "NoOp", "Constant", "Myelin", "ForeignNode"}
)
"""Layer types that hold no product of their own; one that swallowed a product cannot be seen into."""

PRECISIONS = {"Float": "fp32", "Half": "fp16", "BFloat16": "bf16", "Int8": "int8", "FP8": "fp8", "Int4": "int4"}


def ops_of(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the op type of every node of `graph` by the name that TensorRT's parser gives it."""
    return {node.name or f"node_of_{node.output[0]}": node.op_type for node in graph.node}


def macs_by_node(path: Path, feeds: Feeds) -> dict[str, int | None]:
    """Return the multiply-accumulates of the products of the ONNX file in `path`, by the parser's name for each."""
    return {one.name or f"node_of_{one.aliases[0]}": one.macs for one in find_products(path, feeds)}


def count_layers(
    layers: Sequence[Layer], ops: Mapping[str, str], precision: str, provider: str, macs: Mapping[str, int | None]
) -> Coverage:
    """Return the share of products that read their activations in `precision`, by MACs where all are known.

    Parameters
    ----------
    provider : where it runs, for the report.
    layers, ops, precision, macs : see `tallied_products`.
    """
    return tally(tallied_products(layers, ops, precision, macs), provider)


def tallied_products(
    layers: Sequence[Layer], ops: Mapping[str, str], precision: str, macs: Mapping[str, int | None]
) -> list[Tallied]:
    """Return how each product of an engine counts, by the activations that it reads.

    Parameters
    ----------
    layers : those of the built engine.
    ops : op type of each node of the ONNX graph, see `ops_of`.
    precision : the one asked for, ``fp32``, ``fp16``, ``bf16`` or ``int8``.
    macs : multiply-accumulates of the products of the graph, see `macs_by_node`.
    """
    return [
        Tallied(name, op, _kind(layers, name, op, precision), macs.get(name))
        for name, op in ops.items()
        if op in COMPUTE_OPS
    ]


def _kind(layers: Sequence[Layer], name: str, op: str, precision: str) -> Kind:
    """Return how a node counts, by the layers that name it; TensorRT has no integer form of a recurrence."""
    if op in _RECURRENT and precision == "int8":
        return Kind.OTHER
    mentioning = [layer for layer in layers if name in layer.nodes]
    products = [layer for layer in mentioning if layer.kind not in _POINTWISE]
    if not products:
        return Kind.OPAQUE
    asked = all(layer.input_types and PRECISIONS.get(layer.input_types[0]) == precision for layer in products)
    return Kind.ASKED if asked else Kind.OTHER
