"""Launches of one commit, made from one record."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison, Row
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record
from pytest_quant.result import Better, Environment, Interval, Status
from pytest_quant.spec import SeriesKey
from tests.unit.record.examples import ACCURACY, RUN, a_record, with_latency

N = 400


def key(nodeid: str = "tests/test_digits.py::test_int8", metric: str | None = "top1") -> str:
    """The series key of a test."""
    return SeriesKey(nodeid, "digits", "ort", "int8", "static", 1, metric).text


def packed(right: Iterable[bool]) -> str:
    """Bits as a record keeps them."""
    return base64.b64encode(zlib.compress(np.packbits(list(right)).tobytes())).decode()


def answers(wrong: Iterable[int] = (), n: int = N) -> list[bool]:
    """All right but the samples named."""
    missed = set(wrong)
    return [index not in missed for index in range(n)]


def answered(record: Record, right: Sequence[bool], better: Better = "higher") -> Record:
    """The record with these answers, and the score they give."""
    share = sum(right) / len(right)
    score = 100.0 * (share if better == "higher" else 1.0 - share)
    bits = packed(right)
    result = replace(ACCURACY, n=len(right), candidate=score, better=better, candidate_correct=bits, drop=97.78 - score)
    return replace(record, accuracy=result)


def timed(record: Record, candidate_ms: float, reference_ms: float = 1.0, width: float = 0.01) -> Record:
    """The record with these medians; `width` is the half-width of the speedup's interval as a share of it."""
    speedup = reference_ms / candidate_ms
    span = Interval(speedup * (1.0 - width), speedup * (1.0 + width))
    medians = {"candidate_p50_ms": candidate_ms, "reference_p50_ms": reference_ms}
    return with_latency(record, speedup=speedup, speedup_ci=span, **medians)


def record_of(nodeid: str = "tests/test_digits.py::test_int8", *, latency: bool = False) -> Record:
    """A record of the test `nodeid` that answers everything rightly."""
    record = replace(a_record(), nodeid=nodeid, series=key(nodeid), status=Status.PASS)
    record = answered(record, answers())
    return record if latency else replace(record, latency=None)


def launch(*records: Record, run: str = "1", commit: str = "base", cpu: str = "Some CPU") -> list[StoredCheck]:
    """One run of pytest with these records."""
    environment = Environment({**RUN.environment.identity, "cpu": cpu}, RUN.environment.context)
    started = replace(RUN, id=f"{commit}-{run}", commit=commit, environment=environment)
    return [StoredCheck(started, record) for record in records]


def launches(records: Iterable[Record], commit: str = "base", cpu: str = "Some CPU") -> list[StoredCheck]:
    """One run of pytest for each record."""
    result = enumerate(records)
    return [each for index, record in result for each in launch(record, run=str(index), commit=commit, cpu=cpu)]


def between(base: Record, head: Record) -> Comparison:
    """Compare one launch of each."""
    return compare(launch(base), launch(head, commit="head"))


def row(comparison: Comparison, quantity: str) -> Row:
    """The only row of a quantity."""
    (result,) = (each for each in comparison.rows if each.quantity == quantity)
    return result


def changed(comparison: Comparison) -> set[tuple[str, str]]:
    """Quantity and outcome of every changed row."""
    return {(each.quantity, each.outcome.value) for each in comparison.changed}
