"""ONNX Runtime on the CPU: float, static and dynamic int8, int4 weights, and models that arrive quantized."""

from pytest_quant.backends.ort.backend import OrtBackend

__all__ = ["OrtBackend"]
