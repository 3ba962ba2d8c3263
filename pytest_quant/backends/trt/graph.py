"""The graph that TensorRT is given, refused before a build where TensorRT would refuse it or compute it wrongly.

Sources: the operator table of
onnx-tensorrt, and its importer of QuantizeLinear and DequantizeLinear, which takes uint8 zero points with a warning
only and then saturates every activation above half of its range.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

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
    options = parse_options(spec.backend, spec.options)
    if calibration is not None and not options.implicit:
        QUANTIZER.build(quantizer_spec(spec), calibration, folder)
    else:
        _copy(model_file(spec.quantized or spec.model), graph)
    check_graph(graph, calibrator=options.implicit and spec.scheme == "static")
    return graph


def _copy(source: Path, target: Path) -> None:
    """Copy a model with the files that its weights lie in, under the names that it knows them by."""
    shutil.copyfile(source, target)
    for location, file in external_files(read_graph(source), source).items():
        copied = target.parent / location
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)


_PAIRS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_DYNAMIC = frozenset({"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "MatMulIntegerToFloat"})
_FP8_TYPES = frozenset(
    {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ}
)
_Constants: TypeAlias = Mapping[str, TensorProto | None]

_STATIC_FIX = "quantize it in TensorRT's style: backend='trt-rtx' or 'trt' with scheme='static' does so"


def check_graph(path: Path, *, calibrator: bool = False) -> None:
    """Refuse the graph in `path` where TensorRT would refuse it or compute something else.

    Parameters
    ----------
    calibrator : the build would find ranges itself (implicit INT8), which a graph with Q/DQ pairs rules out.

    Raises
    ------
    BuildError : names the first node, the cause and the fix; and how many more there are.
    ModelError : the file is not a model.
    """
    read_graph(path)
    model = normalized(onnx.load(path))
    faults = list(_faults(model.graph, {}, calibrator))
    if not faults:
        return
    node, cause, fix = faults[0]
    more = f" (and {len(faults) - 1} more like it or others)" if len(faults) > 1 else ""
    raise BuildError(
        f"TensorRT cannot take {path.name}: node '{node.name or node.output[0]}' ({node.op_type})",
        value=cause + more,
        fix=fix,
    )


def _faults(graph: onnx.GraphProto, around: _Constants, calibrator: bool) -> Iterator[tuple[onnx.NodeProto, str, str]]:
    """Yield the faults of `graph` and of the graphs inside it, which read the constants `around` them by name."""
    constants = {**around, **_constants(graph, around)}
    for node in graph.node:
        for body in bodies_of(node):
            yield from _faults(body, constants, calibrator)
        if node.op_type in _DYNAMIC:
            yield node, "it has no operators that find ranges while they run", _STATIC_FIX
        elif node.op_type.startswith("QLinear") or node.op_type in ("QGemm", "QAttention"):
            yield node, "operators on integers are ONNX Runtime's own; TensorRT reads Q/DQ pairs", _STATIC_FIX
        elif node.op_type in _PAIRS:
            if calibrator:
                fix = "build the float model, or leave the calibrator out"
                yield node, "a calibrator finds no ranges where the graph has Q/DQ pairs; it would be ignored", fix
            yield from _pair_faults(node, constants)


def _constants(graph: onnx.GraphProto, around: _Constants) -> dict[str, TensorProto | None]:
    """Return what `graph` itself holds constant; ``None`` for what it computes of constants, which the parser folds."""
    constants: dict[str, TensorProto | None] = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        reads = [name for name in node.input if name]
        if reads and not any(bodies_of(node)) and all(name in constants or name in around for name in reads):
            constants.update(dict.fromkeys(node.output))
    return constants


def _pair_faults(node: onnx.NodeProto, constants: _Constants) -> Iterator[tuple[onnx.NodeProto, str, str]]:
    scale = constants.get(node.input[1])
    if node.input[1] not in constants:
        fix = "export the model with scales as constants"
        yield node, f"its scale '{node.input[1]}' is computed, and must be a constant", fix
    elif scale is not None and not (_values(scale) > 0).all():
        yield (
            node,
            f"its scale '{node.input[1]}' is not above 0 everywhere",
            "calibrate again, on data that is not constant",
        )
    zero_point = constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    kind = _kind(node, zero_point, constants)
    if kind == TensorProto.UINT8:
        cause = "its zero point is uint8: TensorRT reads it as int8, and everything above half of the range saturates"
        yield node, cause, _STATIC_FIX
    elif kind == TensorProto.INT32:
        fix = f"leave biases in float (QuantizeBias=False); {_STATIC_FIX}"
        yield node, "it is an int32 bias, and TensorRT takes int8 only", fix
    if zero_point is not None and zero_point.data_type not in _FP8_TYPES and _values(zero_point).any():
        yield node, "its zero point is not 0, and TensorRT quantizes symmetrically", _STATIC_FIX
    if scale is not None and _values(scale).size > 1 and not _is_weight(node, constants):
        fix = "one scale for each activation: activations per_channel=False"
        yield node, "it has one scale for each channel of an activation, which is allowed for weights only", fix


def _kind(node: onnx.NodeProto, zero_point: TensorProto | None, constants: _Constants) -> int:
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


def _is_weight(node: onnx.NodeProto, constants: _Constants) -> bool:
    """Weights are constants, or the quantized form of one."""
    return node.input[0] in constants or node.input[0].endswith(("_quantized", "_QuantizeLinear_Output"))


def _values(tensor: TensorProto) -> NDArray[Any]:
    return np.atleast_1d(numpy_helper.to_array(tensor)).astype(np.float64)
