"""Tests of `pytest_quant.record`."""
