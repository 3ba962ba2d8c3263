"""From a check and what was found about it to a record, and the samples that it was evaluated on.

A run keeps its samples once for each evaluation data, however many of its checks share it: the first 32 bits of each
sample's hash, in the order of its right and wrong answers. Two different samples of two sets of n and m are taken for
one with a probability of n m / 2^32: 1 in 5000 for sets of 900.
"""

from __future__ import annotations

import base64
import json
import statistics
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.environment import isa_tier
from pytest_quant.errors import HistoryError
from pytest_quant.record.codec import Encoded, from_json, to_json
from pytest_quant.record.record import LatencyFigures, PercentileBound, Record
from pytest_quant.record.run import Run
from pytest_quant.result import Blocks, Hint, LatencyResult, Measured, Status, Verdict

if TYPE_CHECKING:
    from pytest_quant.spec import Check


MOST_SAMPLES = 10_000
"""Of larger sets none are kept, since they would take more than 53 kB of every run."""

_HASH_BITS = 64
_KEPT_BITS = 32


_MAX_ROUNDS_KEPT = 40

_NS_PER_MS = 1e6


def pack_samples(hashes: array[int]) -> str | None:
    """Return 64-bit hashes as a record keeps them; ``None`` when there are more than `MOST_SAMPLES`."""
    if len(hashes) > MOST_SAMPLES:
        return None
    kept = (np.asarray(hashes, np.uint64) >> np.uint64(_HASH_BITS - _KEPT_BITS)).astype("<u4")
    return base64.b64encode(kept.tobytes()).decode("ascii")


def unpack_samples(run: Run, record: Record) -> NDArray[Any] | None:
    """Return the kept digests (n,) of the samples of `record`, uint32; ``None`` when none were kept.

    Raises
    ------
    HistoryError : what was kept is damaged, or of another number of samples.
    """
    text = run.samples.get(record.digests.get("data", ""))
    return None if record.accuracy is None else unpack_digests(text, record.accuracy.n, record.nodeid)


def unpack_digests(text: str | None, n: int, nodeid: str) -> NDArray[Any] | None:
    """Return the digests of samples, uint32 (n,).

    Parameters
    ----------
    text : as a record keeps them, in base64; ``None`` when it keeps none, for which ``None`` is returned.
    n : number of samples.
    nodeid : of the test, for the message.

    Raises
    ------
    HistoryError : the text is damaged, or not of `n` samples.
    """
    if text is None:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _damaged(nodeid, str(error)) from error
    if len(raw) != _KEPT_BITS // 8 * n:
        raise _damaged(nodeid, f"{len(raw)} bytes for {n} samples")
    return np.frombuffer(raw, "<u4")


def gather_samples(run: Run, records: Sequence[Encoded]) -> tuple[Run, tuple[Encoded, ...]]:
    """Move what each record brings of its samples to the run, once for each evaluation data."""
    found = {
        one.record.digests["data"]: one.record.samples
        for one in records
        if one.record.samples is not None and "data" in one.record.digests
    }
    kept = tuple(Encoded(replace(one.record, samples=None), {**one.json, "samples": None}) for one in records)
    return replace(run, samples={**run.samples, **found}), kept


def _damaged(nodeid: str, value: str) -> HistoryError:
    return HistoryError(
        f"the digests kept of the samples of {nodeid} are damaged",
        value=value,
        allowed="four bytes for each sample, in base64",
        fix="run the test again, or remove its run from the history",
    )


def build_record(
    measured: Measured, *, status: Status, verdicts: Sequence[Verdict], hints: Sequence[Hint] = ()
) -> Encoded:
    """Return the record of a check that was measured and judged.

    Parameters
    ----------
    status : the worst of the verdicts.
    hints : what is worth trying about the broken limits, the best first.

    Raises
    ------
    UsageError : a figure of a metric or backend is neither a number nor a text; the message names it.
    """
    # Here, because it loads numpy, which the help of our commands can do without.

    latency = None if measured.latency is None else _figures(measured.latency)
    unmeasured = _unmeasured(measured.check, status, measured.accuracy.metric)
    return _normal(
        replace(
            unmeasured,
            batch_size=unmeasured.batch_size if latency is None else latency.batch_size,
            verdicts=tuple(verdicts),
            accuracy=measured.accuracy,
            latency=latency,
            coverage=measured.coverage,
            resources=measured.resources,
            cache=measured.cache,
            digests=measured.digests,
            samples=pack_samples(measured.sample_hashes) if measured.sample_hashes else None,
            notes=measured.notes,
            calibration_samples=measured.calibration_samples,
            threads=measured.threads,
            hints=tuple(hints),
        )
    )


