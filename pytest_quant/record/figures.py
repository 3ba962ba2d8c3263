"""The figures of a check by name: of the history's points, of a row of CSV, and of a JUnit test case as properties.

A later version adds names without changing any. What has no name here, such as single rounds, operators and outputs, is
in newline-delimited JSON and in ``--quant-json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from pytest_quant.printable import clean
from pytest_quant.record.record import Record

SCORE, DROP = "score", "drop"
"""In place of a unit: that of the metric, and that of a difference of two scores."""


class Figure(NamedTuple):
    """One figure of a check, wherever it is shown.

    Attributes
    ----------
    name : in CSV, in the properties of JUnit, and in the points of a history.
    place : where a record has it: attributes with dots between them; one called ``place_ci`` beside it is its interval.
    unit : a unit, `SCORE` or `DROP`.
    column : of the table, in the terminal and on the page, ``name`` or ``name:head``; empty for none of its own.
    label : among the further figures of its section, on the page and with ``-v``; empty where other words say it.
    digits : significant ones below that label.
    """

    name: str
    place: str
    unit: str = ""
    column: str = ""
    label: str = ""
    digits: int = 4


def _ends(name: str, place: str) -> tuple[Figure, ...]:
    return tuple(Figure(f"{name}_{end}", f"{place}.{end}") for end in ("low", "high"))


FIGURES = (
    *(Figure(name, name) for name in ("status", "model", "backend", "precision", "scheme", "batch_size", "metric")),
    *(Figure(name, f"accuracy.{name}") for name in ("n", "unit", "better", "reference", "candidate")),
    Figure("drop", "accuracy.drop", DROP, "drop"),
    Figure("p_value", "accuracy.p_value", label="McNemar p", digits=2),
    Figure("n_to_resolve", "accuracy.n_to_resolve", label="samples needed to decide"),
    Figure("agreement_pct", "accuracy.agreement_pct", "%", "agreement:agree"),
    Figure("sqnr_db", "accuracy.sqnr_db"),
    Figure("cosine", "accuracy.cosine"),
    Figure("max_abs_error", "accuracy.max_abs_error", "", "max_abs_error:max error"),
    Figure("kl", "accuracy.kl", "nats", "kl:KL", "KL"),
    Figure("chance", "accuracy.chance", SCORE, label="score without a look at the samples"),
    Figure("simulated", "accuracy.simulated"),
    *_ends("drop_ci", "accuracy.drop_ci"),
    *(Figure(name, f"latency.{name}") for name in ("reference_p50_ms", "candidate_p50_ms")),
    Figure("candidate_p90_ms", "latency.candidate_p90_ms", "ms", "p90", "p90"),
    Figure("candidate_p99_ms", "latency.candidate_p99_ms", "ms", "p99", "p99"),
    Figure("speedup", "latency.speedup"),
    Figure("rounds", "latency.rounds"),
    Figure("half_width_pct", "latency.half_width_pct", "%", label="detectable effect"),
    Figure("clock", "latency.clock"),
    *(end for name in ("speedup_ci", "null_ratio_ci") for end in _ends(name, f"latency.{name}")),
    Figure("reference_precision", "latency.compared_with"),
    Figure("coverage_pct", "coverage.pct"),
    Figure("provider", "coverage.provider"),
    Figure("portability", "portability.holds"),
    Figure("portability_how", "portability.how"),
    Figure("portability_drop", "portability.drop", DROP, label="drop there"),
    Figure("portability_agreement_pct", "portability.agreement_pct", "%", label="agreement there"),
    Figure("portability_sqnr_db", "portability.sqnr_db", "dB", label="SQNR there"),
    Figure("size_mb", "resources.size_mb", "MB", "size", "engine"),
    Figure("reference_size_mb", "resources.reference_size_mb", "MB", label="reference"),
    Figure("build_s", "resources.build_s", "s", "build", "build"),
    Figure("calibration_s", "resources.calibration_s", "s", label="calibration"),
    Figure("build_memory_mb", "resources.build_memory_mb", "MB", label="memory of the build"),
    Figure("run_memory_mb", "resources.run_memory_mb", "MB", label="memory added by running"),
    Figure("device_memory_mb", "resources.device_memory_mb", "MB", label="device memory, by the runtime"),
    Figure("energy_mj", "resources.energy_mj", "mJ", label="energy of a run"),
    *(Figure(f"cache_{name}", f"cache.{name}") for name in ("engine", "reference")),
    Figure("device_memory_nvml_mb", "resources.device_memory_nvml_mb", "MB", label="device memory, by NVML"),
)
"""Every figure; who adds one here has it in the table, the page, CSV and JUnit."""

PLACES: Mapping[str, str] = {figure.name: figure.place for figure in FIGURES}
"""Where each figure stands in a record."""


def figures(record: Record, names: Iterable[str] = PLACES) -> dict[str, str | float | int | None]:
    """Return the figures of a check by name, all or those with these `names`; ``None`` for those not measured."""
    return {name: _read_place(record, PLACES[name]) for name in names}


def drop_unit(unit: str | None) -> str:
    """Return the unit of a difference of two scores in `unit`: percentage points for percentages."""
    return "pp" if unit == "%" else unit or ""


def _read_place(record: Record, place: str) -> str | float | int | None:
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
