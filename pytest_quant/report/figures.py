"""The figures of a check by name, as properties of its JUnit test case and as a row of CSV.

A later version adds names without changing any. What has no name here, such as single rounds, operators and outputs, is
in newline-delimited JSON and in ``--quant-json``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run

_OF_CHECK = ("status", "model", "backend", "precision", "scheme", "batch_size", "metric")
_OF_ACCURACY = (
    *("n", "unit", "better", "reference", "candidate", "drop", "p_value", "n_to_resolve", "agreement_pct"),
    *("sqnr_db", "cosine", "max_abs_error", "kl", "chance", "simulated"),
)
_OF_LATENCY = (
    *("reference_p50_ms", "candidate_p50_ms", "candidate_p90_ms", "candidate_p99_ms", "speedup", "rounds"),
    *("half_width_pct", "clock"),
)
_OF_RESOURCES = (
    *("size_mb", "reference_size_mb", "build_s", "calibration_s", "build_memory_mb", "run_memory_mb"),
    *("device_memory_mb", "energy_mj"),
)
_PLACES: Mapping[str, str] = {
    **{name: name for name in _OF_CHECK},
    **{name: f"accuracy.{name}" for name in _OF_ACCURACY},
    **{f"drop_ci_{end}": f"accuracy.drop_ci.{end}" for end in ("low", "high")},
    **{name: f"latency.{name}" for name in _OF_LATENCY},
    **{f"{name}_{end}": f"latency.{name}.{end}" for name in ("speedup_ci", "null_ratio_ci") for end in ("low", "high")},
    "reference_precision": "latency.compared_with",
    "coverage_pct": "coverage.pct",
    "provider": "coverage.provider",
    **{name: f"resources.{name}" for name in _OF_RESOURCES},
    "cache_engine": "cache.engine",
    "cache_reference": "cache.reference",
}
"""Where each figure stands in a record."""

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the wide forms, which Japanese and Chinese spreadsheets take too."""


def figures(record: Record) -> dict[str, str | float | int | None]:
    """Return the figures of a check by name; ``None`` where one was not measured."""
    return {name: _at(record, place) for name, place in _PLACES.items()}


def _at(record: Record, place: str) -> str | float | int | None:
    value: object = record
    for name in place.split("."):
        if value is not None:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
    if isinstance(value, bool):
        return "true" if value else None
    if isinstance(value, Enum):
        return str(value.value)
    return value if isinstance(value, (int, float)) else str(value or "") or None


def junit_properties(record: Record) -> list[tuple[str, str | float | int]]:
    """Return ``(name, value)`` pairs named ``quant.*``; what was not measured is left out."""
    return [
        (f"quant.{name}", clean(value) if isinstance(value, str) else value)
        for name, value in figures(record).items()
        if value is not None
    ]


def csv_lines(runs: Iterable[tuple[Run, Iterable[Record]]]) -> Iterator[str]:
    """Yield the head and a line for each record of `runs`, in their order."""
    of_run = ("id", "started_at", "commit", "branch", "dirty", "pull_request")
    of_check = ("nodeid", "series", "isa", "message")
    yield line([*(f"run_{name}" for name in of_run), *of_check, *_PLACES, "cpu", "identity", "version", "verdicts"])
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
    csv.writer(written, lineterminator="\n").writerow([_shown(value) for value in values])
    return written.getvalue()


def _shown(value: object) -> object:
    if isinstance(value, str):
        return cell(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, and never computes, as it does what begins like a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r")) else shown
