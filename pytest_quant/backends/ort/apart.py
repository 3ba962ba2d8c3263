"""Tensors that a quantizer replaces while something that it does not look at still reads them: set apart first.

ONNX Runtime's quantizers look at one graph at a time. They remove a Relu and let the node before it write the Relu's
output, take a bias out of the graph, and turn the weight of a Gemm around where it lies. The body of an If, Loop or
Scan that reads such a tensor by name would get other values, or none; so would a second Gemm with the same weight.
"""

from __future__ import annotations

import onnx

from pytest_quant.backends.onnx_files import all_graphs, captured_names, defined_names, fresh_name, rename_captured

_BIASED = ("Conv", "ConvTranspose", "Gemm")
"""Operators whose third input is a bias."""


def set_captured_apart(graph: onnx.GraphProto) -> bool:
    """Let bodies read tensors of `graph` that no quantizer touches; tell whether there were any.

    What a node computes reaches the bodies through an Identity, which reads as any other node does: from the 8-bit
    form where there is one. A weight that the graph itself reads too is copied. So in every graph inside.
    """
    taken = {name for inner in all_graphs(graph) for name in defined_names(inner)}
    changed = [_set_apart(inner, taken) for inner in all_graphs(graph)]
    return any(changed)


def _set_apart(graph: onnx.GraphProto, taken: set[str]) -> bool:
    captured = set().union(*(captured_names(node) for node in graph.node))
    computed = captured & {name for node in graph.node for name in node.output}
    read_here = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    copied = [tensor for tensor in graph.initializer if tensor.name in captured & read_here]
    names = {name: fresh_name(f"{name}_captured", taken) for name in sorted(computed)}
    copies = {tensor.name: fresh_name(f"{tensor.name}_captured", taken) for tensor in copied}
    if not names and not copies:
        return False
    nodes = []
    for node in graph.node:
        rename_captured(node, names | copies)
        nodes.append(node)
        nodes += [
            onnx.helper.make_node("Identity", [name], [names[name]], name=names[name])
            for name in node.output
            if name in names
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    for tensor in copied:
        _copy(graph, tensor, copies[tensor.name])
    return True


def set_turned_weights_apart(graph: onnx.GraphProto) -> bool:
    """Give nodes whose output channels lie on another axis a weight of their own; tell whether one was shared.

    To make a Gemm that reads its weight transposed a MatMul, the quantizers transpose the weight in its place, once for
    each such Gemm. And scales per channel have one axis, that of the last reader.
    """
    graphs = list(all_graphs(graph))
    taken = {name for inner in graphs for name in defined_names(inner)}
    readers: dict[str, int] = {}
    for inner in graphs:
        for node in inner.node:
            for name in node.input:
                readers[name] = readers.get(name, 0) + 1
    changed = False
    for inner in graphs:
        weights = {tensor.name: tensor for tensor in inner.initializer if readers.get(tensor.name, 0) > 1}
        for node in (one for deeper in all_graphs(inner) for one in deeper.node if weights and _is_turned(one)):
            weight = weights.get(node.input[1])
            if weight is not None:
                node.input[1] = fresh_name(f"{weight.name}_own", taken)
                _copy(inner, weight, node.input[1])
                changed = True
    return changed


def set_shared_biases_apart(graph: onnx.GraphProto) -> bool:
    """Give every Conv, ConvTranspose and Gemm a bias of its own; tell whether one was shared.

    The static quantizer copies a shared bias itself and appends a number to its name, whether or not another tensor
    is called that: the output of a node that is then reads as a bias.
    """
    graphs = list(all_graphs(graph))
    taken = {name for inner in graphs for name in defined_names(inner)}
    changed = False
    for inner in graphs:
        weights = {tensor.name: tensor for tensor in inner.initializer}
        seen: set[str] = set()
        for node in inner.node:
            bias = weights.get(node.input[2]) if node.op_type in _BIASED and len(node.input) > 2 else None
            if bias is not None and bias.name in seen:
                node.input[2] = fresh_name(f"{bias.name}_own", taken)
                _copy(inner, bias, node.input[2])
                changed = True
            elif bias is not None:
                seen.add(bias.name)
    return changed


def _is_turned(node: onnx.NodeProto) -> bool:
    if node.op_type == "ConvTranspose":
        return True
    return node.op_type == "Gemm" and any(one.name == "transB" and one.i for one in node.attribute)


def _copy(graph: onnx.GraphProto, tensor: onnx.TensorProto, name: str) -> None:
    copy = graph.initializer.add()
    copy.CopyFrom(tensor)
    copy.name = name
