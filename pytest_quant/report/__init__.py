"""Records as text: pure rendering."""

from pytest_quant.report.columns import pick_columns
from pytest_quant.report.failure import failure, headline
from pytest_quant.report.junit import junit_properties
from pytest_quant.report.summary import summary

__all__ = ["failure", "headline", "junit_properties", "pick_columns", "summary"]
