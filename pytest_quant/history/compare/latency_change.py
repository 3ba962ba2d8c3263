"""Latency at base and head, compared over launches on machines of the same identity.

All series on one machine share how much launches and days differ there, and how far the machine itself moved: one that
is 5 % faster on the day of the head makes every engine 5 % faster. One reference cannot tell that from a change of its
own, but the median over all series can, which a few changed engines do not move.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_quant.history.baselines.launch_history import (
    CANDIDATE,
    FIGURES,
    NO_NOISE_KNOWN,
    REFERENCE,
    SPEEDUP,
    LatencyNoise,
    moderate,
    noise_by_machine,
    shared_noise,
)
from pytest_quant.history.compare.comparison import Moved, Outcome, Row, choose_outcome
from pytest_quant.history.compare.pairing import Draft, Pair, is_measured, row_of
from pytest_quant.history.rows import StoredCheck, describe_timing, group_items, identity_of, launches_in, way_of_timing
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.result import Interval
from pytest_quant.stats.launch_difference import ASSUMED, LaunchChange, LaunchDifference, percent
from pytest_quant.stats.launches import Launch, days_of, logs_of, noise_of

FEWEST_SERIES = 3
"""With fewer series on a machine its own shift cannot be told from a change of one of them."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Natural logarithms of the latencies of base or head, one for each launch.

    Attributes
    ----------
    figures : each of the `FIGURES`.
    spans : interval of the speedup within each record, where it has one.
    doubted : number of records that were left out because their figures are noise.
    """

    figures: Mapping[str, tuple[Launch, ...]]
    spans: tuple[tuple[float, float], ...]
    doubted: int

    @property
    def n(self) -> int:
        """Number of launches that count."""
        return len(self.figures[CANDIDATE])


@dataclass(frozen=True, slots=True)
class Machine:
    """What the series on one machine share.

    Attributes
    ----------
    sides : launches of base and head by series.
    changes : of each series in each of the `FIGURES`; their noise is that of base and head, of earlier commits, and of
        what all series have in common.
    shift : by how much its engines became slower from base to head, natural logarithm; ``None`` for too few series.
    """

    sides: Mapping[str, tuple[Launches, Launches]]
    changes: Mapping[str, Mapping[str, LaunchChange]]
    shift: float | None


def group_by_identity(launches: Iterable[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the launches that were timed by identity of their machine, in the given order."""
    timed = (launch for launch in launches if launch.record.latency is not None)
    return group_items(timed, lambda launch: identity_of(launch.run, launch.record))


def launches_of(base: Sequence[StoredCheck], head: Sequence[StoredCheck]) -> tuple[Launches, Launches]:
    """Return the latencies of launches of base and head, with days that are the same for both.

    A record with a reason not to trust it is only counted as doubted.
    """
    days = days_of(
        time
        for check in (*base, *head)
        for time in (check.run.started_at, *(launch.started_at for launch in launches_in(check)))
    )
    return _read(base, days), _read(head, days)


def machines_of(pairs: Iterable[Pair], earlier: Iterable[CheckSummary]) -> dict[str, Machine]:
    """Return the machines that base and head have in common, by identity.

    Parameters
    ----------
    pairs : of all series.
    earlier : summaries of all series in the commits before the base, oldest first.
    """
    sides: dict[str, dict[str, tuple[Launches, Launches]]] = {}
    runs: set[str] = set()
    for pair in pairs:
        bases, heads = group_by_identity(pair.base), group_by_identity(pair.head)
        runs |= {check.run.id for check in (*pair.base, *pair.head)}
        for identity in bases.keys() & heads.keys():
            sides.setdefault(identity, {})[pair.series] = launches_of(bases[identity], heads[identity])
    before = noise_by_machine(point for point in earlier if point.run_id not in runs)
    return {identity: _machine(series, before.get(identity, {})) for identity, series in sides.items()}


def _machine(sides: Mapping[str, tuple[Launches, Launches]], earlier: Mapping[str, LatencyNoise]) -> Machine:
    noises = dict(earlier)
    for key, both in sides.items():
        own = {figure: noise_of([side.figures[figure] for side in both]) for figure in FIGURES}
        noises[key] = moderate(own, earlier.get(key, NO_NOISE_KNOWN))
    common = shared_noise(noises.values())
    changes = {}
    for key, (base, head) in sides.items():
        noise = moderate(noises[key], common)
        changes[key] = {
            figure: LaunchChange(base.figures[figure], head.figures[figure], noise[figure]) for figure in FIGURES
        }
    means = [of_one[figure].mean for of_one in changes.values() for figure in (CANDIDATE, REFERENCE)]
    moved = [mean for mean in means if mean is not None]
    timed = sum(of_one[CANDIDATE].mean is not None for of_one in changes.values())
    return Machine(sides, changes, statistics.median(moved) if timed >= FEWEST_SERIES else None)


