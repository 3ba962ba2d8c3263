"""The layers of a built TensorRT engine: what they compute in, and the nodes that they were made from.

They stand in the builder's log, or the engine's inspector lists them. Version 10 writes format and type of a layer as
one phrase there, ``"Format/Datatype": "Row major linear FP32"``; version 11 writes ``"Format"`` and ``"DataType"``
apart. Without the detailed verbosity a layer is a bare name. Of tensors with free axes it may say ``N/A due to dynamic
shapes``, even to a context that has shapes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files.graphs import all_graphs
from pytest_quant.backends.ort.macs import CONVERSIONS, find_products
from pytest_quant.backends.readback import Kind, LayerTime, Role, Tallied, precision_of, tally
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage

_LAYER = re.compile(
    r"^(?:\[\w+\] )?Name: (?P<name>.*?), LayerType: (?P<kind>.*?), Inputs: \[(?P<inputs>.*?)\], Constants: "
    r".*?TacticName: (?P<tactic>[^,]*).*?Metadata: ?(?P<metadata>.*)$"
)
_DATATYPE = re.compile(r"Datatype: (\w+)")
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\](?=\s|\[ONNX |$)")
"""A node in the metadata of a layer; its name may have brackets."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an engine.

    Attributes
    ----------
    kind : its type as TensorRT spells it.
    input_types : those of its inputs, ``Int8`` or ``Float`` for example; empty texts where it does not tell.
    nodes : the ONNX nodes it was made from.
    tactic : name of its kernel.
    """

    name: str
    kind: str
    input_types: tuple[str, ...]
    nodes: tuple[str, ...]
    tactic: str = ""


def layers_in_log(text: str) -> list[Layer]:
    """Return every layer that the log lists."""
    return [
        Layer(
            line["name"],
            line["kind"],
            tuple(_DATATYPE.findall(line["inputs"])),
            tuple(_ONNX_LAYER.findall(line["metadata"])),
            line["tactic"],
        )
        for line in map(_LAYER.match, text.splitlines())
        if line is not None
    ]


def read_layers(file: Path) -> list[Layer]:
    """Return the layers that a build listed, from the JSON file that it wrote."""
    return msgspec.json.decode(file.read_bytes(), type=list[Layer])


_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
COMPUTE_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}) | _RECURRENT
"""ONNX operators that multiply and accumulate."""

_PRODUCTS = re.compile(r"attention|conv|correlation|fullyconnected|gemm|gemv|matmul|matrixmul|mha|runtime_fusion", re.I)
"""Words in the types of layers that multiply. The importer makes a Shuffle, Scale or Cast of the same node too."""

_KERNELS = re.compile(r"(?i:conv|gemm|gemv|mha|xmma)|__myl_Fc")
"""Words in the names of kernels that Myelin generated and that multiply: ``_gemm_mha_v2``, and not ``__myl_Slic``."""


def ops_of(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the op type of every node of `graph`, and of its bodies, by the name that TensorRT's parser gives it."""
    nodes = (node for inner in all_graphs(graph) for node in inner.node)
    return {node.name or f"node_of_{node.output[0]}": node.op_type for node in nodes}


def macs_by_node(path: Path, feeds: Feeds) -> dict[str, int | None]:
    """Return the multiply-accumulates of the products of the ONNX file in `path`, by the parser's name for each."""
    return {product.name or f"node_of_{product.aliases[0]}": product.macs for product in find_products(path, feeds)}


def count_layers(
    layers: Sequence[Layer],
    ops: Mapping[str, str],
    precision: str,
    provider: str,
    macs: Mapping[str, int | None],
    elsewhere: Sequence[Tallied] = (),
) -> Coverage:
    """Return the share of products that read their activations in `precision`, by MACs if all are known.

    A note says what products read beside `precision` and float32.

    Parameters
    ----------
    layers : those of the built engine.
    ops : op type of each node of the ONNX graph, see `ops_of`.
    precision : the one asked for, ``fp32``, ``fp16``, ``bf16`` or ``int8``.
    provider : where it runs, for the report.
    macs : multiply-accumulates of the products of the graph, see `macs_by_node`.
    elsewhere : products beside those of `ops`, which another provider runs.
    """
    read = {name: _read(layers, name) for name, op in ops.items() if op in COMPUTE_OPS}
    products = [Tallied(name, ops[name], _kind(read[name], ops[name], precision), macs.get(name)) for name in read]
    others = Counter(kind for kinds in read.values() for kind in kinds - {precision, "fp32"})
    of = f"of {len(read)} products"
    notes = tuple(
        f"{others[kind]} {of} ran in {kind}" if kind else f"the engine hides the type that {others[kind]} {of} read"
        for kind in sorted(others)
    )
    return replace(tally([*products, *elsewhere], provider), notes=notes)


