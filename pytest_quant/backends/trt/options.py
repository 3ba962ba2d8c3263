"""The options of the TensorRT backends, and the quantizer that they ask in its style.

An option of another scheme is ignored, an unknown one is not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from pytest_quant.backends.offer import normalize_options
from pytest_quant.backends.ort import LIBRARIES, OrtBackend
from pytest_quant.backends.runtime import name_errors
from pytest_quant.readers import FLAG, Key, choice_of, count, keys_of, make_reader, option, text
from pytest_quant.spec import EngineSpec, Shape

if TYPE_CHECKING:
    import tensorrt


def sizes_of(dims: tensorrt.Dims) -> tuple[int, ...]:
    """Return the sizes of `dims`, -1 for a free size; the binding promises length and items, and no iterator."""
    return tuple(int(dims[index]) for index in range(len(dims)))


Range = tuple[Shape, Shape, Shape]
"""Smallest, usual and largest."""


def _shapes(value: object) -> dict[str, Range] | None:
    try:
        ranges = msgspec.convert(value, dict[str, Range])
    except msgspec.ValidationError:
        return None
    for low, usual, high in ranges.values():
        if not len(low) == len(usual) == len(high):
            return None
        if not all(0 <= least <= size <= most for least, size, most in zip(low, usual, high, strict=True)):
            return None
    return ranges or None


@dataclass(frozen=True, slots=True)
class TrtOptions:
    """Options as asked; ``None`` leaves the choice to TensorRT, and for `shapes` to the data."""

    compute_capability: str | None = option(
        None,
        text("a compute capability such as 'SM89'", pattern=r"SM\d{2,3}"),
        "the GPU to build for; needed without a GPU",
    )
    workspace_mb: int | None = option(None, count(), "memory that a layer may use while it runs, 10^6 bytes")
    optimization_level: int | None = option(
        None, choice_of(0, 1, 2, 3, 4, 5), "time the builder takes to find faster kernels"
    )
    max_batch: int | None = option(
        None, count(), "largest batch; default: the larger of the evaluation's and `batch_size`"
    )
    shapes: Mapping[str, Range] | None = option(
        None,
        make_reader(
            "a dict of smallest, usual and largest shape by input, whole numbers in that order: "
            "{'x': [(1, 3, 32, 32), (1, 3, 64, 64), (8, 3, 96, 320)]}",
            _shapes,
        ),
        "batch included; default: what evaluation and calibration data have",
    )
    timing_cache: str | None = option(
        None,
        text("the path of a file"),
        "`trt`, `trt-rtx`: a file that keeps measured kernels; builds get faster, not reproducible",
    )
    tf32: bool = option(False, FLAG, "`trt`, `trt-rtx`: float32 products may round their inputs to ten bits")
    quantization: str = option(
        "explicit",
        choice_of("explicit", "implicit"),
        "`trt`: Q/DQ pairs in the graph, or TensorRT 10's own calibrator (entropy or minmax)",
    )
    beside: str | None = option(
        None, choice_of("fp16", "bf16", "fp32"), "precision of what is not int8; default: fp32, with implicit INT8 fp16"
    )
    libraries: tuple[str, ...] = option(
        (),
        LIBRARIES,
        "plugins, and custom operators with which ONNX Runtime calibrates; loaded wherever it is built or runs",
    )
    memory: str | None = option(
        None,
        choice_of("cuda-bindings", "pycuda"),
        "`trt`: the library for device memory; default: the first of them here",
    )

    @property
    def implicit(self) -> bool:
        """Whether TensorRT finds the ranges itself."""
        return self.quantization == "implicit"

    @property
    def rest(self) -> str:
        """The type in which an int8 engine computes what it does not compute in INT8.

        Implicit INT8 is used for its speed: what has no INT8 kernel would be slower in float32 than it need be.
        """
        return self.beside or ("fp16" if self.implicit else "fp32")


NATIVE_KEYS = keys_of(TrtOptions)
# TensorRT-RTX has no calibrator, and runs nothing here.
RTX_KEYS = {name: key for name, key in NATIVE_KEYS.items() if name not in ("quantization", "memory")}
_NO_TF32 = replace(
    choice_of(False), allowed="False: the provider has no such option; backend='trt' times FP32 with TF32"
)
PROVIDER_KEYS = {
    **{name: key for name, key in RTX_KEYS.items() if name != "timing_cache"},
    "tf32": Key("tf32", _NO_TF32, "it is off for the whole process"),
}
"""Options of ``trt``, ``trt-rtx`` and ``ort-trt``."""


def options_of(spec: EngineSpec) -> TrtOptions:
    """Return the options of the mark of `spec`. Raises `UsageError`."""
    keys = {"trt": NATIVE_KEYS, "trt-rtx": RTX_KEYS}.get(spec.backend, PROVIDER_KEYS)
    return TrtOptions(**normalize_options(spec.backend, spec.options, keys))


def calibrates(spec: EngineSpec) -> bool:
    """Whether TensorRT's own calibrator finds the ranges. Raises `UsageError`."""
    return spec.scheme == "static" and options_of(spec).implicit


def float_type(spec: EngineSpec) -> str:
    """Return the type of the floats in the graph of `spec`; implicit INT8 leaves them to flags of the builder."""
    if spec.precision != "int8":
        return spec.precision
    return "fp32" if calibrates(spec) else options_of(spec).rest


_WEIGHTED = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
_QUANTIZER_OPTIONS: dict[str, object] = {
    "activation_type": "int8",
    "extra": {
        "WeightSymmetric": True,
        "AddQDQPairToWeight": True,
        "DedicatedQDQPair": True,
        "QuantizeBias": False,
        "OpTypesToExcludeOutputQuantization": _WEIGHTED,
    },
    "op_types": _WEIGHTED,
    "per_channel": True,
    "reduce_range": False,
    "symmetric": True,
    "weight_type": "int8",
}

QUANTIZER = OrtBackend()
"""ONNX Runtime's; it is asked for what `quantizer_spec` returns.

Both sides of a product are int8 around 0, weights per channel, the bias stays in float, and outputs are not rounded:
TensorRT fuses the pairs before a product into it. The same graph runs no INT8 kernel on ONNX Runtime's CPU provider.
"""


def quantizer_spec(spec: EngineSpec) -> EngineSpec:
    """Return what ONNX Runtime's quantizer is asked for in the place of `spec`."""
    own = {"libraries": operators} if (operators := operators_of(spec)) else {}
    return replace(spec, backend="ort", options=tuple(sorted((_QUANTIZER_OPTIONS | own).items())))


def load_library(file: str) -> ctypes.CDLL:
    """Load a library of the user's, whose plugins register themselves. Raises `BuildError`."""
    with name_errors("a library of the option 'libraries' does not load", "ldd shows what it misses on this machine"):
        return ctypes.CDLL(file, mode=ctypes.RTLD_GLOBAL)


def operators_of(spec: EngineSpec) -> tuple[str, ...]:
    """Return the libraries of `spec` that have operators for ONNX Runtime too. Raises `BuildError`."""
    files = options_of(spec).libraries
    return tuple(file for file in files if hasattr(load_library(file), "RegisterCustomOps"))
