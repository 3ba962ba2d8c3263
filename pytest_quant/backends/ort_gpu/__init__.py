"""ONNX Runtime on NVIDIA GPUs: its CUDA provider and its TensorRT provider."""

from pytest_quant.backends.ort_gpu.cuda import OrtCudaBackend
from pytest_quant.backends.ort_gpu.tensorrt import OrtTrtBackend

__all__ = ["OrtCudaBackend", "OrtTrtBackend"]
