"""One form of a graph for every quantizer: weights in the places that quantizers search, in a standard that they know.

The steps, in this order, each on the graph and on the bodies of If, Loop and Scan in it:

1. Functions that the file defines are inlined. The nodes of a call are called ``call/node``.
2. A name that a body shares with the graph around it or another body gets a number there.
3. Initializers that are listed as inputs too, as files before IR version 4 must, leave the list of inputs.
4. Constant nodes become initializers. A sparse one stays, and one whose value leaves the graph as it is.
5. What reads an Identity of an initializer reads the initializer.
6. An opset below 13 is raised by ONNX's own converter, where scales per channel are asked for.

Step 6 may round otherwise; the others change no value, bit for bit.
The same file gives the same graph and the same names each time. Tensors of the outer graph
keep their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, inliner, numpy_helper, version_converter
from onnx.external_data_helper import load_external_data_for_model

from pytest_quant.backends.onnx_files import files_of, read_graph, read_nodes, write_model
from pytest_quant.backends.onnx_files.graphs import (
    STANDARD,
    all_graphs,
    constant_names,
    defined_names,
    fresh_name,
    opset_of,
    refill,
    rename_reads,
)
from pytest_quant.backends.runtime import name_errors

_CONSTANTS: dict[str, type] = {
    **dict.fromkeys(("value_float", "value_floats"), np.float32),
    **dict.fromkeys(("value_int", "value_ints"), np.int64),
    **dict.fromkeys(("value_string", "value_strings"), object),
}
"""Attributes of Constant nodes that are no tensors, and numpy's type for each."""


_PER_CHANNEL_OPSET = 13
"""The first opset whose DequantizeLinear has an axis; below it ORT writes a model that it then refuses to load."""


def normal_file(source: Path, work: Path, *, per_channel: bool = False) -> Path:
    """Return a file of the model in its normal form: `source` if it has that form already, else a file in `work`.

    Parameters
    ----------
    per_channel : raise an opset that has no scales for each channel.

    Raises
    ------
    ModelFileError : see `read_graph`.
    BuildError : ONNX cannot raise the opset.
    """
    graph = read_nodes(source)
    is_old = per_channel and 0 < opset_of(graph) < _PER_CHANNEL_OPSET
    # ONNX Runtime's preparation looks for weights beside a copy of the file.
    if is_normal(graph) and not is_old and len(files_of(source)) == 1:
        return source
    model = read_graph(source)
    load_external_data_for_model(model, str(source.parent))
    model = normalize_model(model)
    if is_old:
        need, fix = f"scales per channel need {_PER_CHANNEL_OPSET} or later", "or write options={'per_channel': False}"
        model = normalize_model(raise_opset(model, 17, source.name, need=need, fix=fix))
    file = work / "normal.onnx"
    write_model(model, file)
    return file


def normalize_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with steps 1 to 5 done; `model` itself may be changed. External data need not be loaded."""
    if model.functions:
        _name_calls(model)
        model = inliner.inline_local_functions(model)
    end_sharing(model.graph)
    for graph in all_graphs(model.graph):
        valued = constant_names(graph)
        refill(graph.input, [value for value in graph.input if value.name not in valued])
        _take_out_constants(graph)
        _read_through_identities(graph)
    # The first version whose initializers need not be inputs.
    model.ir_version = max(model.ir_version, 4)
    return model


def is_normal(model: onnx.ModelProto) -> bool:
    """Tell whether steps 1 to 5 would leave `model` as it is, which may be changed. One with bodies counts as not."""
    graph = model.graph
    before = len(graph.node), len(graph.input), model.ir_version
    if model.functions or len(list(all_graphs(graph))) > 1:
        return False
    normalize_model(model)
    return before == (len(graph.node), len(graph.input), model.ir_version)


def end_sharing(graph: onnx.GraphProto) -> None:
    """Give a number to every name that a body in `graph` defines and another graph before it does too.

    The standard rules it out for graphs around a body, and runtimes take it as long as nothing looks at the whole.
    Branches side by side may share names; OpenVINO then numbers them, by rules of its own.
    """
    taken = {name for inner in all_graphs(graph) for name in defined_names(inner)}
    met: set[str] = set()
    for inner in all_graphs(graph):
        _rename_defined(inner, {name: fresh_name(name, taken) for name in sorted(defined_names(inner) & met)})
        met |= defined_names(inner)


def _rename_defined(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    if not names:
        return
    rename_reads(graph.node, names)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)


def _name_calls(model: onnx.ModelProto) -> None:
    """Give every named call a function of its own, whose nodes carry the call's name in front of theirs."""
    functions = {(function.domain, function.name): function for function in model.functions}
    waiting = [node for graph in all_graphs(model.graph) for node in graph.node]
    while waiting:
        call = waiting.pop()
        function = functions.get((call.domain, call.op_type))
        if function is None or not call.name:
            continue
        own = model.functions.add()
        own.CopyFrom(function)
        own.name = f"{function.name}__{len(model.functions)}"
        call.op_type = own.name
        for place, node in enumerate(own.node):
            node.name = f"{call.name}/{node.name or f'{node.op_type}_{place}'}"
        waiting += own.node


def _take_out_constants(graph: onnx.GraphProto) -> None:
    results = {value.name for value in graph.output}
    nodes = []
    for node in graph.node:
        tensor = constant_of(node) if node.op_type == "Constant" and node.output[0] not in results else None
        if tensor is None:
            nodes.append(node)
        else:
            graph.initializer.append(tensor)
    refill(graph.node, nodes)


def constant_of(node: onnx.NodeProto) -> TensorProto | None:
    """Return what a Constant node gives under the name of its output; ``None`` for a sparse tensor."""
    if node.domain not in STANDARD or len(node.attribute) != 1:
        return None
    (attribute,) = node.attribute
    if attribute.name == "value":
        tensor = TensorProto()
        tensor.CopyFrom(attribute.t)
    elif attribute.name in _CONSTANTS:
        value: NDArray[Any] = np.array(helper.get_attribute_value(attribute), _CONSTANTS[attribute.name])
        tensor = numpy_helper.from_array(value)
    else:
        return None
    tensor.name = node.output[0]
    return tensor


def _read_through_identities(graph: onnx.GraphProto) -> None:
    valued = constant_names(graph)
    results = {value.name for value in graph.output}
    names: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        if node.op_type == "Identity" and node.domain in STANDARD and node.output[0] not in results:
            read = names.get(node.input[0], node.input[0])
            if read in valued:
                names[node.output[0]] = read
                continue
        nodes.append(node)
    if names:
        rename_reads(nodes, names)
        refill(graph.node, nodes)


def raise_opset(model: onnx.ModelProto, opset: int, name: str, *, need: str, fix: str) -> onnx.ModelProto:
    """Return `model` with a later opset, in which new constants may be nodes.

    Parameters
    ----------
    model : whose opset is lower.
    opset : the version of the standard operators.
    name : of the file, for errors.
    need : why it must be, as ``scales per channel need 13 or later``.
    fix : what else the user can do, as ``or write ...``.

    Raises
    ------
    BuildError : ONNX cannot raise the opset.
    """
    fix = f"export the model with opset_version={opset}, {fix}"
    with name_errors(f"onnx cannot raise opset {opset_of(model)} of {name}, and {need}", fix):
        return version_converter.convert_version(model, opset)
