"""PyTorch on the CPU and on CUDA, with torchao as its quantizer and Inductor as its compiler."""

from pytest_quant.backends.torch.backend import TorchBackend

__all__ = ["TorchBackend"]
