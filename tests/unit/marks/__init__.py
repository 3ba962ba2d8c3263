"""Tests of `pytest_quant.marks`."""
