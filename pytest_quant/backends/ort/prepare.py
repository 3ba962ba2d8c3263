"""From the user's float model to one that the quantizer understands: newer opset, folded constants, known shapes."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import onnx
from onnx import numpy_helper

from pytest_quant.backends.onnx_files import (
    all_graphs,
    model_file,
    needs_external_data,
    opset_of,
    read_graph,
    write_model,
    write_normalized,
)
from pytest_quant.backends.ort.apart import set_captured_apart, set_shared_biases_apart, set_turned_weights_apart
from pytest_quant.backends.ort.recipe import DYNAMIC, WEIGHTED
from pytest_quant.backends.ort.refusal import refused
from pytest_quant.backends.ort.runtime import quiet
from pytest_quant.backends.ort.torchless import tools_without_torch
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec

NORMALIZED_FILE = "normalized.onnx"
_PER_CHANNEL_OPSET = 13
"""The first opset whose DequantizeLinear has an axis; below it ORT writes a model that it then refuses to load."""

_TARGET_OPSET = 17
_CLASSICAL_DOMAIN = "ai.onnx.ml"


def raised_opset(spec: EngineSpec, *, per_channel: bool) -> int | None:
    """Return the opset that the model of `spec` is converted to before it is quantized; ``None`` where it stays."""
    if spec.scheme == "weight-only" or not per_channel:
        return None
    return _TARGET_OPSET if 0 < opset_of(read_graph(model_file(spec.model))) < _PER_CHANNEL_OPSET else None


def prepare(spec: EngineSpec, work: Path, *, per_channel: bool) -> Path:
    """Write the pre-processed float model of `spec` into the folder `work` and return its path.

    The graph gets its normal form, BatchNorm folds into Conv, shapes are inferred, and what bodies of If, Loop and
    Scan read is set apart. The same model gives the same names each time, so that ranges found once fit again.

    Raises
    ------
    BuildError : there is nothing to quantize, the opset cannot be raised, or ONNX Runtime cannot optimize the model.
    """
    path = model_file(spec.model)
    _check_network(read_graph(path), path.name)
    normal = work / NORMALIZED_FILE
    write_normalized(path, normal, opset=raised_opset(spec, per_channel=per_channel))
    prepared = work / "prepared.onnx"
    _pre_process(normal, prepared, path.name)
    _tidy(prepared)
    return prepared


def _check_network(model: onnx.ModelProto, name: str) -> None:
    """Refuse trees and other classical models, which have no weights that a quantizer knows."""
    nodes = [node for inner in all_graphs(model.graph) for node in inner.node]
    classical = sorted({node.op_type for node in nodes if node.domain == _CLASSICAL_DOMAIN})
    if classical and not any(node.op_type in (*WEIGHTED, *DYNAMIC, "GRU", "RNN") for node in nodes):
        raise BuildError(
            f"{name} has nothing to quantize: it is no neural network",
            value=f"{', '.join(classical)} of {_CLASSICAL_DOMAIN}",
            allowed="a model with convolutions, matrix products or recurrent cells",
            fix="leave it as it is: an engine of lower precision cannot be made of it",
        )


def _pre_process(path: Path, target: Path, name: str) -> None:
    """Shape inference over symbols is tried first; it gives up on some models that quantize well without it."""
    first = _attempt(path, target, symbolic=True)
    if first is None:
        return
    second = _attempt(path, target, symbolic=False)
    if second is not None:
        raise refused(f"to prepare {name} for quantization", second) from second


def _attempt(path: Path, target: Path, *, symbolic: bool) -> Exception | None:
    """Pre-process once and return what went wrong; a failure that ORT only logs counts too."""
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
            # Symbolic shape inference raises bare Exception; what it was is told by the second attempt.
            return error
    return RuntimeError("\n".join(errors)) if errors else None


def _tidy(path: Path) -> None:
    """Take out of the model what the quantizers stumble over."""
    model = onnx.load(path)
    changed = [
        set_captured_apart(model.graph),
        set_turned_weights_apart(model.graph),
        set_shared_biases_apart(model.graph),
        _flatten_gemm_biases(model.graph),
        _forget_shapes_of_weights(model.graph),
    ]
    if any(changed):
        write_model(model, path)


def _flatten_gemm_biases(graph: onnx.GraphProto) -> bool:
    """Give Gemm biases of shape (1, n), which fused MatMul and Add leave, the shape (n,).

    The quantizer indexes a bias by channel and fails on two axes; Gemm broadcasts both alike.
    """
    weights = {tensor.name: tensor for tensor in graph.initializer}
    users: dict[str, set[str]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, set()).add(node.op_type)
    changed = False
    for node in graph.node:
        bias = weights.get(node.input[2]) if node.op_type == "Gemm" and len(node.input) > 2 else None
        if bias is not None and len(bias.dims) == 2 and bias.dims[0] == 1 and users[bias.name] == {"Gemm"}:
            bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias).reshape(-1), bias.name))
            changed = True
    return changed


def _forget_shapes_of_weights(graph: onnx.GraphProto) -> bool:
    """Drop the written shapes of weights, which carry their own.

    Torch's exporter writes them; the quantizers transpose the weights of a Gemm, and the old shape then contradicts.
    """
    weights = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.value_info if value.name not in weights]
    if len(kept) == len(graph.value_info):
        return False
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return True
