"""OpenVINO as a plugin provider of ONNX Runtime, on the CPU."""

from pytest_quant.backends.ort_openvino.backend import OrtOpenVinoBackend

__all__ = ["OrtOpenVinoBackend"]
