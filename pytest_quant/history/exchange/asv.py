"""A result file of airspeed velocity, format 2: one commit in one environment on one machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_quant.errors import HistoryError
from pytest_quant.history.exchange.foreign import run_id, timed_record, utc_of_ms
from pytest_quant.record import Record, Run
from pytest_quant.record.codec import decode
from pytest_quant.result import Environment

TOOL = "asv"

_VERSION = 2
_TIMED = "time_"


@dataclass(frozen=True, slots=True)
class _File:
    date: float
    commit_hash: str
    params: Mapping[str, Any]
    requirements: Mapping[str, Any] | None
    python: str | None
    env_name: str | None
    result_columns: tuple[str, ...] | None
    results: Mapping[str, tuple[Any, ...] | None]


@dataclass(frozen=True, slots=True)
class _Row:
    """The columns of one benchmark that are read here; what was not measured is NaN or null in its place."""

    result: tuple[Any, ...] | None
    params: tuple[Any, ...] | None
    samples: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class _Taken:
    """The timings of one combination of parameters, seconds."""

    samples: tuple[float, ...] | None


def read(document: dict[str, object]) -> tuple[Run, tuple[Record, ...]]:
    """Return the run in a document. Raises `HistoryError` when a field is missing or has the wrong type."""
    version = document.get("version")
    if version != _VERSION:
        raise HistoryError(
            "an asv file of another format", value=f"version {version}"[:80], allowed="version 2", fix="run: asv update"
        )
    file = decode(_File, document, TOOL)
    started = utc_of_ms(file.date)
    run = Run(
        id=run_id(started, document),
        started_at=started.isoformat(),
        commit=file.commit_hash,
        branch=None,
        dirty=False,
        environment=_environment(file),
    )
    return run, tuple(_records(file))


def _environment(file: _File) -> Environment:
    names = {"cpu": "cpu", "cores": "num_cpu", "os": "os", "arch": "arch"}
    identity = {ours: _as_text(file.params.get(theirs)) for ours, theirs in names.items()}
    context = {name: _as_text(value) for name, value in (file.requirements or {}).items()}
    context |= {"python": file.python or "unknown", "environment": file.env_name or "unknown"}
    return Environment(identity, context)


def _as_text(value: object) -> str:
    return str(value) if isinstance(value, (str, int, float)) and value != "" else "unknown"


def _records(file: _File) -> Iterator[Record]:
    for name, values in file.results.items():
        # Memory and tracked numbers are no latency; asv itself distinguishes them by the prefix.
        if name.rsplit(".", 1)[-1].startswith(_TIMED):
            columns = dict(zip(file.result_columns or (), values or (), strict=False))
            yield from _row(name, decode(_Row, columns, f"{TOOL}.results.{name}"))


def _row(name: str, row: _Row) -> Iterator[Record]:
    """Yield a record for each combination of parameters that was measured; others are NaN or null in the file."""
    params = [axis for axis in row.params or () if isinstance(axis, list)]
    medians, samples = row.result or (), row.samples or ()
    for number, combination in enumerate(itertools.product(*params)):
        median_s = medians[number] if number < len(medians) else None
        if not isinstance(median_s, (int, float)) or not math.isfinite(median_s):
            continue
        nodeid = f"{name}[{'-'.join(str(value) for value in combination)}]" if combination else name
        taken = samples[number] if number < len(samples) else None
        timings_s = decode(_Taken, {"samples": taken}, name).samples or ()
        yield timed_record(TOOL, nodeid, float(median_s), max(1, len(timings_s)), timings_s)
