"""A float16 graph from a float32 one, for parsers that take types from the graph and from nothing else."""

from __future__ import annotations

from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files import all_graphs, normalized, write_model
from pytest_quant.backends.ort.refusal import refused
from pytest_quant.backends.ort.runtime import quiet
from pytest_quant.errors import BuildError


def write_half(source: Path, target: Path) -> None:
    """Write the model in `source` with float16 inside, inputs and outputs as they were.

    Raises
    ------
    BuildError : ONNX Runtime's converter does not take the model, or it has no float32 weights.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = normalized(onnx.load(source))
    try:
        with quiet():
            half = convert_float_to_float16(model, keep_io_types=True)
    except Exception as error:
        raise refused(f"to convert {source.name} to float16", error) from error
    constants = [tensor for graph in all_graphs(half.graph) for tensor in graph.initializer]
    if not any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in constants):
        raise BuildError(
            f"{source.name} has no float32 weights, so float16 changes nothing", fix="test it in fp32 only"
        )
    write_model(half, target)
