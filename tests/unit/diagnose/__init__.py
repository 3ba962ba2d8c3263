"""Tests of `pytest_quant.diagnose`."""
