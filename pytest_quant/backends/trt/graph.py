"""The graph that TensorRT is given, refused before a build where TensorRT would compute it wrongly, or not say why.

Pairs with scales or zero points that its parser refuses by itself are left to it. Source: onnx-tensorrt, whose
importer of QuantizeLinear and DequantizeLinear takes uint8 zero points with a warning only and then saturates every
activation above half of its range.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx import TensorProto
from onnx.numpy_helper import to_array

from pytest_quant.backends.onnx_files import external_files, model_file, read_graph
from pytest_quant.backends.onnx_files.graphs import bodies_of
from pytest_quant.backends.onnx_files.normalize import normalized
from pytest_quant.backends.trt.options import QUANTIZER, parse_options, quantizer_spec
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec

GRAPH_FILE = "model.onnx"
"""The graph that was built, kept beside the plan: what is simulated is exactly this."""


def write_graph(spec: EngineSpec, calibration: Path | None, folder: Path) -> Path:
    """Write the graph to build and check it, and return its path.

    Parameters
    ----------
    spec : the engine; its model, or the one that arrives quantized, is copied where nothing is quantized here.
    calibration : the folder that `QUANTIZER` filled with ranges, from which Q/DQ pairs are made; it is not read
        where TensorRT's own calibrator finds them. ``None`` where there is no calibration.
    folder : gets ``model.onnx`` and the files of its external data.

    Raises
    ------
    UsageError : `spec` excludes a node that the model does not have.
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime cannot quantize the model, or the graph is one that TensorRT cannot take.
    """
    graph = folder / GRAPH_FILE
    if calibration is not None and not parse_options(spec.backend, spec.options).implicit:
        QUANTIZER.build(quantizer_spec(spec), calibration, folder)
    else:
        _copy(model_file(spec.quantized or spec.model), graph)
    check_graph(graph, ((spec.quantized or spec.model).path or graph).name)
    return graph


def _copy(source: Path, target: Path) -> None:
    """Copy a model with the files that its weights lie in, under the names that it knows them by."""
    shutil.copyfile(source, target)
    for location, file in external_files(read_graph(source), source).items():
        copied = target.parent / location
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)


_INTEGER = re.compile(r"DynamicQuantizeLinear|QLinear\w+|QGemm|QAttention|(Conv|MatMul)Integer\w*")
"""Operators of ONNX Runtime and of the standard that TensorRT does not read."""

_Constants: TypeAlias = Mapping[str, TensorProto]


def check_graph(path: Path, name: str = "") -> None:
    """Refuse the graph in `path` where TensorRT would compute something else, or not say what to do instead.

    `name` is what the user calls it, by default the file's own.

    Raises
    ------
    BuildError : names the first node, the cause and the fix; and how many more there are.
    ModelError : the file is not a model.
    """
    faults = list(_faults(normalized(read_graph(path)).graph, {}, path.parent))
    if not faults:
        return
    node, cause = faults[0]
    more = f"; {len(faults)} nodes have this fault or another" if len(faults) > 1 else ""
    raise BuildError(
        f"TensorRT cannot take {name or path.name}: node '{node.name or node.output[0]}' ({node.op_type})",
        value=cause + more,
        fix="drop quantized= and write scheme='static': backend='trt-rtx' or 'trt' quantizes the float model then",
    )


def _faults(graph: onnx.GraphProto, around: _Constants, folder: Path) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Yield the faults of `graph` and of the graphs inside it, which read the constants `around` them by name.

    `folder` has the files of external data.
    """
    constants = {**around, **{tensor.name: tensor for tensor in graph.initializer}}
    for node in graph.node:
        for body in bodies_of(node):
            yield from _faults(body, constants, folder)
        if _INTEGER.fullmatch(node.op_type):
            yield node, "it reads Q/DQ pairs: no operators on integers, and none that finds ranges while it runs"
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero_point = constants.get(node.input[2]) if len(node.input) > 2 else None
            if wrong := _WRONG.get(_type_of(node, zero_point, constants)):
                yield node, wrong
            elif zero_point is not None and to_array(zero_point, str(folder)).any():
                yield node, _OFF_ZERO


_WRONG: dict[int, str] = {
    TensorProto.UINT8: "its zero point is uint8: TensorRT reads it as int8, and everything above half of the range "
    "saturates",
    TensorProto.INT32: "it is an int32 bias, and TensorRT takes int8 only (QuantizeBias=False leaves biases in float)",
}


_OFF_ZERO = "its zero point is not 0: TensorRT takes ranges around 0 only, as ActivationSymmetric=True of ORT gives"


def _type_of(node: onnx.NodeProto, zero_point: TensorProto | None, constants: _Constants) -> int:
    """Return the integer type of a pair: of its zero point, of the constant it reads, else the standard's uint8."""
    if zero_point is not None:
        return zero_point.data_type
    declared = [attribute.i for attribute in node.attribute if attribute.name == "output_dtype" and attribute.i]
    if declared:
        return int(declared[0])
    if node.op_type == "QuantizeLinear":
        return TensorProto.UINT8
    read = constants.get(node.input[0])
    return TensorProto.INT8 if read is None else read.data_type
