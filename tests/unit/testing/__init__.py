"""Tests of `pytest_quant.testing`."""
