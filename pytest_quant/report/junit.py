"""The figures of a check as properties of its JUnit test case."""

from __future__ import annotations

from pytest_quant.printable import clean
from pytest_quant.record import Record


def junit_properties(record: Record) -> list[tuple[str, str | float | int]]:
    """Return ``(name, value)`` pairs named ``quant.*``; what was not measured is left out."""
    rows: list[tuple[str, str | float | int | None]] = [
        ("status", record.status.value),
        ("model", record.model),
        ("backend", record.backend),
        ("precision", record.precision),
        ("scheme", record.scheme),
        ("batch_size", record.batch_size),
        ("metric", record.metric),
    ]
    if record.accuracy is not None:
        span = record.accuracy.drop_ci
        rows += [
            ("n", record.accuracy.n),
            ("reference", record.accuracy.reference),
            ("candidate", record.accuracy.candidate),
            ("drop", record.accuracy.drop),
            ("drop_ci_low", span.low if span else None),
            ("drop_ci_high", span.high if span else None),
            ("agreement_pct", record.accuracy.agreement_pct),
            ("sqnr_db", record.accuracy.sqnr_db),
            ("cosine", record.accuracy.cosine),
            ("max_abs_error", record.accuracy.max_abs_error),
            ("simulated", "true" if record.accuracy.simulated else None),
        ]
    if record.latency is not None:
        span = record.latency.speedup_ci
        rows += [
            ("reference_p50_ms", record.latency.reference_p50_ms),
            ("candidate_p50_ms", record.latency.candidate_p50_ms),
            ("candidate_p90_ms", record.latency.candidate_p90_ms),
            ("candidate_p99_ms", record.latency.candidate_p99_ms),
            ("reference_precision", record.latency.compared_with or None),
            ("speedup", record.latency.speedup),
            ("speedup_ci_low", span.low if span else None),
            ("speedup_ci_high", span.high if span else None),
        ]
    if record.coverage is not None:
        rows += [("coverage_pct", record.coverage.pct), ("provider", record.coverage.provider)]
    if record.resources is not None:
        rows += [
            ("size_mb", record.resources.size_mb),
            ("build_s", record.resources.build_s),
            ("run_memory_mb", record.resources.run_memory_mb),
            ("device_memory_mb", record.resources.device_memory_mb),
            ("energy_mj", record.resources.energy_mj),
        ]
    if record.cache is not None:
        rows += [(f"cache_{what}", status) for what, status in record.cache.items()]
    return [
        (f"quant.{name}", clean(value) if isinstance(value, str) else value)
        for name, value in rows
        if value is not None
    ]
