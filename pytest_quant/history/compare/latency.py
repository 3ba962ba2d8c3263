"""Latency at base and head, compared over launches on machines of the same identity."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_quant.history.baselines.launches import CANDIDATE, REFERENCE, SPEEDUP, LatencyNoise
from pytest_quant.history.compare.comparison import Moved, Outcome, Row, worse_or_better
from pytest_quant.history.compare.machine import Launches, Machine, by_identity, launches_of, mean_change
from pytest_quant.history.compare.pairing import Draft, Pair, measured, row_of
from pytest_quant.history.rows import StoredCheck, describe_identity, identity_of, way_of_timing
from pytest_quant.result import Interval, LaunchNoise
from pytest_quant.stats.launch_difference import ASSUMED, LaunchDifference, difference
from pytest_quant.stats.launches import Launch

_WORDS = {1: "slower", -1: "faster"}
"""What an engine's own latency did; 0 where it is the same."""


def when_ratio_changed(
    candidate: int, reference: int, *, worse: bool, told_apart: bool
) -> tuple[Outcome, Moved, tuple[str, ...]]:
    """Return outcome, the engine that moved, and notes, of a proven change of the speedup.

    A speedup that is worse only because the reference became faster is no regression of the candidate, and one that is
    better only because the reference became slower is no improvement. But a candidate that became slower on a machine
    that became faster looks the same, so that this is said only beside what the whole machine did.

    Parameters
    ----------
    candidate, reference : change of each engine's own latency, less that of the machine where it is known: 1 for
        slower, -1 for faster.
    worse : the speedup fell.
    told_apart : it is known what the machine did.
    """
    lost = 1 if worse else -1
    outcome = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if candidate == lost and reference == 0:
        return outcome, "candidate", ()
    if candidate == lost:
        return outcome, "both", (f"the candidate became {_WORDS[candidate]}, and the reference {_WORDS[reference]}",)
    if reference != -lost:
        return outcome, "", ("neither engine alone moved by more than its noise; their ratio did",)
    became = f"the reference became {_WORDS[reference]}"
    if told_apart:
        return Outcome.CHANGED, "reference", (f"{became}, and the candidate did not become {_WORDS[lost]}",)
    return outcome, "", (f"{became}, or the machine did: too few series on this machine to tell",)


def on_common_machines(pair: Pair) -> tuple[Pair, bool]:
    """Return the launches on machines that base and head share, and true; all launches, and false, without any.

    One of two passes was on both machines, with one engine.
    """
    base, head = ({machine for check in side for machine in _machines(check)} for side in (pair.base, pair.head))
    common = base & head
    if not common:
        return pair, False
    sides = (tuple(check for check in side if common & _machines(check)) for side in (pair.base, pair.head))
    return Pair(pair.series, *sides), True


def _machines(check: StoredCheck) -> set[str]:
    return {identity_of(each.run, each.record) for each in (check, check.first) if each is not None}


def describe_machine(launch: StoredCheck) -> str:
    """Return the recognizable parts of a machine's identity, the provider that ran, and what it was timed against."""
    provider = launch.record.coverage.provider if launch.record.coverage else ""
    described = describe_identity(launch.run.environment.identity)
    return ", ".join([*described, *([provider] if provider else []), *way_of_timing(launch.record.latency)])


FEWEST_LAUNCHES = 5
"""At base and at head each; with fewer, a latency is advisory."""

MIN_CHANGE_PCT = 1.0
"""A smaller change of a latency counts as none, however significant it is."""


def percent(log_change: float) -> float:
    """Return a difference of logarithms as a relative change in percent."""
    # Beyond it no float has the result; figures of others may be that large.
    return 100.0 * math.expm1(min(log_change, 700.0))


def as_log(percentage: float) -> float:
    """Return a relative change in percent as a difference of logarithms."""
    return math.log1p(percentage / 100.0)


