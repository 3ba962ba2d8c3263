"""Tests of `pytest_quant.forge`."""
