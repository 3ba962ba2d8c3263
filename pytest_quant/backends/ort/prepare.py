"""From the user's float model to a model that the quantizer understands, with the same outputs.

ONNX Runtime's quantizers look at one graph at a time. They remove a Relu and let the node before it write the Relu's
output, take a bias out of the graph, and turn the weight of a Gemm around where it lies. The body of an If, Loop or
Scan that reads such a tensor by name would get other values, or none; so would a second Gemm with the same weight.

A Gemm they take in one form: ``x @ W + b``, with a b of one axis. The standard has ``alpha * (x @ W) + beta * b`` and
broadcasts b from (), (1,), (1, 1), (1, n), (m, 1) and (m, n). The static quantizer divides b by beta and then drops
beta, and looks b up by channel; a product with an alpha stays float.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, chdir
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from pytest_quant.backends.onnx_files import file_digests, model_file, needs_external_data, write_model
from pytest_quant.backends.onnx_files.graphs import (
    all_graphs,
    captured_names,
    constant_names,
    defined_names,
    fresh_name,
    opset_of,
    refill,
    rename_captured,
)
from pytest_quant.backends.onnx_files.normalize import normal_file
from pytest_quant.backends.ort.session import ort_error
from pytest_quant.backends.runtime import quiet, tools_without_torch
from pytest_quant.files import temporary_folder
from pytest_quant.spec import EngineSpec

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators with weights; the third input of all but the last is a bias."""


def set_captured_apart(graph: onnx.GraphProto) -> None:
    """Let bodies read tensors of `graph` that no quantizer touches.

    What a node computes reaches the bodies through an Identity, which reads as any other node does: from the 8-bit
    form where there is one. A weight that the graph itself reads too is copied. So in every graph inside.
    """
    taken = {name for inner in all_graphs(graph) for name in defined_names(inner)}
    for inner in all_graphs(graph):
        captured = set().union(*(captured_names(node) for node in inner.node))
        computed = captured & {name for node in inner.node for name in node.output}
        read_here = {name for node in inner.node for name in node.input} | {value.name for value in inner.output}
        copied = [tensor for tensor in inner.initializer if tensor.name in captured & read_here]
        names = {name: fresh_name(f"{name}_captured", taken) for name in sorted(computed)}
        copies = {tensor.name: fresh_name(f"{tensor.name}_captured", taken) for tensor in copied}
        nodes = []
        for node in inner.node:
            rename_captured(node, names | copies)
            nodes.append(node)
            nodes += [
                helper.make_node("Identity", [name], [names[name]], name=names[name])
                for name in node.output
                if name in names
            ]
        refill(inner.node, nodes)
        for tensor in copied:
            _copy(inner, tensor, copies[tensor.name])


def set_shared_weights_apart(graph: onnx.GraphProto) -> None:
    """Give nodes that turn a weight around, or have a bias, a copy that no other node reads.

    To make a Gemm that reads its weight transposed a MatMul, the quantizers transpose the weight in its place, once for
    each such Gemm. And scales per channel have one axis, that of the last reader. A shared bias the static quantizer
    copies itself and appends a number to its name, whether or not another tensor is called that: the output of a node
    that is then reads as a bias. The weights of an LSTM are turned too, and looked for in its own graph alone.
    """
    graphs = list(all_graphs(graph))
    taken = {name for inner in graphs for name in defined_names(inner)}
    readers = Counter(name for inner in graphs for node in inner.node for name in node.input)
    readers.update(value.name for inner in graphs for value in inner.output)
    for inner in graphs:
        weights = {tensor.name: tensor for tensor in inner.initializer}
        for holder, node in ((deeper, node) for deeper in all_graphs(inner) for node in deeper.node if weights):
            is_apart = node.op_type == "LSTM" and holder is not inner
            for place in (*_find_turned(node), *([2] if node.op_type in WEIGHTED[:3] else [])):
                weight = weights.get(node.input[place]) if place < len(node.input) else None
                if weight is not None and (readers[weight.name] > 1 or is_apart):
                    readers[weight.name] -= 1
                    node.input[place] = fresh_name(f"{weight.name}_own", taken)
                    readers[node.input[place]] += 1
                    _copy(holder if is_apart else inner, weight, node.input[place])
        refill(inner.initializer, [tensor for tensor in inner.initializer if readers[tensor.name]])


def _find_turned(node: onnx.NodeProto) -> tuple[int, ...]:
    """Return the places of the weights that a quantizer turns around where they lie."""
    if node.op_type == "Gemm":
        return (1,) if any(attribute.name == "transB" and attribute.i for attribute in node.attribute) else ()
    return {"ConvTranspose": (1,), "LSTM": (1, 2)}.get(node.op_type, ())


def _copy(graph: onnx.GraphProto, tensor: onnx.TensorProto, name: str) -> None:
    graph.initializer.append(tensor)
    graph.initializer[-1].name = name


def prepare_model(spec: EngineSpec, *, per_channel: bool) -> Path:
    """Return the file of the pre-processed float model of `spec`, written once while a process builds from that model.

    The graph gets its normal form, BatchNorm folds into Conv, shapes are inferred, and what bodies of If, Loop and
    Scan read is set apart. The same model gives the same names each time, so that ranges found once fit again.

    Parameters
    ----------
    spec : the engine, whose float model is read.
    per_channel : whether weights get a scale for each channel, for which an opset below 13 is raised.

    Raises
    ------
    ModelError : the model is missing or broken.
    BuildError : the opset cannot be raised, or ONNX Runtime cannot optimize the model.
    """
    path, upgrades = model_file(spec.model), per_channel and spec.scheme != "weight-only"
    return _last_prepared(path, tuple(file_digests(path).items()), upgrades)[0]


