"""Records as text: pure rendering."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_quant.record import Record
from pytest_quant.report.columns import pick_columns
from pytest_quant.report.failure import failure, headline
from pytest_quant.report.junit import junit_properties
from pytest_quant.report.summary import summary
from pytest_quant.report.text import clean

__all__ = ["clean", "failure", "headline", "junit_properties", "pick_columns", "summary", "table"]


def table(
    records: Sequence[Record],
    width: int,
    columns: Sequence[str] | None = None,
    color: bool = False,
    *,
    expected: Collection[str] = (),
    picks: str = "",
) -> str:
    """Return the table of a run, see `pytest_quant.report.run_table.table`; loads rich."""
    from pytest_quant.report.run_table import table as render

    return render(records, width, columns, color, expected=expected, picks=picks)
