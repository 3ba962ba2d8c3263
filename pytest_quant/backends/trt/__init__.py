"""TensorRT's real parser and builder, on machines without a GPU too."""

from pytest_quant.backends.trt.native import TrtBackend
from pytest_quant.backends.trt.rtx import TrtRtxBackend

__all__ = ["TrtBackend", "TrtRtxBackend"]
