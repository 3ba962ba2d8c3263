"""The file of accepted baselines, ``quant-baselines.toml``, kept in version control at the root of the project.

One table for each series. Two branches that accept the same series conflict there, which is the review.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pytest_quant.bounded import read_file
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history.baselines.entry import AcceptedLatency, BaselineEntry, Series, Table
from pytest_quant.result import LaunchFigures
from pytest_quant.whole_file import next_step, write_whole

SCHEMA = 1

_HEADER = f"""\
# Baselines of pytest-quant: records that were accepted on purpose, by: pytest-quant accept --reason "..."
# max_slowdown and max_drop_increase judge against them. Review a change here as you review code.
schema = {SCHEMA}
"""


def baseline_text(entries: Iterable[BaselineEntry]) -> str:
    """Return the text of the whole file: one table for each series in a stable order, one value per line.

    Raises
    ------
    UsageError : a name has characters that UTF-8 cannot encode.
    """
    ordered = sorted(entries, key=lambda entry: entry.series.key)
    return "\n".join([_HEADER, *(entry_text(entry) for entry in ordered)])


def entry_text(entry: BaselineEntry) -> str:
    """Return the table of one series."""
    return "\n".join(["[[baseline]]", *_lines(entry)]) + "\n"


def _lines(entry: BaselineEntry) -> Iterator[str]:
    series = entry.series
    yield from _pairs(
        {
            "test": series.test,
            "model": series.model,
            "backend": series.backend,
            "precision": series.precision,
            "scheme": series.scheme,
            "batch_size": series.batch_size,
            "metric": series.metric,
            "reason": entry.reason,
            "commit": entry.commit,
            "run": entry.run,
            "accepted_at": entry.accepted_at,
            "expires": entry.expires,
            "removed": entry.removed or None,
            "candidate_score": entry.candidate_score,
            "drop": entry.drop,
            "unit": entry.unit,
            "data": entry.data,
            "size_mb": entry.size_mb,
            "coverage_pct": entry.coverage_pct,
        }
    )
    for latency in sorted(entry.latency, key=lambda one: (sorted(one.identity.items()), one.way)):
        yield from _latency_lines(latency)


def _latency_lines(latency: AcceptedLatency) -> Iterator[str]:
    machine = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in sorted(latency.identity.items()))
    yield "[[baseline.latency]]"
    yield from _pairs({"speedup": latency.speedup, "candidate_p50_ms": latency.candidate_p50_ms})
    if latency.launches:
        yield "launches = ["
        yield from (f"    {_launch_line(launch)}," for launch in latency.launches)
        yield "]"
    if latency.way:
        yield f"way = [{', '.join(map(_text, latency.way))}]"
    yield f"identity = {{ {machine} }}"


def _launch_line(launch: LaunchFigures) -> str:
    """Return one launch as an inline table, on a line of its own."""
    return f"{{ {', '.join(_pairs({name: getattr(launch, name) for name in _LAUNCH_FIELDS}))} }}"


def _pairs(values: Mapping[str, object]) -> Iterator[str]:
    return (f"{name} = {_value(value)}" for name, value in values.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        # TOML requires digits before and after the point, and Python writes 1e-07 without a point.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"
    if isinstance(value, int):
        return str(value)
    return _text(str(value))


def _text(value: str) -> str:
    """Return a TOML string in which every character that does not print is an escape."""
    return '"' + "".join(map(_character, value)) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if "\ud800" <= char <= "\udfff":
        raise UsageError(
            "a name that is no text cannot be kept in a baseline file",
            value=ascii(char),
            fix="rename the test or its file so that the name is UTF-8",
        )
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"


NAME = "quant-baselines.toml"

_BACK = f"correct the line, or take the file back from version control: git checkout -- {NAME}"

_TOP = ("schema", "baseline")
_FIELDS = (
    *("test", "model", "backend", "precision", "scheme", "batch_size", "metric"),
    *("reason", "commit", "run", "accepted_at", "expires", "removed"),
    *("candidate_score", "drop", "unit", "data", "size_mb", "coverage_pct", "latency"),
)
_LATENCY_FIELDS = ("speedup", "candidate_p50_ms", "launches", "way", "identity")
_LAUNCH_FIELDS = ("started_at", "speedup", "candidate_p50_ms", "reference_p50_ms", "error")
_MOST_BYTES = 16_000_000
"""The entries of some 25 000 series."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_MOST_DOTS = 8
_DOTTED = re.compile(rf'(?:(?:""|[\w-]+)[ \t]*\.[ \t]*){{{_MOST_DOTS}}}')
"""A key of many parts, once the texts of a line are empty. Reading one takes memory by the square of their number."""

