"""CSV: a row for each check with every figure of its record, read by spreadsheets, pandas and R alike.

The columns are the fields of `Run`, with ``run_`` before their names, then those of `Record`; a field of one of its
sections has the section's name before it, ``latency_candidate_p50_ms``, and an interval is two columns, ``_low`` and
``_high``. So each is described in ``record_schema.json`` by the same name, and a later version adds columns without
renaming any. Lists of texts are joined; rows within a record, such as single rounds, operators and outputs, are left
to newline-delimited JSON.

==============================  ========================================================================================
column                          beside the fields
==============================  ========================================================================================
``identity``, ``version``       digests, equal for records whose latencies, and whose scores, may be compared
``cpu``                         of the machine
``cache_engine``,               ``built`` or ``hit``
``cache_reference``
``verdicts``                    each limit with its status
==============================  ========================================================================================
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.result import Interval

_Read: TypeAlias = Callable[[Any], object]

_PACKED = ("reference_correct", "candidate_correct", "candidate_scores", "samples")
"""Fields that hold every sample, compressed: tens of kilobytes that no spreadsheet reads."""

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the wide forms, which Japanese and Chinese spreadsheets take too."""


def cell(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, and never computes, as it does what begins like a formula."""
    shown = clean(text)
    if not shown.lstrip().startswith(_FORMULA) and not text.startswith(("\t", "\r")):
        return shown
    try:
        float(shown)
    except ValueError:
        return f"'{shown}"
    return shown


def line(values: Iterable[object]) -> str:
    """Return one line of CSV with its end; ``None`` and numbers that are not finite are empty cells."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow([_shown(value) for value in values])
    return written.getvalue()


def csv_lines(runs: Iterable[tuple[Run, Iterable[Record]]]) -> Iterator[str]:
    """Yield the head and a line for each record of `runs`, in their order."""
    of_run, of_record = _columns(Run, "run_"), _columns(Record, "")
    yield line([*of_run, *of_record, *_MORE])
    for run, records in runs:
        cells = [read(run) for read in of_run.values()]
        for record in records:
            figures = (read(record) for read in of_record.values())
            yield line([*cells, *figures, *(read(run, record) for read in _MORE.values())])


def _cached(what: str, _: Run, record: Record) -> str | None:
    return (record.cache or {}).get(what)


_MORE: Mapping[str, Callable[[Run, Record], object]] = {
    "identity": identity_of,
    "version": lambda _, record: version_of(record),
    "cpu": lambda run, _: run.environment.identity.get("cpu"),
    "cache_engine": partial(_cached, "engine"),
    "cache_reference": partial(_cached, "reference"),
    "verdicts": lambda _, record: "; ".join(
        f"{verdict.limit} {verdict.status.value}" for verdict in record.verdicts or ()
    ),
}


def _columns(kind: type, before: str) -> dict[str, _Read]:
    """Return the columns of a dataclass and of the sections in it, each with what reads it from a value."""
    return dict(_fields(kind, before, lambda whole: whole))


def _fields(kind: type, before: str, read: _Read) -> Iterator[tuple[str, _Read]]:
    for name, declared in get_type_hints(kind).items():
        column, inner = f"{before}{name}", _without_none(declared)
        get = partial(_part, read, name)
        if inner is Interval:
            yield f"{column}_low", partial(_part, get, "low")
            yield f"{column}_high", partial(_part, get, "high")
        elif is_dataclass(inner) and inner is not kind:
            yield from _fields(inner, f"{column}_", get)  # type: ignore[arg-type]  # never an instance
        elif inner == tuple[str, ...]:
            yield column, partial(_joined, get)
        elif _is_plain(inner) and name not in _PACKED:
            yield column, get


def _without_none(declared: Any) -> Any:
    """Return what a field holds when it is not ``None``."""
    kinds = [part for part in get_args(declared) if part is not NoneType]
    return kinds[0] if NoneType in get_args(declared) and len(kinds) == 1 else declared


def _is_plain(kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return True
    return kind in (str, int, float, bool) or (isinstance(kind, type) and issubclass(kind, Enum))


def _part(read: _Read, name: str, whole: object) -> object:
    part = read(whole)
    return None if part is None else getattr(part, name)


def _joined(read: _Read, whole: object) -> str:
    part = read(whole)
    return "; ".join(part) if isinstance(part, tuple) else ""


def _shown(value: object) -> object:
    if isinstance(value, str):
        return cell(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
