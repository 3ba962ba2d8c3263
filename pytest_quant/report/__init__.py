"""Records as text: pure rendering."""

from pytest_quant.report.columns import pick_columns
from pytest_quant.report.failure import failure, headline
from pytest_quant.report.junit import junit_properties
from pytest_quant.report.summary import summary
from pytest_quant.report.text import clean

__all__ = ["clean", "failure", "headline", "junit_properties", "pick_columns", "summary"]
