"""The three quantizers of ONNX Runtime, each called with every argument that matters."""

from __future__ import annotations

from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files import all_graphs, needs_external_data
from pytest_quant.backends.ort.calibrate import RANGES_FILE, calibration_method, static_op_types
from pytest_quant.backends.ort.recipe import DYNAMIC, Recipe
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec


def write_static(
    spec: EngineSpec, recipe: Recipe, prepared: Path, exclude: list[str], calibration: Path, target: Path
) -> None:
    """Write `prepared` with Q/DQ pairs whose ranges lie in the folder `calibration`.

    ORT checks that file for its method only, not for the model or the data; the folder's own key did that.
    """
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(
        str(prepared),
        str(target),
        calibration_data_reader=None,
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=static_op_types(recipe),
        per_channel=recipe.per_channel,
        reduce_range=recipe.reduce_range,
        activation_type=_quant_type(recipe.activation_type),
        weight_type=_quant_type(recipe.weight_type),
        nodes_to_exclude=exclude,
        use_external_data_format=needs_external_data(prepared),
        calibrate_method=calibration_method(spec.calibration.method),
        extra_options=recipe.quantizer_extra,
        calibration_cache_path=str(calibration / RANGES_FILE),
    )


def write_dynamic(recipe: Recipe, prepared: Path, exclude: list[str], target: Path) -> None:
    """Write `prepared` with int8 weights and activations that are quantized as they come.

    An empty list of op types is this quantizer's word for all that it knows.
    """
    from onnxruntime.quantization import quantize_dynamic

    op_types = list(recipe.op_types or ())
    in_bodies = bool(recipe.quantizer_extra.get("EnableSubgraph"))
    if recipe.op_types == DYNAMIC and not _has_constant_matrix(prepared, in_bodies=in_bodies):
        op_types = [*op_types, "Conv"]
    quantize_dynamic(
        str(prepared),
        str(target),
        op_types_to_quantize=op_types,
        per_channel=recipe.per_channel,
        reduce_range=recipe.reduce_range,
        weight_type=_quant_type(recipe.weight_type),
        nodes_to_exclude=exclude,
        use_external_data_format=needs_external_data(prepared),
        extra_options=recipe.quantizer_extra,
    )


def write_int4(recipe: Recipe, prepared: Path, exclude: list[str], target: Path) -> None:
    """Write `prepared` with constant matrices in blocks of 4-bit weights; Gemm becomes MatMul and Add first."""
    try:
        from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
    except ImportError as error:
        raise BuildError(
            "int4 needs a package that is not installed", value=str(error), fix='pip install "pytest-quant[ort]"'
        ) from error
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = ONNXModel(onnx.load(prepared))
    model.replace_gemm_with_matmul()
    config = DefaultWeightOnlyQuantConfig(
        block_size=recipe.block_size, is_symmetric=recipe.symmetric, accuracy_level=recipe.accuracy_level or None
    )
    quantizer = MatMulNBitsQuantizer(model.model, nodes_to_exclude=exclude, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target), needs_external_data(prepared))


def _quant_type(name: str) -> object:
    from onnxruntime.quantization import QuantType

    return {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}[name]


def _has_constant_matrix(prepared: Path, *, in_bodies: bool) -> bool:
    """Tell whether the graph has a matrix product or a recurrent cell with weights of its own."""
    graph = onnx.load(prepared, load_external_data=False).graph
    graphs = list(all_graphs(graph)) if in_bodies else [graph]
    constants = {tensor.name for inner in graphs for tensor in inner.initializer}
    nodes = [node for inner in graphs for node in inner.node if node.op_type in (*DYNAMIC, "Gemm")]
    return any(name in constants for node in nodes for name in node.input[:2])