def _read(checks: Sequence[StoredCheck], days: Mapping[str, int]) -> Launches:
    latencies = [check.record.latency for check in checks if check.record.latency is not None]
    sound = [latency for latency in latencies if not latency.reasons and (latency.candidate_p50_ms or 0.0) > 0.0]
    launches = [launch for check in checks for launch in launches_in(check) if (launch.candidate_p50_ms or 0.0) > 0.0]
    intervals = [latency.speedup_ci for latency in sound if latency.speedup_ci and latency.speedup_ci.low > 0.0]
    figures = {figure: logs_of(launches, figure, days) for figure in FIGURES}
    spans = tuple((math.log(interval.low), math.log(interval.high)) for interval in intervals)
    return Launches(figures, spans, len(latencies) - len(sound))


_WORDS = {1: "slower", -1: "faster"}
"""What an engine's own latency did; 0 where it is the same."""


def explain_ratio_change(
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
    return outcome, "", (f"{became}, or the machine did: too few series on this machine to decide",)


FEWEST_LAUNCHES = 5
"""At base and at head each; with fewer, a latency is advisory."""

MIN_CHANGE_PCT = 1.0
"""A smaller change of a latency counts as none, however significant it is."""


def percent_to_log(percentage: float) -> float:
    """Return a relative change in percent as a difference of logarithms."""
    return math.log1p(percentage / 100.0)


def pace(change: LaunchChange) -> int:
    """Return 1 if an engine became slower, -1 if it became faster, else 0.

    It did where that is at least the minimum, with an interval that excludes none.

    Parameters
    ----------
    change : of the engine's latency, less that of the whole machine.
    """
    if change.mean is None:
        return 0
    found = change.difference()
    if found.low <= 0.0 <= found.high or abs(found.value) < percent_to_log(MIN_CHANGE_PCT):
        return 0
    return 1 if found.value > 0.0 else -1


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
        yield from _explain_untimed(pair, bool(timed[0]), bool(timed[1]))
        return
    bases, heads = group_by_identity(timed[0]), group_by_identity(timed[1])
    common = sorted(bases.keys() & heads.keys())
    if not common:
        row = row_of(pair, "speedup")
        machines_told = f"{describe_timing(timed[0][-1])} -> {describe_timing(timed[1][-1])}"
        ways = [way_of_timing(side[-1].record.latency) for side in timed]
        what = "other machine" if ways[0] == ways[1] else "timed in another way"
        note = f"{what}, never compared: {machines_told}"
        yield Draft(replace(row, outcome=Outcome.NO_BASELINE, machine=describe_timing(timed[1][-1]), notes=(note,)))
    for identity in common:
        yield from _compare_on_machine(
            Pair(pair.series, tuple(bases[identity]), tuple(heads[identity])), machines[identity]
        )


def _explain_untimed(pair: Pair, base_timed: bool, head_timed: bool) -> Iterator[Draft]:
    """Yield a row with the reason, if base and head were measured and only one was timed."""
    without = [("head", pair.head[-1].record, Outcome.INCONCLUSIVE)] if base_timed else []
    without += [("base", pair.base[-1].record, Outcome.NO_BASELINE)] if head_timed else []
    for side, record, outcome in without:
        if is_measured(record):
            note = f"{side}: {record.latency_off or 'it was not measured'}"
            yield Draft(replace(row_of(pair, "speedup"), outcome=outcome, notes=(note,)))


def _compare_on_machine(pair: Pair, machine: Machine) -> Iterator[Draft]:
    """Yield the row of the speedup, and the row of the candidate's own time if the machine's change is known."""
    base, head = machine.sides[pair.series]
    changes = machine.changes[pair.series]
    row, found = _begin_row(row_of(pair, "speedup", unit="x", better="higher"), pair, machine, SPEEDUP)
    if found is None:
        yield Draft(row)
    elif min(base.n, head.n) < FEWEST_LAUNCHES:
        yield Draft(_advisory(row, base, head))
    else:
        shift = machine.shift or 0.0
        candidate, reference = (changes[figure].less(shift) for figure in (CANDIDATE, REFERENCE))
        yield _judge_ratio(row, found, pace(candidate), pace(reference), machine.shift)
        if machine.shift is not None:
            row, _ = _begin_row(row_of(pair, "p50", unit="ms", better="lower"), pair, machine, CANDIDATE)
            yield _judge_time(row, candidate.difference(), shift)


def _begin_row(row: Row, pair: Pair, machine: Machine, figure: str) -> tuple[Row, LaunchDifference | None]:
    """Return the row with what is known of every change, and the change; ``None`` without a launch of both."""
    base, head = machine.sides[pair.series]
    changes = machine.changes[pair.series]
    means = {name: None if each.mean is None else percent(each.mean) for name, each in changes.items()}
    row = replace(
        row,
        base_launches=base.n,
        head_launches=head.n,
        candidate_change_pct=means[CANDIDATE],
        reference_change_pct=means[REFERENCE],
        machine=describe_timing(pair.head[-1]),
        notes=tuple(_doubts(base, head)),
    )
    change = changes[figure]
    if change.mean is None:
        return replace(row, outcome=Outcome.INCONCLUSIVE), None
    was, now = (math.exp(statistics.fmean(launch.value for launch in side)) for side in (change.base, change.head))
    row = replace(row, base=was, head=now, change=means[figure])
    found = change.difference()
    if found.assumed:
        share = {launch.day for launch in change.base} & {launch.day for launch in change.head}
        what = "how much launches of one day" if share else "base and head share no day, and how much days"
        note = f"{what} differ on this machine is not measured yet: {100.0 * ASSUMED.sd:g} % is assumed"
        row = replace(row, notes=(*row.notes, note))
    elif found.freedom:
        row = replace(row, interval=Interval(percent(found.low), percent(found.high)))
    return row, found


def _judge_ratio(row: Row, change: LaunchDifference, candidate: int, reference: int, shift: float | None) -> Draft:
    """Return the row of the speedup; `candidate` and `reference` as in `explain_ratio_change`."""
    tested = row = replace(row, p=change.p_value)
    whole_machine = _note_machine_shift(shift)
    if candidate == reference != 0:
        whose = "the machine, or the runtime" if shift is None else "other series did not: the model, or the runtime"
        note = f"both became {_WORDS[candidate]} alike: {whose}"
        row = replace(row, outcome=Outcome.CHANGED, moved="both", notes=(*row.notes, note))
    elif change.low < -percent_to_log(RESOLVED_PCT):
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    else:
        row = replace(row, notes=(*row.notes, *whole_machine))
    if abs(change.value) < percent_to_log(MIN_CHANGE_PCT):
        return Draft(row)
    outcome, moved, notes = explain_ratio_change(
        candidate, reference, worse=change.value < 0.0, told_apart=shift is not None
    )
    return Draft(row, replace(tested, outcome=outcome, moved=moved, notes=(*tested.notes, *notes, *whole_machine)))


_UNRESOLVED = f"a slowdown of {RESOLVED_PCT:g} % cannot be excluded: more launches, or a quieter machine"


def _judge_time(row: Row, own: LaunchDifference, shift: float) -> Draft:
    """Return the row of the candidate's own time; `own` is its change beside the change of the whole machine."""
    notes = [f"{note}, this candidate by {percent(own.value):+.1f} % more" for note in _note_machine_shift(shift)]
    row = replace(row, p=own.p_value, notes=(*row.notes, *notes))
    changed = replace(row, outcome=choose_outcome(own.value > 0.0, proven=True), moved="candidate")
    if own.high > percent_to_log(RESOLVED_PCT):
        row = replace(row, outcome=Outcome.INCONCLUSIVE, notes=(*row.notes, _UNRESOLVED))
    return Draft(row, changed if abs(own.value) >= percent_to_log(MIN_CHANGE_PCT) else None)


def _note_machine_shift(shift: float | None) -> tuple[str, ...]:
    if abs(shift or 0.0) < percent_to_log(MIN_CHANGE_PCT):
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
    if not apart or abs(math.log1p(row.change / 100.0)) < percent_to_log(RESOLVED_PCT):
        return row
    return replace(row, outcome=choose_outcome(row.change < 0.0, proven=False))
