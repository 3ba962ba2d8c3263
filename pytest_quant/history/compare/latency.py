"""Latency at base and head, compared over launches on machines of the same identity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pytest_quant.history.compare.comparison import Outcome, Row
from pytest_quant.history.compare.pairing import Draft, Pace, Pair, measured, when_ratio_changed, when_ratio_held
from pytest_quant.history.compare.status import row_of, worse_or_better
from pytest_quant.history.rows import StoredCheck, identity_of, way_of_timing
from pytest_quant.record import LatencyFigures
from pytest_quant.result import Interval
from pytest_quant.stats.ratio import MeanDifference, welch

_TELLING = ("gpu", "cpu", "isa", "cores")


def by_identity(launches: Iterable[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the launches by identity of their machine, in the given order."""
    groups: dict[str, list[StoredCheck]] = {}
    for one in launches:
        groups.setdefault(identity_of(one.run, one.record), []).append(one)
    return groups


def on_common_machines(pair: Pair) -> tuple[Pair, bool]:
    """Return the launches on machines that base and head share, and true; all launches, and false, without any."""
    base, head = by_identity(pair.base), by_identity(pair.head)
    common = base.keys() & head.keys()
    if not common:
        return pair, False
    sides = (
        tuple(one for one in side if identity_of(one.run, one.record) in common) for side in (pair.base, pair.head)
    )
    return Pair(pair.series, *sides), True


def describe_machine(launch: StoredCheck) -> str:
    """Return the recognizable parts of a machine's identity, the provider that ran, and what it was timed against."""
    identity = launch.run.environment.identity
    provider = launch.record.coverage.provider if launch.record.coverage else ""
    parts = [f"{identity[name]} cores" if name == "cores" else identity[name] for name in _TELLING if name in identity]
    return ", ".join([*parts, *([provider] if provider else []), *way_of_timing(launch.record.latency)])


FEWEST_LAUNCHES = 5
"""At base and at head each; with fewer, a latency is advisory."""

MIN_CHANGE_PCT = 1.0
"""A smaller change of a latency counts as none, however significant it is."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Natural logarithms of the latencies of base or head, one for each launch.

    Attributes
    ----------
    speedup : empty where a launch has no reference, as in records of other tools.
    spans : interval of the speedup within each launch, where it has one.
    doubted : number of launches that were left out because their figures are noise.
    """

    speedup: tuple[float, ...]
    candidate: tuple[float, ...]
    reference: tuple[float, ...]
    spans: tuple[tuple[float, float], ...]
    doubted: int

    @property
    def n(self) -> int:
        """Number of launches that count."""
        return len(self.candidate)


def launches_of(checks: Iterable[StoredCheck]) -> Launches:
    """Return the latencies of launches; one with a reason not to trust it is only counted as doubted."""
    latencies = [check.record.latency for check in checks if check.record.latency is not None]
    sound = [latency for latency in latencies if not latency.reasons and (latency.candidate_p50_ms or 0.0) > 0.0]
    ratios = list(_logs(latency.speedup for latency in sound))
    return Launches(
        speedup=tuple(ratios) if len(ratios) == len(sound) else (),
        candidate=tuple(_logs(latency.candidate_p50_ms for latency in sound)),
        reference=tuple(_logs(latency.reference_p50_ms for latency in sound)),
        spans=tuple(_spans(sound)),
        doubted=len(latencies) - len(sound),
    )


def percent(log_change: float) -> float:
    """Return a difference of logarithms as a relative change in percent."""
    return 100.0 * math.expm1(log_change)


def as_log(percentage: float) -> float:
    """Return a relative change in percent as a difference of logarithms."""
    return math.log1p(percentage / 100.0)


def difference(base: tuple[float, ...], head: tuple[float, ...]) -> MeanDifference | None:
    """Compare base and head by Welch's test; ``None`` for fewer than two launches of either."""
    return welch(base, head) if min(len(base), len(head)) >= 2 else None


def mean_change(base: tuple[float, ...], head: tuple[float, ...]) -> float | None:
    """Return mean(head) - mean(base), ``None`` where one has no launch."""
    return math.fsum(head) / len(head) - math.fsum(base) / len(base) if base and head else None


