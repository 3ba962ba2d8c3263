"""Excluded nodes kept apart from the Q/DQ pairs around them, in the file, so that every session runs them in float."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files import all_graphs
from pytest_quant.backends.ort.lineage import PARTED
from pytest_quant.backends.ort.recipe import PASSING


def part_from_pairs(path: Path, exclude: Collection[str]) -> None:
    """Put a copy of the values between dequantized tensors and the nodes of the names `exclude` that read them.

    ONNX Runtime fuses a node of dequantized operands into an integer one, and quantizes the weights of Conv and Gemm
    behind a dequantized operand when a session opens. A maximum of one operand is what no optimizer sees through, so
    the nodes stay in float in each session of the file, whoever opens it, and those around them stay what they are.
    """
    model = onnx.load(path, load_external_data=False)
    for graph in all_graphs(model.graph):
        makers = {tensor: node for node in graph.node for tensor in node.output}
        nodes = []
        for node in graph.node:
            if node.name in exclude and node.input and _is_dequantized(node.input[0], makers):
                copied = f"{PARTED}_{node.input[0]}_{node.name}"
                nodes.append(onnx.helper.make_node("Max", node.input[:1], [copied], f"{PARTED}_{node.name}"))
                node.input[0] = copied
                makers[copied] = nodes[-1]
            nodes.append(node)
        del graph.node[:]
        graph.node.extend(nodes)
    onnx.save_model(model, path)


def _is_dequantized(tensor: str, makers: Mapping[str, onnx.NodeProto]) -> bool:
    """Tell whether `tensor` holds dequantized values, moved perhaps: the optimizer takes moves into the integers."""
    node = makers.get(tensor)
    while node is not None and node.op_type in PASSING and node.input:
        node = makers.get(node.input[0])
    return node is not None and node.op_type == "DequantizeLinear"
