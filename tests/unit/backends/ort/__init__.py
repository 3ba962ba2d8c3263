"""Tests of `pytest_quant.backends.ort`."""
