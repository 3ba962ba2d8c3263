"""The table of a run: the terminal's columns and digits, what is named at the top, and what each check opens to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from pytest_quant.history import StoredCheck
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report.columns import EXPECTED, Row, default_columns, pick_columns, rows_of
from pytest_quant.report.failure import headline
from pytest_quant.report.page.content import CheckView, RunView, TableCell
from pytest_quant.report.page.sections import sections
from pytest_quant.report.summary import summary
from pytest_quant.result import Status

_STATUS_AND_TEST = ("status", "test")
_MOST_NAMED = 8
_NAMED = (Status.ERROR.value, Status.FAIL.value, Status.UNAVAILABLE.value, Status.INCONCLUSIVE.value)
"""Statuses that are named at the top, the worst first."""


def run_view(checks: Sequence[StoredCheck], expected: Collection[str]) -> RunView:
    """Return the table of a run.

    Parameters
    ----------
    checks : of the run, in the order of its document.
    expected : node ids of tests that failed as they were expected to; they are XFAIL.
    """
    records = [check.record for check in checks]
    rows = rows_of(records, expected)
    names = [name for name in default_columns(rows) if name not in _STATUS_AND_TEST] if rows else []
    columns = pick_columns(names)
    printed = [column.cells(rows, aligned=False) for column in columns]
    views = []
    for number, row in enumerate(rows):
        texts = [column_texts[number] for _, column_texts in printed]
        cells = [TableCell(text, column.sort_value(row)) for text, column in zip(texts, columns, strict=True)]
        views.append(_view(row, checks[number].run, number, tuple(cells)))
    words = (*(status.value for status in Status), EXPECTED)
    counts = Counter(view.status for view in views)
    broken = sorted((view for view in views if view.status in _NAMED), key=lambda view: _NAMED.index(view.status))
    return RunView(
        heads=tuple(head for head, _ in printed),
        checks=tuple(views),
        counts=tuple((word, counts[word]) for word in words if counts[word]),
        lines=tuple(summary(records, expected).splitlines()),
        broken=tuple(broken[:_MOST_NAMED]),
        unnamed=max(0, len(broken) - _MOST_NAMED),
    )


def _view(row: Row, run: Run, number: int, cells: tuple[TableCell, ...]) -> CheckView:
    record = row.record
    words = " ".join((record.nodeid, record.model, record.engine_id, record.metric or "", row.status))
    return CheckView(
        number=number,
        anchor=f"check-{number}",
        name=row.test,
        nodeid=record.nodeid,
        status=row.status,
        headline=_headline(record),
        cells=cells,
        words=clean(words).lower(),
        sections=sections(record, run, number),
    )


def _headline(record: Record) -> str:
    if record.message:
        return record.message.splitlines()[0]
    if told := headline(record):
        return told
    open_ones = [verdict for verdict in record.verdicts or () if verdict.status is not Status.PASS]
    return f"{open_ones[0].limit}: {open_ones[0].reason}" if open_ones else ""