def failed_record(check: Check, *, status: Status, message: str) -> Encoded:
    """Return the record of a check that could not be measured: sections are null, and no limit is judged.

    Parameters
    ----------
    check : what was asked.
    status : UNAVAILABLE or ERROR.
    message : the reason, in one or several lines.
    """
    return _normal(replace(_unmeasured(check, status, _metric_name(check.metric)), message=message))


def series_key(check: Check, metric: str | None) -> str:
    """Return the key of the records that may be compared: a JSON list, so that no two series share one.

    Node id without what our own lists add to it, model, backend, precision, scheme, batch size and the name of
    the metric that was computed. A check that never came to be has the one that its mark names, if any.
    """
    spec = check.candidate
    engine = (spec.model.name, spec.backend, spec.precision, spec.scheme)
    return json.dumps((check.series_nodeid, *engine, _batch_size(check), metric))


def _unmeasured(check: Check, status: Status, metric: str | None) -> Record:
    """Return the record with what the check itself says; sections that were not measured are ``None``."""
    spec = check.candidate
    return Record(
        nodeid=check.nodeid,
        model=spec.model.name,
        backend=spec.backend,
        precision=spec.precision,
        scheme=spec.scheme,
        batch_size=_batch_size(check),
        status=status,
        series=series_key(check, metric),
        reference=check.reference.id,
        metric=metric,
        confidence=check.confidence,
        calibration=spec.calibration.method if spec.scheme == "static" else None,
        isa=isa_tier(),
        latency_off=check.latency_off,
    )


def _normal(record: Record) -> Encoded:
    """Send the record through JSON once, so that what is kept, sent and shown are the same figures."""
    json_of_it = to_json(record)
    return Encoded(from_json(json_of_it), json_of_it)


def _batch_size(check: Check) -> int:
    return check.batch_size if check.latency is None else check.latency.batch_size


def _metric_name(metric: object | None) -> str | None:
    if metric is None or isinstance(metric, str):
        return metric
    name = getattr(metric, "name", None) or getattr(metric, "__name__", None)
    return name if isinstance(name, str) else type(metric).__name__


def _figures(latency: LatencyResult) -> LatencyFigures:
    engines = {"reference": latency.reference, "null": latency.null, "candidate": latency.candidate}
    return LatencyFigures(
        batch_size=latency.batch_size,
        rounds=latency.rounds,
        reference_p50_ms=latency.reference_p50_ms,
        candidate_p50_ms=latency.candidate_p50_ms,
        candidate_p90_ms=latency.candidate_p90_ms,
        candidate_p99_ms=latency.candidate_p99_ms,
        speedup=latency.speedup,
        speedup_ci=latency.speedup_ci,
        null_ratio_ci=latency.null_ratio_ci,
        half_width_pct=latency.half_width_pct,
        percentile_bounds=tuple(PercentileBound(*bound) for bound in latency.percentile_bounds_ms),
        reasons=latency.reasons,
        notes=latency.notes,
        round_p50_ms={name: _round_medians_ms(blocks) for name, blocks in engines.items()},
        repeat=None if latency.repeat is None else _figures(latency.repeat),
        reference_precision=latency.reference_precision,
        tf32=latency.tf32,
        clocks_locked=latency.clocks_locked,
        clock=latency.clock,
        host_reference_p50_ms=latency.host_reference_p50_ms,
        host_candidate_p50_ms=latency.host_candidate_p50_ms,
        host_speedup=latency.host_speedup,
        launches=latency.launches,
        confidence=latency.confidence,
        looks=latency.looks,
        session_sd=latency.session_sd,
        effective_rounds=latency.effective_rounds,
        widened=latency.widened,
    )


def _round_medians_ms(blocks: Blocks) -> tuple[float, ...]:
    """Median of each round in milliseconds with four digits; of many rounds, evenly spaced ones."""
    rounds = [runs for runs in blocks.runs_ns if runs]
    kept = rounds
    if len(rounds) > _MAX_ROUNDS_KEPT:
        step = (len(rounds) - 1) / (_MAX_ROUNDS_KEPT - 1)
        kept = [rounds[round(index * step)] for index in range(_MAX_ROUNDS_KEPT)]
    return tuple(float(f"{statistics.median(runs) / _NS_PER_MS:.4g}") for runs in kept)
