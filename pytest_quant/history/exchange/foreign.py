"""Results of other benchmark tools as runs whose records have a latency only.

==================  ================================================  ==============================================
here                pytest-benchmark, ``--benchmark-json``            asv, ``results/MACHINE/COMMIT-ENVIRONMENT.json``
==================  ================================================  ==============================================
run id              its time and a digest of the file                 its time and a digest of the file
started_at          ``datetime``                                      ``date`` of the commit: asv measures old
                                                                      commits late, and a series is in their order
commit, branch      ``commit_info`` ``id``, ``branch``                ``commit_hash``, none
dirty               ``commit_info.dirty``                             never
identity            ``machine_info``: cpu, cores, os, arch            ``params``: cpu, num_cpu, os, arch
context             Python and its implementation                     Python, requirements, environment
nodeid              ``fullname``                                      the benchmark, and the parameters in brackets
backend             ``pytest-benchmark``                              ``asv``
candidate p50       ``stats.median``, seconds                         ``result``, seconds, of ``time_`` benchmarks
round medians       ``stats.data``, evenly spaced                     ``samples``, evenly spaced
==================  ================================================  ==============================================

There is no reference, so no speedup; model is ``-``, precision ``unknown``, status PASS as nothing was judged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from pytest_quant.errors import HistoryError
from pytest_quant.record import LatencyFigures, Record, Run
from pytest_quant.result import Status

MS_PER_S = 1e3

_MOST_ROUNDS = 40


def foreign_run(document: object) -> tuple[Run, tuple[Record, ...]] | None:
    """Return the run in a document of pytest-benchmark or asv; ``None`` for any other document.

    Raises
    ------
    HistoryError : it is one of them, and a field is missing or has the wrong type.
    """
    if not isinstance(document, dict):
        return None
    if "machine_info" in document and "benchmarks" in document:
        # Here, like asv below, because each run reads this module, and few import another tool's results.
        from pytest_quant.history.exchange import pytest_benchmark

        return pytest_benchmark.read(document)
    if "result_columns" in document and "commit_hash" in document:
        from pytest_quant.history.exchange import asv

        return asv.read(document)
    return None


def timed_record(tool: str, nodeid: str, median_s: float, rounds: int, samples_s: Sequence[float]) -> Record:
    """Return a record of one benchmark.

    Parameters
    ----------
    tool : name of the tool, which becomes the backend.
    nodeid : of the benchmark.
    median_s : in seconds.
    rounds : number of timings.
    samples_s : the single timings in seconds, empty where the file does not have them.
    """
    return Record(
        nodeid=nodeid,
        model="-",
        backend=tool,
        precision="unknown",
        scheme=None,
        batch_size=1,
        status=Status.PASS,
        series=json.dumps((nodeid, "-", tool, "unknown", None, 1, None)),
        reference="-",
        verdicts=(),
        latency=LatencyFigures(
            batch_size=1,
            rounds=rounds,
            reference_p50_ms=None,
            candidate_p50_ms=median_s * MS_PER_S,
            candidate_p90_ms=None,
            candidate_p99_ms=None,
            speedup=None,
            speedup_ci=None,
            null_ratio_ci=None,
            half_width_pct=None,
            round_p50_ms={"candidate": _spaced_ms(samples_s)} if samples_s else {},
        ),
        notes=(f"imported from {tool}",),
    )


def run_id(started: datetime, document: object) -> str:
    """Return an id that sorts by time and is the same for the same file."""
    content = json.dumps(document, sort_keys=True).encode()
    return f"{started:%Y%m%dT%H%M%SZ}-{hashlib.sha256(content).hexdigest()[:12]}"


def utc_of_text(text: str) -> datetime:
    """Return a time in UTC from ISO 8601; without a zone it is UTC. Raises `HistoryError`."""
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError) as error:
        raise HistoryError("a time cannot be read", value=text[:80], allowed="ISO 8601") from error


def utc_of_ms(since_1970_ms: float) -> datetime:
    """Return a time in UTC from milliseconds since 1970. Raises `HistoryError`."""
    try:
        return datetime.fromtimestamp(since_1970_ms / MS_PER_S, UTC).replace(microsecond=0)
    except (ValueError, OverflowError, OSError) as error:
        raise HistoryError("a time cannot be read", value=str(since_1970_ms), allowed="ms since 1970") from error


def _spaced_ms(samples_s: Sequence[float]) -> tuple[float, ...]:
    """Return at most `_MOST_ROUNDS` evenly spaced samples in milliseconds, with four digits."""
    kept = list(samples_s)
    if len(kept) > _MOST_ROUNDS:
        step = (len(kept) - 1) / (_MOST_ROUNDS - 1)
        kept = [kept[round(index * step)] for index in range(_MOST_ROUNDS)]
    return tuple(float(f"{sample_s * MS_PER_S:.4g}") for sample_s in kept)
