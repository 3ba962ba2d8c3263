"""Tests of `pytest_quant.cli`."""
