"""Unit tests of ``pytest_quant/backends/cuda``."""
