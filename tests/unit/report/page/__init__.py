"""Tests of `pytest_quant.report.page`."""
