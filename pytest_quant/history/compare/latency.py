"""Latency at base and head, compared over launches on machines of the same identity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from pytest_quant.history.compare.comparison import Moved, Outcome, Row, worse_or_better
from pytest_quant.history.compare.machine import Launches, Machine, by_identity, launches_of, mean_change
from pytest_quant.history.compare.pairing import Draft, Pair, measured, row_of
from pytest_quant.history.noise import LatencyNoise
from pytest_quant.history.rows import StoredCheck, identity_of, way_of_timing
from pytest_quant.result import Interval, LaunchNoise
from pytest_quant.stats.launch_difference import ASSUMED, LaunchDifference, difference
from pytest_quant.stats.launches import Launch


class Pace(StrEnum):
    """An engine's latency at the head relative to that at the base."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What two latencies tell; `note` is a sentence, or empty."""

    outcome: Outcome
    moved: Moved
    note: str = ""


def when_ratio_changed(candidate: Pace, reference: Pace, *, worse: bool, told_apart: bool) -> Diagnosis:
    """Return the diagnosis of a proven change of the speedup.

    A speedup that is worse only because the reference became faster is no regression of the candidate, and one that is
    better only because the reference became slower is no improvement. But a candidate that became slower on a machine
    that became faster looks the same, so that this is said only beside what the whole machine did.

    Parameters
    ----------
    candidate, reference : change of each engine's own latency, less that of the machine where it is known.
    worse : the speedup fell.
    told_apart : it is known what the machine did.
    """
    lost, gained = (Pace.SLOWER, Pace.FASTER) if worse else (Pace.FASTER, Pace.SLOWER)
    if reference is gained and candidate is not lost and not told_apart:
        outcome = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
        note = f"the reference became {gained}, or the machine did: {_TOO_FEW_SERIES}"
        return Diagnosis(outcome, "", note)
    if reference is gained and candidate is not lost:
        note = f"the reference became {gained}, and the candidate did not become {lost}"
        return Diagnosis(Outcome.CHANGED, "reference", note)
    outcome = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if candidate is not lost:
        return Diagnosis(outcome, "", "neither engine alone moved by more than its noise; their ratio did")
    if reference is Pace.SAME:
        return Diagnosis(outcome, "candidate")
    return Diagnosis(outcome, "both", f"the candidate became {candidate}, and the reference {reference}")


def when_ratio_held(candidate: Pace, reference: Pace, *, told_apart: bool) -> Diagnosis | None:
    """Return the diagnosis where both engines changed alike, which the speedup does not show; else ``None``.

    Parameters
    ----------
    candidate, reference, told_apart : as in `when_ratio_changed`.
    """
    if candidate is reference and candidate is not Pace.SAME:
        whose = "other series did not: the model, or the runtime" if told_apart else "the machine, or the runtime"
        return Diagnosis(Outcome.CHANGED, "both", f"both became {candidate} alike: {whose}")
    return None


_TOO_FEW_SERIES = "too few series on this machine to tell"


_TELLING = ("gpu", "cpu", "isa", "cores")


