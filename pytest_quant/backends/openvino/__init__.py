"""OpenVINO on the CPU, with NNCF as its quantizer."""

from pytest_quant.backends.openvino.backend import OpenVinoBackend

__all__ = ["OpenVinoBackend"]
