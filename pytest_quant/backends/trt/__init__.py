"""TensorRT: built with the real parser and builder, on machines with a GPU and, for TensorRT-RTX, without one."""

from pytest_quant.backends.trt.rtx import TrtRtxBackend

__all__ = ["TrtRtxBackend"]
