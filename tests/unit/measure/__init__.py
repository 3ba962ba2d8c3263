"""Unit tests of ``pytest_quant/measure``."""