def pace(base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise, shift: float = 0.0) -> int:
    """Return 1 where an engine became slower, -1 where it became faster, else 0.

    It did where that is at least the minimum, with an interval that excludes none.

    Parameters
    ----------
    base, head : natural logarithms of the engine's latencies.
    noise : of its launches.
    shift : change that the whole machine had, which is taken off.
    """
    if not base or not head:
        return 0
    change = _beyond(shift, base, head, noise)
    if change.low <= 0.0 <= change.high or abs(change.value) < as_log(MIN_CHANGE_PCT):
        return 0
    return 1 if change.value > 0.0 else -1


def _beyond(shift: float, base: Sequence[Launch], head: Sequence[Launch], noise: LaunchNoise) -> LaunchDifference:
    """Return the difference of head and base less `shift`."""
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
        row = row_of(pair, "speedup")
        machines_told = f"{describe_machine(timed[0][-1])} -> {describe_machine(timed[1][-1])}"
        ways = [way_of_timing(side[-1].record.latency) for side in timed]
        what = "other machine" if ways[0] == ways[1] else "timed in another way"
        note = f"{what}, never compared: {machines_told}"
        yield Draft(replace(row, outcome=Outcome.NO_BASELINE, machine=describe_machine(timed[1][-1]), notes=(note,)))
    for identity in common:
        yield from _on_one_machine(
            Pair(pair.series, tuple(bases[identity]), tuple(heads[identity])), machines[identity]
        )


def _not_timed(pair: Pair, base_timed: bool, head_timed: bool) -> Iterator[Draft]:
    """Yield a row with the reason, where only one of base and head was timed and the other was measured."""
    without = [("head", pair.head[-1].record, Outcome.INCONCLUSIVE)] if base_timed else []
    without += [("base", pair.base[-1].record, Outcome.NO_BASELINE)] if head_timed else []
    for side, record, outcome in without:
        if measured(record):
            note = f"{side}: {record.latency_off or 'it was not measured'}"
            yield Draft(replace(row_of(pair, "speedup"), outcome=outcome, notes=(note,)))


def _on_one_machine(pair: Pair, machine: Machine) -> Iterator[Draft]:
    """Yield the row of the speedup, and that of the candidate's own time where it is known what the machine did."""
    base, head = launches_of(pair.base, pair.head)
    noise = machine.noise_of(pair.series, base, head)
    row, change = _begun(row_of(pair, "speedup", unit="x", better="higher"), pair, base, head, noise)
    if change is None:
        yield Draft(row)
    elif min(base.n, head.n) < FEWEST_LAUNCHES:
        yield Draft(_advisory(row, base, head))
    else:
        was, now = base.figures, head.figures
        shift = machine.shift or 0.0
        paces = [pace(was[figure], now[figure], noise[figure], shift) for figure in (CANDIDATE, REFERENCE)]
        yield _judged_ratio(row, change, paces[0], paces[1], machine.shift)
        if machine.shift is not None:
            row, _ = _begun(row_of(pair, "p50", unit="ms", better="lower"), pair, base, head, noise)
            yield _judged_time(row, _beyond(shift, was[CANDIDATE], now[CANDIDATE], noise[CANDIDATE]), shift)


def _begun(
    row: Row, pair: Pair, base: Launches, head: Launches, noise: LatencyNoise
) -> tuple[Row, LaunchDifference | None]:
    """Return the row with all that is told of any change, and the change; ``None`` without a launch of both."""
    figure = SPEEDUP if row.quantity == "speedup" else CANDIDATE
    was, now = base.figures[figure], head.figures[figure]
    candidate, reference = (mean_change(base.figures[name], head.figures[name]) for name in (CANDIDATE, REFERENCE))
    row = replace(
        row,
        base_launches=base.n,
        head_launches=head.n,
        candidate_change_pct=None if candidate is None else percent(candidate),
        reference_change_pct=None if reference is None else percent(reference),
        machine=describe_machine(pair.head[-1]),
        notes=tuple(_doubts(base, head)),
    )
    mean = mean_change(was, now)
    if mean is None:
        return replace(row, outcome=Outcome.INCONCLUSIVE), None
    means = [math.exp(statistics.fmean(launch.value for launch in side)) for side in (was, now)]
    row = replace(row, base=means[0], head=means[1], change=percent(mean))
    change = difference(was, now, noise[figure])
    if change.assumed:
        share = {launch.day for launch in was} & {launch.day for launch in now}
        what = "how much launches of one day" if share else "base and head share no day, and how much days"
        note = f"{what} differ on this machine is not measured yet: {100.0 * ASSUMED.sd:g} % is assumed"
        row = replace(row, notes=(*row.notes, note))
    elif change.freedom:
        row = replace(row, interval=Interval(percent(change.low), percent(change.high)))
    return row, change


