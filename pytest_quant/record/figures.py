"""The figures of a check by name: of the history's points, of a row of CSV, and of a JUnit test case as properties.

A later version adds names without changing any. What has no name here, such as single rounds, operators and outputs, is
in newline-delimited JSON and in ``--quant-json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from pytest_quant.printable import clean
from pytest_quant.record.record import Record

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
PLACES: Mapping[str, str] = {
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


def figures(record: Record, names: Iterable[str] = PLACES) -> dict[str, str | float | int | None]:
    """Return the figures of a check by name, all or those with these `names`; ``None`` where one was not measured."""
    return {name: _at(record, PLACES[name]) for name in names}


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
