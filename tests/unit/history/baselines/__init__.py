"""Unit tests of ``pytest_quant/history/baselines``."""
