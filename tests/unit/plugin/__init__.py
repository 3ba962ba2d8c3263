"""Unit tests of ``pytest_quant/plugin``."""
