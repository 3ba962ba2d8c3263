"""A result file of airspeed velocity, format 2: one commit in one environment on one machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from pytest_quant.errors import HistoryError
from pytest_quant.history.exchange.timed import run_id, timed_record, utc_of_ms
from pytest_quant.record import Record, Run
from pytest_quant.record.reader import Reader
from pytest_quant.result import Environment

TOOL = "asv"

_VERSION = 2
_TIMED = "time_"


def read(document: dict[str, object]) -> tuple[Run, tuple[Record, ...]]:
    """Return the run in a document. Raises `HistoryError` when a field is missing or has the wrong type."""
    file = Reader(document, TOOL)
    version = file.integer("version")
    if version != _VERSION:
        raise HistoryError(
            "an asv file of another format", value=f"version {version}", allowed="version 2", fix="run: asv update"
        )
    started = utc_of_ms(file.need_number("date"))
    run = Run(
        id=run_id(started, document),
        started_at=started.isoformat(),
        commit=file.need_text("commit_hash"),
        branch=None,
        dirty=False,
        environment=_environment(file),
    )
    return run, tuple(_records(file))


def _environment(file: Reader) -> Environment:
    machine = file.need_child("params")
    names = {"cpu": "cpu", "cores": "num_cpu", "os": "os", "arch": "arch"}
    identity = {ours: _as_text(machine.get(theirs)) for ours, theirs in names.items()}
    required = file.child("requirements")
    context = {} if required is None else {name: _as_text(required.get(name)) for name in required.names()}
    context |= {"python": file.text("python") or "unknown", "environment": file.text("env_name") or "unknown"}
    return Environment(identity, context)


def _as_text(value: object) -> str:
    return str(value) if isinstance(value, (str, int, float)) and value != "" else "unknown"


def _records(file: Reader) -> Iterator[Record]:
    columns = file.texts("result_columns")
    results = file.need_child("results")
    for name in results.names():
        # Memory and tracked numbers are no latency; asv itself distinguishes them by the prefix.
        if name.rsplit(".", 1)[-1].startswith(_TIMED):
            row = Reader(dict(zip(columns, results.items(name), strict=False)), f"{TOOL}.results.{name}")
            yield from _row(name, row)


def _row(name: str, row: Reader) -> Iterator[Record]:
    """Yield a record for each combination of parameters that was measured; others are NaN or null in the file."""
    params = [axis for axis in row.items("params") if isinstance(axis, list)]
    medians, samples = row.items("result"), row.items("samples")
    for number, combination in enumerate(itertools.product(*params)):
        median_s = medians[number] if number < len(medians) else None
        if not isinstance(median_s, (int, float)) or not math.isfinite(median_s):
            continue
        nodeid = f"{name}[{'-'.join(str(value) for value in combination)}]" if combination else name
        taken = samples[number] if number < len(samples) else None
        timings_s = Reader({"samples": taken}, name).numbers("samples")
        yield timed_record(TOOL, nodeid, float(median_s), max(1, len(timings_s)), timings_s)