def _judged_ratio(row: Row, change: LaunchDifference, candidate: int, reference: int, shift: float | None) -> Draft:
    """Return the row of the speedup; `candidate` and `reference` are the changes of both, see `when_ratio_changed`."""
    tested = row = replace(row, p=change.p_value)
    whole_machine = _whole_machine(shift)
    if candidate == reference != 0:
        whose = "the machine, or the runtime" if shift is None else "other series did not: the model, or the runtime"
        note = f"both became {_WORDS[candidate]} alike: {whose}"
        row = replace(row, outcome=Outcome.CHANGED, moved="both", notes=(*row.notes, note))
    elif change.low < -as_log(RESOLVED_PCT):
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    else:
        row = replace(row, notes=(*row.notes, *whole_machine))
    if abs(change.value) < as_log(MIN_CHANGE_PCT):
        return Draft(row)
    outcome, moved, notes = when_ratio_changed(
        candidate, reference, worse=change.value < 0.0, told_apart=shift is not None
    )
    return Draft(row, replace(tested, outcome=outcome, moved=moved, notes=(*tested.notes, *notes, *whole_machine)))


_UNRESOLVED = f"a slowdown of {RESOLVED_PCT:g} % cannot be excluded: more launches, or a quieter machine"


def _judged_time(row: Row, own: LaunchDifference, shift: float) -> Draft:
    """Return the row of the candidate's own time; `own` is its change beside that of the whole machine."""
    notes = [f"{note}, this candidate by {percent(own.value):+.1f} % more" for note in _whole_machine(shift)]
    row = replace(row, p=own.p_value, notes=(*row.notes, *notes))
    changed = replace(row, outcome=worse_or_better(own.value > 0.0, proven=True), moved="candidate")
    if own.high > as_log(RESOLVED_PCT):
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    return Draft(row, changed if abs(own.value) >= as_log(MIN_CHANGE_PCT) else None)


def _whole_machine(shift: float | None) -> tuple[str, ...]:
    if abs(shift or 0.0) < as_log(MIN_CHANGE_PCT):
        return ()
    return (f"all series on this machine moved by {percent(shift or 0.0):+.1f} %",)


def _doubts(base: Launches, head: Launches) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        if side.doubted:
            yield f"{side.doubted} of {side.n + side.doubted} launches of the {name} not counted: timing in doubt"


def _advisory(row: Row, base: Launches, head: Launches) -> Row:
    """Return the row of too few launches: inconclusive, unless the intervals within launches show a clear change."""
    note = f"advisory: {base.n} and {head.n} launches, {FEWEST_LAUNCHES} a side are needed to judge"
    row = replace(row, outcome=Outcome.INCONCLUSIVE, advisory=True, notes=(*row.notes, note))
    if not base.spans or not head.spans or row.change is None:
        return row
    was, now = ((min(low for low, _ in side.spans), max(high for _, high in side.spans)) for side in (base, head))
    apart = was[1] < now[0] or now[1] < was[0]
    if not apart or abs(math.log1p(row.change / 100.0)) < as_log(RESOLVED_PCT):
        return row
    return replace(row, outcome=worse_or_better(row.change < 0.0, proven=False))
