"""The figures of checks as CSV, in which nothing is computed by a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator

from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.record.figures import PLACES, figures

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the wide forms, which Japanese and Chinese spreadsheets take too."""


def csv_lines(runs: Iterable[tuple[Run, Iterable[Record]]]) -> Iterator[str]:
    """Yield the head and a line for each record of `runs`, in their order."""
    of_run = ("id", "started_at", "commit", "branch", "dirty", "pull_request")
    of_check = ("nodeid", "series", "isa", "message")
    yield line([*(f"run_{name}" for name in of_run), *of_check, *PLACES, "cpu", "identity", "version", "verdicts"])
    for run, records in runs:
        about_run = [getattr(run, name) for name in of_run]
        cpu = run.environment.identity.get("cpu")
        for record in records:
            about = [getattr(record, name) for name in of_check]
            verdicts = "; ".join(f"{verdict.limit} {verdict.status.value}" for verdict in record.verdicts or ())
            compared = (identity_of(run, record), version_of(record))
            yield line([*about_run, *about, *figures(record).values(), cpu, *compared, verdicts])


def line(values: Iterable[object]) -> str:
    """Return one line of CSV with its end; ``None`` and numbers that are not finite are empty cells."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow([_show(value) for value in values])
    return written.getvalue()


def _show(value: object) -> object:
    if isinstance(value, str):
        return cell(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, and never computes, as it does what begins like a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r")) else shown
