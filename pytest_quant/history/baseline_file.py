"""The file of accepted baselines, ``quant-baselines.toml``, kept in version control at the root of the project.

One table for each series. Two branches that accept the same series conflict there, which is the review.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_quant.cache.durable import write_atomically
from pytest_quant.errors import HistoryError
from pytest_quant.history.baseline_entry import AcceptedLatency, BaselineEntry, Series
from pytest_quant.history.baseline_table import Table
from pytest_quant.history.baseline_text import SCHEMA, baseline_text

NAME = "quant-baselines.toml"

_TOP = ("schema", "baseline")
_FIELDS = (
    *("test", "model", "backend", "precision", "scheme", "batch_size", "metric"),
    *("reason", "commit", "run", "accepted_at", "expires", "removed"),
    *("candidate_score", "drop", "unit", "data", "latency"),
)
_LATENCY_FIELDS = ("speedup", "candidate_p50_ms", "identity")
_CONFLICT = re.compile(r"(<{7}|\|{7}|>{7})( |$)|={7}$")


def read_baselines(file: Path) -> dict[str, BaselineEntry]:
    """Return the entries by series key; none when there is no file.

    Raises
    ------
    HistoryError : the file cannot be read, is in the middle of a merge, or holds what is no baseline; the message
        names the line.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{file} cannot be read", value=str(error)) from error
    return parse_baselines(text, str(file))


def parse_baselines(text: str, file: str = NAME) -> dict[str, BaselineEntry]:
    """Return the entries of a file's text by series key, see `read_baselines`."""
    lines = text.replace("\r\n", "\n").split("\n")
    _refuse_conflict(lines, file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HistoryError(
            f"{file} is not TOML",
            value=str(error),
            fix="correct the line, or take the file back from version control: git checkout -- " + NAME,
        ) from error
    top = Table(document, file, lines, 0)
    top.only(_TOP)
    if document and top.need_integer("schema") > SCHEMA:
        raise HistoryError(
            f"{file} was written by a newer pytest-quant",
            value=f"schema {document['schema']}",
            allowed=f"schema {SCHEMA} or older",
            fix="pip install --upgrade pytest-quant",
        )
    return _by_series(document.get("baseline", []), top, lines, file)


def accepted_removals(entries: Mapping[str, BaselineEntry]) -> set[str]:
    """Return the keys of the series whose tests are gone on purpose."""
    return {key for key, entry in entries.items() if entry.removed}


def _by_series(found: object, top: Table, lines: list[str], file: str) -> dict[str, BaselineEntry]:
    if not isinstance(found, list):
        raise top.wrong("'baseline' is not what it must be", "baseline", "tables that begin with [[baseline]]")
    headers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*baseline\s*\]\]", line)]
    entries: dict[str, BaselineEntry] = {}
    for index, data in enumerate(found):
        table = Table(data, file, lines, headers[index] if index < len(headers) else 0)
        entry = _entry(table)
        if entry.series.key in entries:
            raise table.wrong("this series is there twice, as a merge may leave it", "test", "one entry of a series")
        entries[entry.series.key] = entry
    return entries


def _entry(table: Table) -> BaselineEntry:
    table.only(_FIELDS)
    series = Series(
        test=table.need_text("test"),
        model=table.need_text("model"),
        backend=table.need_text("backend"),
        precision=table.need_text("precision"),
        scheme=table.text("scheme"),
        batch_size=table.need_integer("batch_size"),
        metric=table.text("metric"),
    )
    return BaselineEntry(
        series=series,
        commit=table.need_text("commit"),
        run=table.text("run"),
        reason=table.need_text("reason"),
        accepted_at=table.need_time("accepted_at"),
        expires=table.day("expires"),
        removed=table.flag("removed"),
        unit=table.text("unit"),
        candidate_score=table.number("candidate_score"),
        drop=table.number("drop"),
        data=table.text("data"),
        latency=tuple(map(_latency, table.tables("latency"))),
    )


def _latency(table: Table) -> AcceptedLatency:
    table.only(_LATENCY_FIELDS)
    return AcceptedLatency(table.texts("identity"), table.number("speedup"), table.number("candidate_p50_ms"))


def _refuse_conflict(lines: list[str], file: str) -> None:
    for number, line in enumerate(lines, 1):
        if _CONFLICT.match(line):
            raise HistoryError(
                f"{file}, line {number}: a merge has left both sides of a conflict",
                value=line[:80],
                fix="keep one [[baseline]] of each series, remove the marks, and let the change be reviewed",
            )


def write_baselines(file: Path, entries: Iterable[BaselineEntry]) -> None:
    """Put `entries` at `file`, whole or not at all. Raises `HistoryError`."""
    text = baseline_text(entries)
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise HistoryError(
            f"{file} cannot be written", value=error.strerror or str(error), fix="make the folder writable"
        ) from error
