"""The table of a run: the terminal's columns and digits, what is named at the top, and what each check opens to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pytest_quant.history import StoredCheck
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report.columns import EXPECTED, Row, default_columns, pick_columns, rows_of
from pytest_quant.report.failure import headline
from pytest_quant.report.page import content
from pytest_quant.report.page.blocks import placed
from pytest_quant.report.page.content import CheckView, RunView
from pytest_quant.report.page.sections import sections
from pytest_quant.report.summary import summary
from pytest_quant.report.text import Pieces
from pytest_quant.result import Status

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch_size",),
    "metric": ("accuracy/reference", "accuracy/candidate"),
    "drop": ("accuracy/drop",),
    "drop_ci": ("accuracy/drop_ci/0", "accuracy/drop_ci/1"),
    "agreement": ("accuracy/agreement_pct",),
    "p50": ("latency/reference_p50_ms", "latency/candidate_p50_ms"),
    "speedup": ("latency/speedup",),
    "speedup_ci": ("latency/speedup_ci/0", "latency/speedup_ci/1"),
    "coverage": ("coverage/pct",),
    "size": ("resources/size_mb",),
}
"""Where the figures of a column stand in a record, in the order of its cell."""

_WITHOUT_METRIC = ("accuracy/sqnr_db",)
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
    columns = [name for name in default_columns(rows) if name not in _STATUS_AND_TEST] if rows else []
    found = {column.name: column.pieces(rows) for column in pick_columns(columns)}
    views = []
    for place, row in enumerate(rows):
        cells = tuple(_placed(of_column[place], name, row.record) for name, (_, of_column) in found.items())
        views.append(_view(row, checks[place].run, place, cells))
    words = (*(status.value for status in Status), EXPECTED)
    counts = Counter(view.status for view in views)
    broken = sorted((view for view in views if view.status in _NAMED), key=lambda view: _NAMED.index(view.status))
    return RunView(
        heads=tuple(head for head, _ in found.values()),
        checks=tuple(views),
        counts=tuple((word, counts[word]) for word in words if counts[word]),
        lines=tuple(summary(records, expected).splitlines()),
        broken=tuple(broken[:_MOST_NAMED]),
        unnamed=max(0, len(broken) - _MOST_NAMED),
    )


def _view(row: Row, run: Run, number: int, cells: tuple[content.Pieces, ...]) -> CheckView:
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


def _placed(cell: Pieces, column: str, record: Record) -> content.Pieces:
    """Return the pieces of a cell, each figure with its place in the record."""
    fields = _FIELDS.get(column, ())
    if column == "metric" and record.accuracy is not None and record.accuracy.metric is None:
        fields = _WITHOUT_METRIC
    return placed(cell, fields)