_CONFLICT = re.compile(r"(<{7}|\|{7}|>{7})( |$)|={7}$")


def read_baselines(file: Path) -> dict[str, BaselineEntry]:
    """Return the entries by series key; none when there is no file.

    Raises
    ------
    HistoryError : the file cannot be read, contains an unresolved merge conflict, or an entry is not valid; the message
        names the line.
    """
    try:
        text = read_file(file, _MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise HistoryError(f"{file}, line {line}: it is not UTF-8", value=str(error), fix=_BACK) from error
    except OSError as error:
        raise HistoryError(f"{file} cannot be read", value=error.strerror or str(error), fix=_BACK) from error
    return parse_baselines(text, str(file))


def parse_baselines(text: str, file: str = NAME) -> dict[str, BaselineEntry]:
    """Return the entries of a file's text by series key, see `read_baselines`."""
    lines = text.replace("\r\n", "\n").split("\n")
    _refuse_conflict(lines, file)
    _refuse_long_keys(lines, file)
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise HistoryError(f"{file} is not TOML", value=str(error), fix=_BACK) from error
    except (RecursionError, MemoryError) as error:
        deepest = max(range(len(lines)), key=lambda index: lines[index].count("[") + lines[index].count("{"))
        what = f"{file}, line {deepest + 1}: lists or tables are nested without end"
        raise HistoryError(what, value=lines[deepest][:80], fix=_BACK) from error
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


def _by_series(tables: object, top: Table, lines: list[str], file: str) -> dict[str, BaselineEntry]:
    if not isinstance(tables, list):
        raise top.wrong("'baseline' is not what it must be", "baseline", "tables that begin with [[baseline]]")
    headers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*baseline\s*\]\]", line)]
    entries: dict[str, BaselineEntry] = {}
    for index, data in enumerate(tables):
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
        size_mb=table.number("size_mb"),
        coverage_pct=table.number("coverage_pct"),
        latency=tuple(map(_latency, table.tables("latency"))),
    )


def _latency(table: Table) -> AcceptedLatency:
    table.only(_LATENCY_FIELDS)
    figures = table.number("speedup"), table.number("candidate_p50_ms")
    launches = tuple(map(_launch, table.tables("launches")))
    return AcceptedLatency(table.texts("identity"), *figures, table.words("way"), launches)


def _launch(table: Table) -> LaunchFigures:
    table.only(_LAUNCH_FIELDS)
    figures = [table.number(name) for name in _LAUNCH_FIELDS[1:]]
    return LaunchFigures(table.need_text("started_at"), *figures)


def _refuse_conflict(lines: list[str], file: str) -> None:
    for number, line in enumerate(lines, 1):
        if _CONFLICT.match(line):
            raise HistoryError(
                f"{file}, line {number}: a merge has left both sides of a conflict",
                value=line[:80],
                fix="keep one [[baseline]] of each series, remove the marks, and let the change be reviewed",
            )


def _refuse_long_keys(lines: list[str], file: str) -> None:
    for number, line in enumerate(lines, 1):
        if line.count(".") >= _MOST_DOTS and _DOTTED.search(_STRING.sub('""', line)):
            raise HistoryError(f"{file}, line {number}: a key has too many parts", value=line[:80], fix=_BACK)


def write_baselines(file: Path, entries: Iterable[BaselineEntry]) -> None:
    """Write `entries` to `file`, completely or not at all. Raises `HistoryError`."""
    text = baseline_text(entries)
    try:
        write_whole(file, text.encode())
    except OSError as error:
        raise HistoryError(
            f"{file} cannot be written",
            value=error.strerror or str(error),
            fix=next_step(error, "make the folder writable"),
        ) from error
