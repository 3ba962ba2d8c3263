"""The table of a run on its page, and what each check opens to."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.history.rows import StoredCheck
from pytest_quant.metrics.answers import answers_of
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report.columns import EXPECTED, TEST_FAILED, CheckRow, default_columns, pick_columns, rows_of
from pytest_quant.report.details import DetailSection, Pairs, details, said, whole
from pytest_quant.report.failure import broken_first, headline
from pytest_quant.report.page.charts import rounds_chart
from pytest_quant.report.summary import summary
from pytest_quant.result import Status
from pytest_quant.spec import OWN_SCORES

_STATUS_AND_TEST = ("status", "test")
_OF_SCORES = dict.fromkeys(("min_ratio", *OWN_SCORES), "metric")
_COLUMN_OF = {**_OF_SCORES, "max_latency_ms": "p50", "max_slowdown": "speedup"}
"""The column of a limit that is not named after it."""
_MOST_NAMED = 8
_MOST_SAMPLES = 12
_NAMED = (Status.ERROR.value, Status.FAIL.value, TEST_FAILED, Status.UNAVAILABLE.value, Status.INCONCLUSIVE.value)
"""Statuses that are named at the top, the worst first."""


def run_table(checks: Sequence[StoredCheck], expected: Collection[str], broken: Collection[str] = ()) -> dict[str, Any]:
    """Return the table of a run, as the page's template reads it.

    Parameters
    ----------
    checks : of the run, in the order of its document.
    expected, broken : node ids of tests that failed as they were expected to, and of those that should not have.
    """
    records = [check.record for check in checks]
    rows = rows_of(records, expected, broken)
    names = [name for name in default_columns(rows) if name not in _STATUS_AND_TEST] if rows else []
    columns = pick_columns(names)
    printed = [column.cells(rows) for column in columns]
    shown = []
    for number, row in enumerate(rows):
        broken_columns = _broken_columns(row.record)
        cells = [
            (texts[number].rstrip(), column.sort_value(row), column.name in broken_columns)
            for (_, texts, _), column in zip(printed, columns, strict=True)
        ]
        shown.append({"number": number, "row": row, "cells": cells, **_opened(row, checks[number].run)})
    words = (*(status.value for status in Status), TEST_FAILED, EXPECTED)
    counts = Counter(row.status for row in rows)
    named = sorted(
        (check for check in shown if check["row"].status in _NAMED),
        key=lambda check: _NAMED.index(check["row"].status),
    )
    return {
        "heads": [(head, is_right) for head, _, is_right in printed],
        "checks": shown,
        "counts": [(word, counts[word]) for word in words if counts[word]],
        "lines": summary(records, expected, broken).splitlines(),
        "broken": named[:_MOST_NAMED],
        "unnamed": max(0, len(named) - _MOST_NAMED),
    }


def _broken_columns(record: Record) -> set[str]:
    """Return the names of the columns with a figure that breaks a limit, of ``max_size_mb`` ``size``."""
    limits = [verdict.limit for verdict in record.verdicts or () if verdict.status is Status.FAIL]
    names = {_COLUMN_OF.get(limit, limit.partition("_")[2].partition("_")[0]) for limit in limits}
    # Without a metric its column has the SQNR.
    without_metric = record.accuracy is not None and record.accuracy.metric is None
    return names | {"metric"} if without_metric and "sqnr" in names else names


def _opened(row: CheckRow, run: Run) -> dict[str, Any]:
    """Return what a check opens to; `words` are what a search for text looks through, in lower case."""
    record = row.record
    words = " ".join((record.nodeid, record.model, record.engine_id, record.metric or "", row.status))
    identity, context = run.environment.identity, run.environment.context
    digests = {f"{name} digest": digest for name, digest in record.digests.items()}
    return {
        "headline": _headline(row),
        "words": clean(words).lower(),
        "sections": [_with_samples(section, record) for section in details(record)],
        "rounds": rounds_chart(record),
        "origin": _origin(record, run),
        "machine": list({**dict(sorted(identity.items())), **dict(sorted(context.items())), **digests}.items()),
        "commands": _commands(record, run),
    }


def _headline(row: CheckRow) -> str:
    record = row.record
    if row.status == TEST_FAILED:
        return "the check passed, the test failed for another reason"
    if record.message:
        return record.message.splitlines()[0]
    if broken := headline(record):
        return broken
    return next((f"{verdict.limit}: {verdict.reason}" for verdict in broken_first(record)), "")


def _with_samples(section: DetailSection, record: Record) -> DetailSection:
    """Return the section about accuracy with the samples that were lost and won, by their index; others as they are."""
    # Samples of scores that were given have ids, and their places in the order of these say nothing.
    if section.title != "Accuracy" or record.accuracy is None or record.accuracy.candidate_runs is not None:
        return section
    reference, candidate, _, damage = answers_of(record.accuracy)
    if reference is None or candidate is None:
        return replace(section, lines=(*section.lines, *([damage] if damage else [])))
    samples = (
        ("samples lost", _indices(np.flatnonzero(reference & ~candidate))),
        ("samples won", _indices(np.flatnonzero(candidate & ~reference))),
    )
    return replace(section, further=(*section.further, *samples))


def _indices(samples: NDArray[Any]) -> str:
    if not samples.size:
        return "none"
    shown = ", ".join(map(str, samples[:_MOST_SAMPLES].tolist()))
    return f"{samples.size}: {shown}" + (", ..." if samples.size > _MOST_SAMPLES else "")


def _origin(record: Record, run: Run) -> Pairs:
    scheme = f", {record.calibration} calibration" if record.calibration else ""
    return said(
        ("model", record.model),
        ("candidate", f"{record.engine_id}{scheme}"),
        ("reference", record.reference),
        ("calibration samples", whole(record.calibration_samples)),
        ("threads", whole(record.threads)),
        ("instruction set", record.isa),
        ("cache", ", ".join(f"{what} {word}" for what, word in (record.cache or {}).items())),
        ("run", run.id),
    )


def _commands(record: Record, run: Run) -> Pairs:
    nodeid, test = shlex.quote(record.nodeid), shlex.quote(record.nodeid.partition("[")[0])
    code = "the code, without the changes that were not committed" if run.dirty else "the code"
    checkout = f"git checkout {shlex.quote(clean(run.commit)[:12])}" if run.commit is not None else ""
    return said(
        (code, checkout),
        ("the check", f"python -m pytest {nodeid}"),
        ("its history", f"pytest-quant history {test} {shlex.quote(record.engine_id)}"),
        ("which layers take the time", f"pytest-quant profile {nodeid}" if record.latency is not None else ""),
    )
