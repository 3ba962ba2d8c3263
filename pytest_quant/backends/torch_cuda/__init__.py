"""The backend ``torch-cuda``: PyTorch on an NVIDIA GPU. Loads no runtime by itself."""

from pytest_quant.backends.torch_cuda.backend import TorchCudaBackend

__all__ = ["TorchCudaBackend"]
