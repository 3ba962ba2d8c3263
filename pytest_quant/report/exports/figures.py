"""The figures of a check that other tools draw over time, each with its unit, its interval and its direction.

They are what the record holds: nothing is computed anew. A score has no interval of its own in a record, the drop has
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, Record, worst_of_workers
from pytest_quant.result import AccuracyResult, Better, Interval, Resources


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a check.

    Attributes
    ----------
    name : what it is, in one or two words.
    unit : of all its numbers; empty where it has none.
    better : which way it is better.
    value : the figure.
    low, high : its interval; ``None`` for a side that is not known.
    """

    name: str
    unit: str
    better: Better
    value: float
    low: float | None = None
    high: float | None = None


def figures_of(record: Record) -> tuple[Figure, ...]:
    """Return the figures of a check that were measured; none of a check that never came to be."""
    found: list[Figure | None] = []
    if record.latency is not None:
        found += _of_latency(record.latency)
    if record.accuracy is not None:
        found += _of_accuracy(record.accuracy)
    if record.coverage is not None:
        found.append(_figure("coverage", "%", "higher", record.coverage.pct))
    if record.resources is not None:
        found += _of_resources(record.resources)
    return tuple(one for one in found if one is not None)


def _of_latency(latency: LatencyFigures) -> Iterator[Figure | None]:
    bound = latency.bound_of(50.0)
    low, high = (None, None) if bound is None else (bound.low_ms, bound.high_ms)
    yield _figure("latency", "ms", "lower", latency.candidate_p50_ms, low, high)
    yield _figure("speedup", "x", "higher", latency.speedup, *_ends(latency.speedup_ci))


def _of_accuracy(accuracy: AccuracyResult) -> Iterator[Figure | None]:
    unit = accuracy.unit or ""
    if accuracy.better is not None:
        yield _figure("score", clean(unit), accuracy.better, accuracy.candidate)
        yield _figure("drop", "pp" if unit == "%" else clean(unit), "lower", accuracy.drop, *_ends(accuracy.drop_ci))
    yield _figure("agreement", "%", "higher", accuracy.agreement_pct)
    yield _figure("SQNR", "dB", "higher", accuracy.sqnr_db)


def _of_resources(resources: Resources) -> Iterator[Figure | None]:
    yield _figure("size", "MB", "lower", resources.size_mb)
    yield _figure("memory", "MB", "lower", resources.peak_memory_mb)
    yield _figure("build time", "s", "lower", resources.build_s)
    yield _figure("energy", "mJ", "lower", resources.energy_mj, *_ends(resources.energy_mj_ci))


def _figure(
    name: str, unit: str, better: Better, value: float | None, low: float | None = None, high: float | None = None
) -> Figure | None:
    known = finite(value)
    return None if known is None else Figure(name, unit, better, known, finite(low), finite(high))


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def finite(value: float | None) -> float | None:
    """Return a number that every format can hold; ``None`` for what was not measured, and for NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None


def check_name(record: Record) -> str:
    """Return the name under which other tools keep a check: its test, model and engine, on one line."""
    return clean(f"{record.nodeid} {record.model} {record.engine_id}")


def one_each(records: Iterable[Record], key: Callable[[Record], Hashable] = check_name) -> list[Record]:
    """Return one record for each check: the worst of several workers, the last of several with one `key`."""
    chosen = worst_of_workers(records, record_of=lambda one: one, test_of=lambda one: one.nodeid)
    return list({key(one): one for one in chosen}.values())
