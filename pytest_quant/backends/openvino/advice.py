"""Other ways to quantize that NNCF offers where accuracy is lost, and the nodes that it may quantize."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.backends.openvino.files import is_own, read_model
from pytest_quant.backends.openvino.recipe import parse_options
from pytest_quant.backends.remedy import Remedy, calibrated, with_option
from pytest_quant.spec import Calibration, EngineSpec

_CALIBRATIONS = (Calibration("percentile"), Calibration("percentile", 99.9), Calibration("minmax"))
_BESIDE = frozenset(
    {
        "Cast",
        "Clip",
        "Constant",
        "ConstantOfShape",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "MaxPool",
        "Parameter",
        "Range",
        "Relu",
        "Reshape",
        "Result",
        "Shape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that hand values on, so that none of them is quantized for itself."""


def remedies(spec: EngineSpec) -> Iterator[Remedy]:
    """Yield the other ways to quantize that NNCF offers for `spec`, the likeliest help first."""
    if spec.scheme != "static":
        return
    options = parse_options(spec.options)
    if options.preset != "mixed":
        yield from with_option(spec, "preset", "mixed")
    if options.model_type is None and _has_attention(spec):
        yield from with_option(spec, "model_type", "transformer")
    yield from calibrated(spec, *_CALIBRATIONS)
    if options.fast_bias_correction:
        yield from with_option(spec, "fast_bias_correction", False)


def quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the nodes that NNCF may quantize and `spec` does not exclude."""
    if spec.scheme != "static":
        return ()
    return tuple(name for name, kind in _nodes(spec) if name and kind not in _BESIDE and name not in spec.exclude)


def _has_attention(spec: EngineSpec) -> bool:
    return {"MatMul", "Softmax"} <= {kind for _, kind in _nodes(spec)}


def _nodes(spec: EngineSpec) -> list[tuple[str, str]]:
    """Return name and operator of each node, by the names that ``exclude`` takes, in the graph's order."""
    if is_own(spec.model):
        operations = read_model(model_file(spec.model)).get_ordered_ops()
        return [(one.get_friendly_name(), one.get_type_name()) for one in operations]
    return [(node.name, node.op_type) for node in read_graph(model_file(spec.model)).graph.node]