def _kind(read: set[str], op: str, precision: str) -> Kind:
    """Return how a product counts by what it reads, see `_read`; TensorRT has no integer form of a recurrence."""
    if (op in _RECURRENT and precision == "int8") or read - {precision, ""}:
        return Kind.OTHER
    return Kind.ASKED if read == {precision} else Kind.OPAQUE


def _read(layers: Sequence[Layer], name: str) -> set[str]:
    """Return the precisions of the activations that the product `name` reads; an empty text if a layer hides it."""
    words = {(layer.input_types or ("",))[0] for layer in layers if name in layer.nodes and _multiplies(layer)}
    return set(map(precision_of, words))


def _multiplies(layer: Layer) -> bool:
    if layer.kind not in ("fusion", "kgen"):
        return bool(_PRODUCTS.search(layer.kind))
    own = re.sub("|".join(map(re.escape, layer.nodes)), "", layer.name)
    return bool(_KERNELS.search(f"{own} {layer.tactic}"))


_WORD = re.compile(r"\b(FP32|FP16|BF16|BFloat16|INT8|INT4|INT32|INT64|FP8|FP4|Float|Half|Bool)\b", re.IGNORECASE)
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
        fix = "build it again with ProfilingVerbosity.DETAILED, as this plugin does"
        raise BuildError("the engine's inspector gives names of layers only", fix=fix)
    return [_layer(row) for row in rows]


def _layer(row: Mapping[str, Any]) -> Layer:
    kinds = [_type_of(tensor) for tensor in row.get("Inputs", ())]
    tactic = row.get("TacticName") or ""
    if kinds[:1] == [""]:
        by_kernel = _TACTIC.search(tactic)
        kinds[0] = _word((row.get("Weights") or {}).get("Type")) or (by_kernel and by_kernel.lastgroup) or ""
    nodes = tuple(_ONNX_LAYER.findall(row.get("Metadata") or ""))
    return Layer(row["Name"], row["LayerType"], tuple(kinds), nodes, tactic)


def _type_of(tensor: Mapping[str, Any]) -> str:
    """Return the word for the type, as `precision_of` takes it; an empty text if it is hidden."""
    return _word(next((tensor[key] for key in ("DataType", "Datatype", "Format/Datatype") if tensor.get(key)), ""))


def _word(phrase: str | None) -> str:
    matched = _WORD.search(phrase or "")
    return matched[1] if matched else ""


_REFORMATS = ("Reformat", "Shuffle")
"""How types of layers begin that change type or layout only; of a node of the model they are that node's work."""


def layer_times_of(
    layers: Sequence[Layer], ops: Mapping[str, str], spent_ms: Mapping[str, float] | None = None
) -> tuple[LayerTime, ...]:
    """Return the layers of an engine.

    Parameters
    ----------
    layers : as the inspector or the log of the build lists them.
    ops : op type of each node of the ONNX graph, see `pytest_quant.backends.trt.coverage.ops_of`.
    spent_ms : milliseconds of each layer that ran, by its name; ``None`` where nothing ran, and all are returned.
    """
    by_name = {layer.name: layer for layer in layers}
    times: Mapping[str, float | None] = dict.fromkeys(by_name) if spent_ms is None else spent_ms
    unknown = Layer("", "", (), ())
    rows = []
    for name, ms in times.items():
        layer = by_name.get(name, unknown)
        nodes = tuple(node for node in dict.fromkeys(layer.nodes) if ops.get(node) not in CONVERSIONS)
        word = layer.input_types[0] if layer.input_types else ""
        rows.append(LayerTime(name, layer.kind, precision_of(word), ms, nodes, _role(layer, nodes)))
    return tuple(rows)


def _role(layer: Layer, nodes: Sequence[str]) -> Role:
    """Return what a layer does; a layer that was made from Q/DQ nodes alone changes types."""
    if layer.kind.startswith("Reformat") or (not nodes and (layer.nodes or layer.kind.startswith(_REFORMATS))):
        return "reformat"
    return "compute" if nodes else "other"
