"""Unit tests of ``pytest_quant/backends/trt/gpu``."""
