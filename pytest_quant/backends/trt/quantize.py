"""Static quantization in TensorRT's style by ONNX Runtime's quantizer, and its float simulation.

Both sides of a product are int8 around 0, weights per channel, the bias stays in float, and outputs are not rounded:
TensorRT fuses the pairs before a product into it. The same graph runs no INT8 kernel on ONNX Runtime's CPU provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.remedy import Remedy
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


def quantizer_spec(spec: EngineSpec) -> EngineSpec:
    """Return what ONNX Runtime's quantizer is asked for in the place of `spec`."""
    return replace(spec, backend="ort", options=tuple(sorted(_OPTIONS.items())))


def trt_quantize_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the Q/DQ graph. Raises `ModelError`."""
    from pytest_quant.backends.ort.build import engine_ingredients

    return engine_ingredients(quantizer_spec(spec))


def trt_range_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the ranges of activations. Raises `ModelError`."""
    from pytest_quant.backends.ort.build import range_ingredients

    return range_ingredients(quantizer_spec(spec))


def write_trt_ranges(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Write the ranges of activations, as ONNX Runtime's calibrator finds them.

    Parameters
    ----------
    spec : the engine; its calibration gives the method and the percentile.
    batches : returns the calibration batches; it is called once.
    folder : the folder to write into.

    Raises
    ------
    ModelError, DataError, BuildError : see `pytest_quant.backends.ort.calibrate.write_ranges`.
    """
    from pytest_quant.backends.ort.calibrate import write_ranges

    write_ranges(quantizer_spec(spec), batches, folder)


def write_trt_qdq(spec: EngineSpec, calibration: Path, target: Path) -> None:
    """Write the graph with Q/DQ pairs.

    Parameters
    ----------
    spec : the engine, whose scheme is ``static``.
    calibration : a folder that `write_trt_ranges` filled.
    target : the file to write, which must be called ``model.onnx``.

    Raises
    ------
    UsageError : `spec` excludes a node that the model does not have.
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime cannot quantize the model.
    """
    from pytest_quant.backends.ort.build import write_engine

    write_engine(quantizer_spec(spec), calibration, target.parent)


def trt_remedies(spec: EngineSpec) -> Iterator[Remedy]:
    """Yield `spec` with other ways to find ranges; the quantizer has no option left that TensorRT would take."""
    from pytest_quant.backends.ort.advice import other_ranges

    if spec.scheme == "static":
        yield from other_ranges(spec, len(trt_quantized_nodes(spec)))


def trt_quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the named products that `spec` quantizes."""
    from pytest_quant.backends.ort.advice import quantized_nodes

    return quantized_nodes(quantizer_spec(spec))
