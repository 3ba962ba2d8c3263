"""ONNX graphs as every TensorRT parser wants them: checked, quantized in its style, simulated in float."""

from pytest_quant.backends.trt_graph.preflight import check_graph, write_half
from pytest_quant.backends.trt_graph.quantize import (
    quantizer_spec,
    trt_quantize_ingredients,
    trt_quantized_nodes,
    trt_range_ingredients,
    trt_remedies,
    write_trt_qdq,
    write_trt_ranges,
)

__all__ = [
    "check_graph",
    "quantizer_spec",
    "trt_quantize_ingredients",
    "trt_quantized_nodes",
    "trt_range_ingredients",
    "trt_remedies",
    "write_half",
    "write_trt_qdq",
    "write_trt_ranges",
]
