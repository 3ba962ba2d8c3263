"""Two commits compared, series by series: pure functions on records, without a database and without git."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.compare.accuracy_change import compare_accuracy
from pytest_quant.history.compare.comparison import Comparison, Outcome, Row
from pytest_quant.history.compare.facts import compare_exact, compare_statuses, explain_row
from pytest_quant.history.compare.latency_change import Machine, compare_latency, machines_of
from pytest_quant.history.compare.pairing import Draft, Pair, is_measured, judge, pair
from pytest_quant.history.rows import StoredCheck, way_of_timing
from pytest_quant.history.shards import Unreported
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.metrics.answers import answers_of
from pytest_quant.record import Run


def compare(
    base: Sequence[StoredCheck],
    head: Sequence[StoredCheck],
    *,
    accepted: Mapping[str, BaselineEntry] | None = None,
    earlier: Sequence[CheckSummary] = (),
    strict: bool = False,
    full_suite: bool | None = None,
    about: tuple[str, ...] = (),
    unreported: Unreported | None = None,
    runs: Sequence[Run] = (),
) -> Comparison:
    """Compare all launches of one commit with all launches of another.

    Parameters
    ----------
    base, head : every record of every run of the commit, oldest first; one run of pytest is one launch.
    accepted : entries of the file of baselines by series, of values accepted after the base and of removed tests, see
        `accepted_since`.
    earlier : summaries of all series in the commits before the base, oldest first, which tell how launches and days
        differ; without any, a difference between two days is proven only where it is large.
    strict, about, unreported : see `Comparison`.
    runs : see `pair`.
    full_suite : the head ran every test; ``None`` if its runs say so.
    """
    unreported = unreported or Unreported()
    pairs, comparison = pair(base, head, runs, whole=full_suite)
    by_series = {each.series: each for each in pairs}
    accepted = accepted or {}
    reasons = {key: entry.reason for key, entry in accepted.items() if entry.removed}
    machines = machines_of(pairs, earlier)
    judged = judge([draft for each in pairs for draft in _drafts(each, machines)])
    rows = [_apply_accepted(row, by_series[row.series], accepted.get(row.series)) for row in judged]
    return replace(
        comparison.replace_rows(explain_row(row, by_series[row.series]) for row in rows),
        removed=tuple(
            replace(listed, accepted=reasons.get(listed.series, ""))
            for listed in comparison.removed
            if listed.nodeid not in unreported.tests
        ),
        notes=tuple(_notes(base, head, comparison)),
        strict=strict,
        full_suite=not comparison.head.partial,
        about=about,
        unreported=unreported,
    )


def _drafts(pair: Pair, machines: Mapping[str, Machine]) -> Iterator[Draft]:
    yield Draft(compare_statuses(pair))
    yield from compare_accuracy(pair)
    yield from (Draft(row) for row in compare_exact(pair))
    yield from compare_latency(pair, machines)


def _notes(base: Sequence[StoredCheck], head: Sequence[StoredCheck], comparison: Comparison) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        if not side:
            yield f"the {name} has no records"
        told = Counter(check.passes for check in side if check.passes)
        yield from (f"the {name}, {count} record{'s' * (count > 1)}: {note}" for note, count in told.items())
        if any(check.run.dirty for check in side):
            yield f"the {name} was run with uncommitted changes"
        if (comparison.base if name == "base" else comparison.head).partial:
            yield f"the {name} ran a part of the suite"
        damaged = [check.run.id for check in side if check.record.accuracy and answers_of(check.record.accuracy).damage]
        if damaged:
            remedy = f"pytest-quant history prune --run {damaged[0]} removes the run"
            yield f"answers of the {name} are damaged, and not compared sample by sample: {remedy}"


_SAME = 1e-6
"""Relative difference between a value and the accepted one that is rounding."""

_LATENCY_PCT = 1.0
"""A latency within this of the accepted one is that one, or within its own interval where that is wider."""


def _apply_accepted(row: Row, pair: Pair, entry: BaselineEntry | None) -> Row:
    """Return the row of a regression as an accepted change if the head is no worse than the value in `entry`.

    A test that began to fail is never accepted: no failed record becomes a baseline.

    Parameters
    ----------
    row : of the comparison.
    pair : launches of its series.
    entry : value accepted after the base; ``None`` without one.
    """
    if entry is None or entry.removed or row.outcome is not Outcome.REGRESSION or not isinstance(row.head, int | float):
        return row
    allowed = _accepted_value(row, pair, entry)
    if allowed is None or not _is_within(row, row.head, allowed):
        return row
    note = f"accepted with {entry.commit[:12]} on {entry.accepted_at:%Y-%m-%d}: {entry.reason}"
    return replace(row, outcome=Outcome.ACCEPTED, notes=(*row.notes, note))


def _accepted_value(row: Row, pair: Pair, entry: BaselineEntry) -> float | None:
    """Return the accepted value of the row's quantity, ``None`` if the entry has no comparable value."""
    if row.quantity in ("speedup", "p50"):
        return _accepted_latency(row, pair, entry)
    if row.quantity in ("accuracy", "drop"):
        last = next(check.record for check in reversed(pair.head) if is_measured(check.record))
        if entry.data not in (None, last.digests.get("data")):
            return None
        return entry.candidate_score if row.quantity == "accuracy" else entry.drop
    return {"size": entry.size_mb, "coverage": entry.coverage_pct}.get(row.quantity)


def _accepted_latency(row: Row, pair: Pair, entry: BaselineEntry) -> float | None:
    machines = [
        (dict(check.run.environment.identity), way_of_timing(check.record.latency))
        for check in pair.head
        if check.record.latency is not None
    ]
    here = [figures for figures in entry.latency if (dict(figures.identity), figures.way) in machines]
    if len(here) != 1:
        return None
    return here[0].speedup if row.quantity == "speedup" else here[0].candidate_p50_ms


def _is_within(row: Row, head: float, allowed: float) -> bool:
    """Whether the head's value is no worse than the accepted one, by more than rounding, or noise for a latency."""
    share = _SAME
    if row.quantity in ("speedup", "p50"):
        half = 0.0 if row.interval is None else (row.interval.high - row.interval.low) / 2.0
        share = max(_LATENCY_PCT, half) / 100.0
    if math.isclose(head, allowed, rel_tol=share, abs_tol=_SAME):
        return True
    return head < allowed if row.better == "lower" else head > allowed
