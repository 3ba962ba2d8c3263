"""Tests of `pytest_quant.environment`."""