def on_common_machines(pair: Pair) -> tuple[Pair, bool]:
    """Return the launches on machines that base and head share, and true; all launches, and false, without any."""
    base, head = by_identity(pair.base), by_identity(pair.head)
    common = base.keys() & head.keys()
    if not common:
        return pair, False
    sides = (
        tuple(check for check in side if identity_of(check.run, check.record) in common)
        for side in (pair.base, pair.head)
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


def percent(log_change: float) -> float:
    """Return a difference of logarithms as a relative change in percent."""
    return 100.0 * math.expm1(log_change)


def as_log(percentage: float) -> float:
    """Return a relative change in percent as a difference of logarithms."""
    return math.log1p(percentage / 100.0)


def pace(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, shift: float = 0.0) -> Pace:
    """Return whether an engine's latency changed: by at least the minimum, with an interval that excludes none.

    Parameters
    ----------
    base, head : natural logarithms of the engine's latencies.
    noise : of its launches.
    shift : change that the whole machine had, which is taken off.
    """
    if not base or not head:
        return Pace.SAME
    change = beyond(shift, base, head, noise)
    if change.low <= 0.0 <= change.high or abs(change.value) < as_log(MIN_CHANGE_PCT):
        return Pace.SAME
    return Pace.SLOWER if change.value > 0.0 else Pace.FASTER


def beyond(shift: float, base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise) -> LaunchDifference:
    """Return the difference of head and base less `shift`, see `pytest_quant.stats.launches.difference`."""
    return difference(base, [replace(launch, value=launch.value - shift) for launch in head], noise)


RESOLVED_PCT = 5.0
"""A comparison that cannot exclude a slowdown of this much is inconclusive."""


def compare_latency(pair: Pair, machines: Mapping[str, Machine]) -> Iterator[Draft]:
    """Yield the rows for each machine that base and head share, or one with the reason why there is none.

    Parameters
    ----------
    pair : launches of one series.
    machines : what the series on each machine share, by its identity.
    """
    timed = [[check for check in side if check.record.latency is not None] for side in (pair.base, pair.head)]
    if not all(timed):
        yield from _not_timed(pair, bool(timed[0]), bool(timed[1]))
        return
    bases, heads = by_identity(timed[0]), by_identity(timed[1])
    common = sorted(bases.keys() & heads.keys())
    if not common:
        row = row_of(pair, timed[1][-1].record, "speedup")
        machines_told = f"{describe_machine(timed[0][-1])} -> {describe_machine(timed[1][-1])}"
        ways = [way_of_timing(side[-1].record.latency) for side in timed]
        what = "other machine" if ways[0] == ways[1] else "timed in another way"
        note = f"{what}, never compared: {machines_told}"
        yield Draft(replace(row, outcome=Outcome.NO_BASELINE, machine=describe_machine(timed[1][-1]), notes=(note,)))
    for identity in common:
        on_machine = Pair(pair.series, tuple(bases[identity]), tuple(heads[identity]))
        yield from _on_one_machine(on_machine, machines.get(identity, Machine()))


def _not_timed(pair: Pair, base_timed: bool, head_timed: bool) -> Iterator[Draft]:
    """Yield a row with the reason, where only one of base and head was timed and the other was measured."""
    record = pair.head[-1].record
    if base_timed and measured(record):
        why = record.latency_off or "it was not measured"
        yield Draft(replace(row_of(pair, record, "speedup"), outcome=Outcome.INCONCLUSIVE, notes=(f"head: {why}",)))
    if head_timed and measured(pair.base[-1].record):
        why = pair.base[-1].record.latency_off or "it was not measured"
        yield Draft(replace(row_of(pair, record, "speedup"), outcome=Outcome.NO_BASELINE, notes=(f"base: {why}",)))


@dataclass(frozen=True, slots=True)
class _LatencySides:
    """Base and head of one series on one machine."""

    base: Launches
    head: Launches
    noise: LatencyNoise
    machine: Machine

    @property
    def enough(self) -> bool:
        return min(self.base.n, self.head.n) >= FEWEST_LAUNCHES

    def paces(self) -> tuple[Pace, Pace]:
        """What candidate and reference did beside the whole machine."""
        shift = self.machine.shift or 0.0
        return (
            pace(self.base.candidate, self.head.candidate, self.noise.candidate, shift),
            pace(self.base.reference, self.head.reference, self.noise.reference, shift),
        )


def _on_one_machine(pair: Pair, machine: Machine) -> Iterator[Draft]:
    base, head = launches_of(pair.base, pair.head)
    sides = _LatencySides(base, head, machine.noise_of(pair.series, base, head), machine)
    ratio = all(side.speedup or not side.n for side in (base, head))
    yield _row_of_ratio(pair, sides) if ratio else _row_of_time(pair, sides)
    if ratio and sides.enough and machine.shift is not None:
        yield _row_of_time(pair, sides)


def _begun(
    pair: Pair, sides: _LatencySides, quantity: Literal["speedup", "p50"]
) -> tuple[Row, LaunchDifference | None]:
    """Return the row with all that is told of any change, and the change; ``None`` without a launch of both."""
    base, head, ratio = sides.base, sides.head, quantity == "speedup"
    was, now = (base.speedup, head.speedup) if ratio else (base.candidate, head.candidate)
    row = replace(
        _filled(row_of(pair, pair.head[-1].record, quantity), was, now),
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
        return replace(row, outcome=Outcome.INCONCLUSIVE), None
    change = difference(was, now, sides.noise.speedup if ratio else sides.noise.candidate)
    if change.freedom and not change.assumed:
        row = replace(row, interval=Interval(percent(change.low), percent(change.high)))
    elif change.assumed:
        row = replace(row, notes=(*row.notes, _assumed(was, now)))
    return row, change


def _assumed(base: Sequence[Launch], head: Sequence[Launch]) -> str:
    """Say what is not known, and what is assumed in its place."""
    share = {launch.day for launch in base} & {launch.day for launch in head}
    what = "how launches of one day" if share else "base and head share no day, and how days"
    return f"{what} differ here is not known yet: {100.0 * ASSUMED.sd:g} % are assumed"


def _row_of_ratio(pair: Pair, sides: _LatencySides) -> Draft:
    row, change = _begun(pair, sides, "speedup")
    if change is None:
        return Draft(row)
    if not sides.enough:
        return Draft(_advisory(row, sides.base, sides.head, ratio=True))
    tested = replace(row, p=change.p_value)
    candidate, reference = sides.paces()
    held = when_ratio_held(candidate, reference, told_apart=sides.machine.shift is not None)
    machine_moved = abs(sides.machine.shift or 0.0) >= as_log(MIN_CHANGE_PCT)
    if held is not None:
        row = replace(tested, outcome=held.outcome, moved=held.moved, notes=(*row.notes, held.note))
    elif change.low < -as_log(RESOLVED_PCT):
        row = replace(tested, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    else:
        row = replace(tested, notes=(*row.notes, _whole_machine(sides.machine))) if machine_moved else tested
    if abs(change.value) < as_log(MIN_CHANGE_PCT):
        return Draft(row)
    diagnosis = when_ratio_changed(
        candidate, reference, worse=change.value < 0.0, told_apart=sides.machine.shift is not None
    )
    notes = [*tested.notes, *([diagnosis.note] if diagnosis.note else [])]
    if machine_moved:
        notes.append(_whole_machine(sides.machine))
    return Draft(row, replace(tested, outcome=diagnosis.outcome, moved=diagnosis.moved, notes=tuple(notes)))


_UNRESOLVED = f"a slowdown of {RESOLVED_PCT:g} % cannot be excluded: more launches, or a quieter machine"


def _row_of_time(pair: Pair, sides: _LatencySides) -> Draft:
    """Return the row of the candidate's own time, less what the whole machine moved where that is known."""
    row, change = _begun(pair, sides, "p50")
    if change is None:
        return Draft(row)
    if not sides.enough:
        return Draft(_advisory(row, sides.base, sides.head, ratio=False))
    shift = sides.machine.shift or 0.0
    own = beyond(shift, sides.base.candidate, sides.head.candidate, sides.noise.candidate)
    notes = row.notes
    if abs(shift) >= as_log(MIN_CHANGE_PCT):
        notes = (*notes, f"{_whole_machine(sides.machine)}, this candidate by {percent(own.value):+.1f} % more")
    row = replace(row, p=own.p_value, notes=notes)
    changed = replace(row, outcome=worse_or_better(own.value > 0.0, proven=True), moved="candidate")
    if own.high > as_log(RESOLVED_PCT):
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    return Draft(row, changed if abs(own.value) >= as_log(MIN_CHANGE_PCT) else None)


def _whole_machine(machine: Machine) -> str:
    return f"all series on this machine moved by {percent(machine.shift or 0.0):+.1f} %"


def _filled(row: Row, was: Sequence[Launch], now: Sequence[Launch]) -> Row:
    """Add the geometric means over launches, and the change in percent."""
    change = mean_change(was, now)
    if change is None:
        return row
    means = [math.exp(math.fsum(launch.value for launch in side) / len(side)) for side in (was, now)]
    return replace(row, base=means[0], head=means[1], change=percent(change), change_unit="%")


def _percent_or_none(log_change: float | None) -> float | None:
    return None if log_change is None else percent(log_change)


def _doubts(base: Launches, head: Launches) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        if side.doubted:
            yield f"{side.doubted} of {side.n + side.doubted} launches of the {name} left out: their numbers are noise"


def _advisory(row: Row, base: Launches, head: Launches, *, ratio: bool) -> Row:
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
