"""Tests of `pytest_quant.report`."""