def pace(base: tuple[float, ...], head: tuple[float, ...]) -> Pace:
    """Return whether latencies, as logarithms, changed: by at least the minimum, with an interval that excludes 0."""
    change = difference(base, head)
    if change is None or change.low <= 0.0 <= change.high or abs(change.value) < as_log(MIN_CHANGE_PCT):
        return Pace.SAME
    return Pace.SLOWER if change.value > 0.0 else Pace.FASTER


def _logs(values: Iterable[float | None]) -> Iterator[float]:
    return (math.log(value) for value in values if value is not None and value > 0.0)


def _spans(sound: Iterable[LatencyFigures]) -> Iterator[tuple[float, float]]:
    for latency in sound:
        if latency.speedup_ci is not None and latency.speedup_ci.low > 0.0:
            yield math.log(latency.speedup_ci.low), math.log(latency.speedup_ci.high)


RESOLVED_PCT = 5.0
"""A comparison that cannot exclude a slowdown of this much is inconclusive."""


def compare_latency(pair: Pair) -> Iterator[Draft]:
    """Yield a row for each machine that base and head share, or one with the reason why there is none."""
    timed = [[one for one in side if one.record.latency is not None] for side in (pair.base, pair.head)]
    if not all(timed):
        yield from _not_timed(pair, bool(timed[0]), bool(timed[1]))
        return
    bases, heads = by_identity(timed[0]), by_identity(timed[1])
    common = sorted(bases.keys() & heads.keys())
    if not common:
        row = row_of(pair, timed[1][-1].record, "speedup")
        machines = f"{describe_machine(timed[0][-1])} -> {describe_machine(timed[1][-1])}"
        ways = [way_of_timing(side[-1].record.latency) for side in timed]
        what = "other machine" if ways[0] == ways[1] else "timed in another way"
        note = f"{what}, never compared: {machines}"
        yield Draft(replace(row, outcome=Outcome.NO_BASELINE, machine=describe_machine(timed[1][-1]), notes=(note,)))
    for identity in common:
        on_machine = Pair(pair.series, tuple(bases[identity]), tuple(heads[identity]))
        yield _on_one_machine(on_machine, launches_of(on_machine.base), launches_of(on_machine.head))


def _not_timed(pair: Pair, base_timed: bool, head_timed: bool) -> Iterator[Draft]:
    """Yield a row with the reason, where only one of base and head was timed and the other was measured."""
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
    change = difference(was, now)
    if change is not None:
        row = replace(row, interval=Interval(percent(change.low), percent(change.high)))
    if change is None or min(base.n, head.n) < FEWEST_LAUNCHES:
        return Draft(_advisory(row, base, head, ratio))
    return _tested(row, change, base, head, ratio)


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


def _tested(row: Row, change: MeanDifference, base: Launches, head: Launches, ratio: bool) -> Draft:
    """Return the row of enough launches: its p joins the family, and the diagnosis gives its outcome if rejected."""
    gain = change.value if ratio else -change.value
    worst = change.low if ratio else -change.high
    candidate, reference = pace(base.candidate, head.candidate), pace(base.reference, head.reference)
    held = when_ratio_held(candidate, reference) if ratio else None
    tested = row = replace(row, p=change.p_value)
    if held is not None:
        row = replace(row, outcome=held.outcome, moved=held.moved, notes=(*row.notes, held.note))
    elif worst < -as_log(RESOLVED_PCT):
        note = f"a slowdown of {RESOLVED_PCT:g} % cannot be excluded: more launches, or a quieter machine"
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, note))
    if abs(gain) < as_log(MIN_CHANGE_PCT):
        return Draft(row)
    if not ratio:
        return Draft(row, replace(tested, outcome=worse_or_better(gain < 0.0, proven=True), moved="candidate"))
    diagnosis = when_ratio_changed(candidate, reference, worse=gain < 0.0)
    notes = (*tested.notes, diagnosis.note) if diagnosis.note else tested.notes
    return Draft(row, replace(tested, outcome=diagnosis.outcome, moved=diagnosis.moved, notes=notes))


def _advisory(row: Row, base: Launches, head: Launches, ratio: bool) -> Row:
    """Return the row of too few launches: inconclusive, unless the intervals within launches show a clear change."""
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
