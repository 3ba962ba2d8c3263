"""From a check and what was found about it to a record."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_quant.environment.machine import isa_tier
from pytest_quant.record.record import EncodedRecord, Record, from_json, to_json
from pytest_quant.result import Blocks, Cause, Hint, LatencyResult, Measured, Status, Verdict
from pytest_quant.spec import SeriesKey

if TYPE_CHECKING:
    from pytest_quant.spec import Check


_MAX_ROUNDS_KEPT = 40


_AS_ASKED = ("nodeid", "batch_size", "confidence", "latency_off", "accuracy_off")
"""Fields of a record that are those of the check."""

_AS_MEASURED = (
    *("coverage", "resources", "cache", "digests", "warnings", "builds", "calibration_samples", "threads", "cost"),
    "portability",
)
"""Fields of a record that are those of the measurement."""


def build_record(
    measured: Measured,
    *,
    status: Status,
    verdicts: Sequence[Verdict],
    hints: Sequence[Hint] = (),
    cause: Cause | None = None,
) -> EncodedRecord:
    """Return the record of a check that was measured and judged.

    Parameters
    ----------
    status : the worst of the verdicts.
    hints : what is worth trying about the broken limits, the best first.
    cause : where the loss on the outputs comes from, if that is known.

    Raises
    ------
    UsageError : a figure of a metric or backend is neither a number nor a text; the message names it.
    """
    latency = _add_medians(measured.latency)
    unmeasured = _unmeasured_record(measured.check, status, measured.accuracy.metric)
    return _normal(
        replace(
            unmeasured,
            batch_size=unmeasured.batch_size if latency is None else latency.batch_size,
            verdicts=tuple(verdicts),
            accuracy=None if measured.check.accuracy_off else measured.accuracy,
            latency=latency,
            notes=tuple(dict.fromkeys(measured.notes)),
            hints=tuple(hints),
            cause=cause,
            **{name: getattr(measured, name) for name in _AS_MEASURED},
        )
    )


def build_failed_record(check: Check, *, status: Status, message: str) -> EncodedRecord:
    """Return the record of a check that could not be measured: sections are null, and no limit is judged.

    Parameters
    ----------
    check : what was asked.
    status : UNAVAILABLE or ERROR.
    message : the reason, in one or several lines.
    """
    metric = check.metric if isinstance(check.metric, str) else getattr(check.metric, "name", None)
    return _normal(replace(_unmeasured_record(check, status, metric), message=message))


def _unmeasured_record(check: Check, status: Status, metric: str | None) -> Record:
    """Return the record with what the check itself says; sections that were not measured are ``None``."""
    spec = check.candidate
    return Record(
        **{name: getattr(check, name) for name in _AS_ASKED},
        model=spec.model.name,
        backend=spec.backend,
        precision=spec.precision or None,
        scheme=spec.scheme,
        status=status,
        series=SeriesKey.from_check(check, metric).text,
        reference=check.reference.id,
        metric=metric,
        calibration=spec.calibration.method if spec.scheme == "static" else None,
        asked=spec.asked,
        # Scores were made elsewhere.
        isa=isa_tier() if check.engines else "unknown",
        stands_in=check.dataset.stands_in,
    )


def _normal(record: Record) -> EncodedRecord:
    """Send the record through JSON once, so that what is kept, sent and shown are the same figures."""
    document = to_json(record)
    return EncodedRecord(from_json(document), document)


def _add_medians(latency: LatencyResult | None) -> LatencyResult | None:
    if latency is None:
        return None
    engines = {"reference": latency.reference, "null": latency.null, "candidate": latency.candidate}
    return replace(
        latency,
        round_p50_ms={name: _round_medians_ms(blocks) for name, blocks in engines.items()},
        repeat=_add_medians(latency.repeat),
    )


def _round_medians_ms(blocks: Blocks) -> tuple[float, ...]:
    """Median of each round in milliseconds with four digits; of many rounds, evenly spaced ones."""
    rounds = [runs for runs in blocks.runs_ns if runs]
    if len(rounds) > _MAX_ROUNDS_KEPT:
        step = (len(rounds) - 1) / (_MAX_ROUNDS_KEPT - 1)
        rounds = [rounds[round(index * step)] for index in range(_MAX_ROUNDS_KEPT)]
    return tuple(float(f"{statistics.median(runs) / 1e6:.4g}") for runs in rounds)
