"""What deserves a line of its own below the table of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from pytest_quant.record import Record
from pytest_quant.report.columns import EXPECTED, word
from pytest_quant.report.text import clean, count, in_unit
from pytest_quant.result import Status

_MAX_LISTED = 10


def summary(records: Sequence[Record], expected: Collection[str] = ()) -> str:
    """Return counts per status, what did not run, what could not be told, what got better, and the cache's part.

    Empty without records. `expected` are the node ids of tests that failed as they were expected to.
    """
    if not records:
        return ""
    counts = Counter(word(record, expected) for record in records)
    words = (*(status.value for status in reversed(Status)), EXPECTED)
    told = ", ".join(f"{counts[one]} {one}" for one in words if counts[one])
    lines = [
        f"{count(len(records), 'check')}: {told}",
        *_unavailable(records),
        *_simulated(records),
        *_few(list(_open_limits(records))),
        *_few(list(_doubts(records))),
        *_few(list(_without_limits(records))),
        *_few(list(_better(records))),
        *_cache(records),
    ]
    return "\n".join(lines)


def name_of(record: Record) -> str:
    """Return ``digits ort-int8-static``, safe to print."""
    return clean(f"{record.model} {record.engine_id}")


def _few(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED
    return lines if more <= 0 else [*lines[:_MAX_LISTED], f"... and {more} more of these"]


def _unavailable(records: Sequence[Record]) -> Iterator[str]:
    """One line for each reason, because a runtime that is missing is missing for many checks."""
    reasons = Counter(record.message for record in records if record.status is Status.UNAVAILABLE)
    for message, number in reasons.items():
        first, *rest = message.splitlines() or [""]
        told = "; ".join(clean(line.strip()) for line in (first, *rest))
        yield f"UNAVAILABLE: {count(number, 'check')} NOT RUN: {told}"


def _simulated(records: Sequence[Record]) -> Iterator[str]:
    """One line for all of them: a PASS of a simulation is not one of a device."""
    number = sum(record.accuracy is not None and record.accuracy.simulated for record in records)
    if number:
        yield f"SIMULATED: {count(number, 'check')} judged by float simulation; nothing of them ran on the device"


def _open_limits(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        for verdict in record.verdicts or ():
            if verdict.status in (Status.INCONCLUSIVE, Status.NO_BASELINE):
                yield f"{verdict.status.value}: {name_of(record)}: {clean(verdict.limit)}: {clean(verdict.reason)}"


def _doubts(records: Sequence[Record]) -> Iterator[str]:
    """Explain the question marks of the table, where no limit did."""
    for record in records:
        judged = any(verdict.status is Status.INCONCLUSIVE for verdict in record.verdicts or ())
        if record.latency is not None and record.latency.reasons and not judged:
            yield f"timing not to be trusted (?): {name_of(record)}: {clean('; '.join(record.latency.reasons))}"


def _without_limits(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if record.verdicts is None:
            continue
        judged = {verdict.limit for verdict in record.verdicts}
        if all(verdict.implicit for verdict in record.verdicts):
            beside = " beside coverage" if "min_coverage" in judged else ""
            yield f"no limit set{beside}: {name_of(record)}"


def _better(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        found = record.accuracy
        if found is not None and found.drop is not None and found.drop < 0.0:
            scores = f"{in_unit(found.reference, found.unit)} -> {in_unit(found.candidate, found.unit)}"
            told = clean(f"{found.metric} {scores} {found.unit or ''}".rstrip())
            yield f"better than FP32: {name_of(record)}: {told}"


def _cache(records: Sequence[Record]) -> Iterator[str]:
    used = [record.cache for record in records if record.cache is not None]
    if not used:
        return
    engines, references = (Counter(cache.get(what) for cache in used) for what in ("engine", "reference"))
    yield (
        f"{count(engines['built'], 'engine')} built, {engines['hit']} from cache; "
        f"{count(references['built'], 'reference')} evaluated, {references['hit']} from cache"
    )
