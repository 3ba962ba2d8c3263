"""Static quantization in TensorRT's style by ONNX Runtime's quantizer, and its float simulation.

Both sides of a product are int8 around 0, weights per channel, the bias stays in float, and outputs are not rounded:
TensorRT fuses the pairs before a product into it. The same graph runs no INT8 kernel on ONNX Runtime's CPU provider.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.ort import OrtBackend
from pytest_quant.spec import EngineSpec

WEIGHTED = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
_EXTRA = {
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "DedicatedQDQPair": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": WEIGHTED,
}
_OPTIONS: dict[str, object] = {
    "activation_type": "int8",
    "extra": _EXTRA,
    "op_types": WEIGHTED,
    "per_channel": True,
    "reduce_range": False,
    "symmetric": True,
    "weight_type": "int8",
}


QUANTIZER = OrtBackend()
"""Is asked for what `quantizer_spec` returns."""


def quantizer_spec(spec: EngineSpec) -> EngineSpec:
    """Return what ONNX Runtime's quantizer is asked for in the place of `spec`."""
    return replace(spec, backend="ort", options=tuple(sorted(_OPTIONS.items())))


def write_trt_qdq(spec: EngineSpec, calibration: Path, target: Path) -> None:
    """Write the graph with Q/DQ pairs.

    Parameters
    ----------
    spec : the engine, whose scheme is ``static``.
    calibration : a folder that `QUANTIZER` filled with ranges.
    target : the file to write, which must be called ``model.onnx``.

    Raises
    ------
    UsageError : `spec` excludes a node that the model does not have.
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime cannot quantize the model.
    """
    QUANTIZER.build(quantizer_spec(spec), calibration, target.parent)