@lru_cache(maxsize=1)
def _last_prepared(path: Path, _digests: object, upgrades: bool) -> tuple[Path, AbstractContextManager[Path]]:
    """Return the file, and what removes its folder when the next model takes this one's place, or the process ends."""
    folder = temporary_folder()
    work = folder.__enter__()
    target = work / "prepared.onnx"
    normal = normal_file(path, work, per_channel=upgrades)
    # Shape inference over symbols gives up on some models that quantize well without it.
    if _attempt(normal, target, symbolic=True) and (error := _attempt(normal, target, symbolic=False)):
        raise ort_error(f"to prepare {path.name} for quantization", error) from error
    _tidy(target)
    return target, folder


def _attempt(path: Path, target: Path, *, symbolic: bool) -> Exception | None:
    """Pre-process once and return the error if there was one; a failure that ONNX Runtime only logs counts too."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    external = needs_external_data(path)
    source = str(path.resolve())
    # Symbolic shape inference that gives up drops the model into the current folder.
    with chdir(target.parent), tools_without_torch(), quiet() as errors:
        try:
            quant_pre_process(
                source,
                str(target),
                skip_symbolic_shape=not symbolic,
                save_as_external_data=external,
                all_tensors_to_one_file=external,
                external_data_location=f"{target.name}.data" if external else None,
            )
        except Exception as error:
            # Symbolic shape inference raises bare Exception; the second attempt shows the cause.
            return error
    return RuntimeError("\n".join(errors)) if errors else None


def _tidy(path: Path) -> None:
    """Rewrite the parts of the model that the quantizers would fail on or get wrong."""
    model = onnx.load(path)
    # Here, because ONNX Runtime itself writes such: a MatMul and an Add of (1, n) become a Gemm.
    fold_gemm_constants(model)
    for node in (node for graph in all_graphs(model.graph) for node in graph.node if not node.name):
        # So that it can be left in float; called as TensorRT's parser calls it.
        node.name = f"node_of_{node.output[0]}" if node.op_type in WEIGHTED else ""
    set_captured_apart(model.graph)
    set_shared_weights_apart(model.graph)
    # Torch's exporter writes shapes of weights; the quantizers transpose those of a Gemm, which the old shape then
    # contradicts. Weights carry their own.
    weights = constant_names(model.graph)
    refill(model.graph.value_info, [value for value in model.graph.value_info if value.name not in weights])
    write_model(model, path)


# The attribute that scales what a Gemm reads at a place.
_FACTORS = {1: "alpha", 2: "beta"}


def fold_gemm_constants(model: onnx.ModelProto) -> None:
    """Multiply alpha and beta of each Gemm into its constants, and give a constant bias the shape (n,).

    A bias whose rows differ is added by a node of its own, ``name/bias``. Operands that are not constant stay, and so
    do those of a Gemm whose type overflows. Results differ by the rounding of one product at most. What was replaced
    is read by nobody, but by those who shared it.

    Parameters
    ----------
    model : in its normal form, so that no two graphs in it give one name to two tensors; it is changed.
    """
    # Before opset 7 an attribute says whether a bias may be broadcast at all.
    graphs = list(all_graphs(model.graph)) if opset_of(model) >= 7 else []
    taken = {name for graph in graphs for name in defined_names(graph)}
    tensors = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    # Inner ones first: a graph whose nodes are replaced holds copies of those inside it.
    for graph in reversed(graphs):
        nodes = []
        for node in graph.node:
            nodes.append(node)
            if node.op_type == "Gemm":
                nodes += _fold(node, graph, tensors, taken)
        refill(graph.node, nodes)


def _fold(
    node: onnx.NodeProto, graph: onnx.GraphProto, tensors: Mapping[str, onnx.TensorProto], taken: set[str]
) -> list[onnx.NodeProto]:
    """Change a Gemm of `graph` and return the node that adds its bias, if the bias differs from row to row."""
    read = {place: tensors[name] for place, name in enumerate(node.input) if place and name in tensors}
    given = {place: numpy_helper.to_array(tensor) for place, tensor in read.items()}
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    factors = {place: attributes.get(_FACTORS[place], 1.0) for place in given}
    with np.errstate(over="ignore"):
        folded = {
            place: value if factors[place] == 1.0 else (value.astype(np.float64) * factors[place]).astype(value.dtype)
            for place, value in given.items()
        }
    if not all(value.dtype.kind == "f" and np.isfinite(value).all() for value in folded.values()):
        return []
    differ = False
    if 2 in folded:
        channels = folded[1].shape[0 if attributes.get("transB") else 1] if 1 in folded else folded[2].shape[-1:] or 1
        rows = np.atleast_2d(folded[2]) + np.zeros(channels, folded[2].dtype)
        differ = not len(rows) or bool((rows != rows[0]).any())
        folded[2] = folded[2] if differ or folded[2].shape == rows[0].shape else rows[0]
    for attribute in [each for each in node.attribute if each.name in {_FACTORS[place] for place in folded}]:
        node.attribute.remove(attribute)
    for place in (place for place, value in folded.items() if value is not given[place]):
        node.input[place] = fresh_name(f"{node.input[place]}_folded", taken)
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(folded[place]), node.input[place]))
    if not differ:
        return []
    result, node.output[0] = node.output[0], fresh_name(f"{node.output[0]}_product", taken)
    return [helper.make_node("Add", [node.output[0], node.input.pop()], [result], node.name and f"{node.name}/bias")]
