"""Tests of `pytest_quant.history.compare`."""
