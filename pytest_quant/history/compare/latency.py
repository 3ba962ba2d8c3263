"""Latency at base and head, launch by launch, within one identity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.family import Draft
from pytest_quant.history.compare.launches import (
    FEWEST_LAUNCHES,
    MIN_CHANGE_PCT,
    Launches,
    as_log,
    difference,
    launches_of,
    mean_change,
    pace,
    percent,
)
from pytest_quant.history.compare.machines import by_identity, describe_machine
from pytest_quant.history.compare.moved import when_ratio_changed, when_ratio_held
from pytest_quant.history.compare.pairing import Pair, measured
from pytest_quant.history.compare.start import row_of, worse_or_better
from pytest_quant.result import Interval
from pytest_quant.stats.welch import MeanDifference

RESOLVED_PCT = 5.0
"""A comparison that could not have seen a slowdown of so much is inconclusive."""


def compare_latency(pair: Pair) -> Iterator[Draft]:
    """Yield a row for each identity that both sides have, or one that says why there is none."""
    timed = [[one for one in side if one.record.latency is not None] for side in (pair.base, pair.head)]
    if not all(timed):
        yield from _not_timed(pair, bool(timed[0]), bool(timed[1]))
        return
    bases, heads = by_identity(timed[0]), by_identity(timed[1])
    common = sorted(bases.keys() & heads.keys())
    if not common:
        row = row_of(pair, timed[1][-1].record, "speedup")
        machines = f"{describe_machine(timed[0][-1])} -> {describe_machine(timed[1][-1])}"
        note = f"other machine, never compared: {machines}"
        yield Draft(replace(row, outcome=Outcome.NO_BASELINE, machine=describe_machine(timed[1][-1]), notes=(note,)))
    for identity in common:
        on_machine = Pair(pair.series, tuple(bases[identity]), tuple(heads[identity]))
        yield _on_one_machine(on_machine, launches_of(on_machine.base), launches_of(on_machine.head))


def _not_timed(pair: Pair, base_timed: bool, head_timed: bool) -> Iterator[Draft]:
    """Yield why there is nothing to compare, where only one side was timed and the other came to be."""
    record = pair.head[-1].record
    if base_timed and measured(record):
        why = record.latency_off or "it was not measured"
        yield Draft(replace(row_of(pair, record, "speedup"), outcome=Outcome.INCONCLUSIVE, notes=(f"head: {why}",)))
    if head_timed and measured(pair.base[-1].record):
        why = pair.base[-1].record.latency_off or "it was not measured"
        yield Draft(replace(row_of(pair, record, "speedup"), outcome=Outcome.NO_BASELINE, notes=(f"base: {why}",)))


def _on_one_machine(pair: Pair, base: Launches, head: Launches) -> Draft:
    ratio = all(side.speedup or not side.n for side in (base, head))
    was, now = (base.speedup, head.speedup) if ratio else (base.candidate, head.candidate)
    row = replace(
        _filled(row_of(pair, pair.head[-1].record, "speedup" if ratio else "p50"), was, now),
        unit="x" if ratio else "ms",
        better="higher" if ratio else "lower",
        base_launches=base.n,
        head_launches=head.n,
        candidate_change_pct=_percent_or_none(mean_change(base.candidate, head.candidate)),
        reference_change_pct=_percent_or_none(mean_change(base.reference, head.reference)),
        machine=describe_machine(pair.head[-1]),
        notes=tuple(_doubts(base, head)),
    )
    if not was or not now:
        return Draft(replace(row, outcome=Outcome.INCONCLUSIVE))
    found = difference(was, now)
    if found is not None:
        row = replace(row, interval=Interval(percent(found.low), percent(found.high)))
    if found is None or min(base.n, head.n) < FEWEST_LAUNCHES:
        return Draft(_advisory(row, base, head, ratio))
    return _tested(row, found, base, head, ratio)


def _filled(row: Row, was: tuple[float, ...], now: tuple[float, ...]) -> Row:
    """Add the geometric means over launches, and the change in percent."""
    change = mean_change(was, now)
    if change is None:
        return row
    means = [math.exp(math.fsum(side) / len(side)) for side in (was, now)]
    return replace(row, base=means[0], head=means[1], change=percent(change), change_unit="%")


def _percent_or_none(log_change: float | None) -> float | None:
    return None if log_change is None else percent(log_change)


def _doubts(base: Launches, head: Launches) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        if side.doubted:
            yield f"{side.doubted} of {side.n + side.doubted} launches of the {name} left out: their numbers are noise"


def _tested(row: Row, found: MeanDifference, base: Launches, head: Launches, ratio: bool) -> Draft:
    """Judge enough launches: the p value joins the family, and the diagnosis says what a rejection means."""
    gain = found.value if ratio else -found.value
    worst = found.low if ratio else -found.high
    candidate, reference = pace(base.candidate, head.candidate), pace(base.reference, head.reference)
    held = when_ratio_held(candidate, reference) if ratio else None
    tested = row = replace(row, p=found.p_value)
    if held is not None:
        row = replace(row, outcome=held.outcome, moved=held.moved, notes=(*row.notes, held.note))
    elif worst < -as_log(RESOLVED_PCT):
        note = f"a slowdown of {RESOLVED_PCT:g} % cannot be excluded: more launches, or a quieter machine"
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, note))
    if abs(gain) < as_log(MIN_CHANGE_PCT):
        return Draft(row)
    if not ratio:
        return Draft(row, replace(tested, outcome=worse_or_better(gain < 0.0, proven=True), moved="candidate"))
    told = when_ratio_changed(candidate, reference, worse=gain < 0.0)
    notes = (*tested.notes, told.note) if told.note else tested.notes
    return Draft(row, replace(tested, outcome=told.outcome, moved=told.moved, notes=notes))


def _advisory(row: Row, base: Launches, head: Launches, ratio: bool) -> Row:
    """Tell of a change that the launches' own intervals leave no doubt about, though launches differ by more."""
    note = f"advisory: {base.n} and {head.n} launches, {FEWEST_LAUNCHES} a side are needed to judge"
    row = replace(row, outcome=Outcome.INCONCLUSIVE, advisory=True, notes=(*row.notes, note))
    if not ratio or not base.spans or not head.spans:
        return row
    change = mean_change(base.speedup, head.speedup) or 0.0
    apart = _ends(base)[1] < _ends(head)[0] or _ends(head)[1] < _ends(base)[0]
    if not apart or abs(change) < as_log(RESOLVED_PCT):
        return row
    return replace(row, outcome=worse_or_better(change < 0.0, proven=False))


def _ends(side: Launches) -> tuple[float, float]:
    return min(low for low, _ in side.spans), max(high for _, high in side.spans)
