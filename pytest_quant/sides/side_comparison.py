"""Two sides compared test by test: accuracy on the same samples, latency by pairs of processes. A `Comparison`."""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_quant.backends import get_backend
from pytest_quant.errors import LaunchError, QuantError, UsageError
from pytest_quant.history.compare.accuracy_change import compare_accuracy
from pytest_quant.history.compare.comparison import Comparison, Listed, Outcome, Row
from pytest_quant.history.compare.facts import explain_row
from pytest_quant.history.compare.pairing import Pair, explain_loss, is_measured, judge, pair, reason, row_of
from pytest_quant.history.rows import StoredCheck
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.pairs import PairedTimes, TimedPair, time_pair, time_pairs
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingProcess, read_header
from pytest_quant.record import Record
from pytest_quant.result import Interval, Status
from pytest_quant.sides.run import SideResult, launch_file
from pytest_quant.spec import LatencyPlan, limits_on
from pytest_quant.stats.launch_difference import percent

LIMIT_PCT = 5.0
"""Largest slow-down in percent of a test whose mark names none."""

Times: TypeAlias = Callable[..., PairedTimes]
"""Times one test of both sides, see `PairTimer`."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How two sides are compared.

    Attributes
    ----------
    limit_pct : largest slow-down in percent of a test whose mark names none.
    equal_too : time engines that are the same on both sides too.
    whole : both sides ran every test, so that one that is missing was removed.
    option : how a user sets that limit.
    by_mark : a limit of the mark comes before `limit_pct`.
    latency_off : accuracy alone is compared.
    """

    limit_pct: float = LIMIT_PCT
    equal_too: bool = False
    whole: bool = True
    option: str = "--quant-against-limit"
    by_mark: bool = True
    latency_off: bool = False


def compare_sides(base: SideResult, head: SideResult, times: Times, terms: Terms) -> Comparison:
    """Compare every test that both sides have; what cannot be compared is a row that says why.

    Parameters
    ----------
    base, head : what the runs of the two commits left.
    times : times the engines of a test.
    terms : limits, and what is compared.
    """
    pairs, comparison = pair(_checks(base), _checks(head), [head.run] if head.run else [])
    drafts = [draft for each in pairs if _is_measured(each) for draft in compare_accuracy(each)]
    by_series = {each.series: each for each in pairs}
    rows = [_judge_by_limits(row, by_series[row.series]) for row in judge(drafts)]
    rows += [row for each in pairs for row in _other_rows(each, base, head, times, terms)]
    without, added = _list_without_base(comparison.added, base, head)
    dirty = ["the head is the working tree, with uncommitted changes"] if head.run and head.run.dirty else []
    return replace(
        comparison.replace_rows((*(explain_row(row, by_series[row.series]) for row in rows), *without)),
        # It ran what the head did, whatever that is a part of.
        base=replace(comparison.base, partial=False),
        added=added,
        removed=tuple(lost for lost in comparison.removed if terms.whole or lost.skipped or lost.uncollected),
        notes=(*base.notes, *dirty),
    )


def _checks(left: SideResult) -> list[StoredCheck]:
    return [] if left.run is None else [StoredCheck(left.run, record) for record in left.records]


def _is_measured(matched: Pair) -> bool:
    return all(is_measured(side[-1].record) for side in (matched.base, matched.head))


def _judge_by_limits(row: Row, matched: Pair) -> Row:
    """Judge a change of accuracy by `max_drop_increase` and what the mark limits at both sides: facts on these samples.

    Without such only a change that is proven fails, see `compare_accuracy`.
    """
    base, head = (side[-1].record for side in (matched.base, matched.head))
    allowed = _limits(head).get("max_drop_increase")
    if allowed is not None and row.change is not None and row.better is not None:
        increase = row.change if row.better == "lower" else -row.change
        within = Outcome.WORSE if row.outcome is Outcome.REGRESSION else row.outcome
        outcome = Outcome.REGRESSION if increase > allowed else within
        row = replace(row, outcome=outcome, notes=(*row.notes, f"max_drop_increase {allowed:g}"))
    held = {verdict.limit for verdict in base.verdicts or () if verdict.status is not Status.FAIL}
    broken = [verdict.limit for verdict in head.verdicts or () if verdict.status is Status.FAIL]
    # Those that one run alone judges, on what the candidate answers.
    on_answers = limits_on("score", "accuracy", "output")
    newly = [limit for limit in broken if limit in held and limit.partition("[")[0] in on_answers]
    if row.outcome is Outcome.WORSE and newly:
        note = f"{', '.join(newly)} held at the base"
        return replace(row, outcome=Outcome.REGRESSION, notes=(*row.notes, note))
    return row


def _limits(record: Record) -> Mapping[str, float]:
    return {verdict.limit: verdict.allowed for verdict in record.verdicts or () if verdict.allowed is not None}


def _other_rows(matched: Pair, base: SideResult, head: SideResult, times: Times, terms: Terms) -> Iterator[Row]:
    """Yield the row of the latency, or of what keeps a test from being compared."""
    was, now = matched.base[-1].record, matched.head[-1].record
    if not _is_measured(matched):
        yield _unmeasured_row(matched, was, now)
        return
    # A run of a commit measures no latency by itself; where the user's own run did not, none is wanted.
    own_is_off = head.environment is None or terms.latency_off
    if now.latency is None and (own_is_off or (now.accuracy is not None and now.accuracy.simulated)):
        return
    row = row_of(matched, "p50", unit="ms", better="lower")
    if _same_engine(was, now) and base.python == head.python and not terms.equal_too:
        yield replace(row, notes=("the same engine on both sides: not timed",))
        return
    allowed = _limits(now)
    shifts = ("max_slowdown", "max_p50_increase")
    named = [allowed[name] for name in shifts if name in allowed] if terms.by_mark else []
    limit_pct = min(named) if named else terms.limit_pct
    same_reference = (
        was.digests.get("reference_engine") == now.digests.get("reference_engine")
        and (now.latency is None or now.latency.reference_precision == "fp32")
        and base.python == head.python
    )
    try:
        paired = times((base, was.nodeid), (head, now.nodeid), limit_pct, same_reference=same_reference)
    except QuantError as error:
        value = f": {error.value}" if error.value else ""
        yield replace(row, outcome=Outcome.INCONCLUSIVE, notes=(f"{error.what}{value}",))
        return
    is_default = terms.by_mark and not named
    yield _time_row(row, paired, limit_pct, f" (no limit in the mark; {terms.option})" if is_default else "")


def _unmeasured_row(matched: Pair, was: Record, now: Record) -> Row:
    row = row_of(matched, "status", was.status.value, now.status.value)
    if is_measured(now):
        return replace(row, outcome=Outcome.NO_BASELINE, notes=(f"the base: {reason(was)}",))
    whose = "" if is_measured(was) else "neither side: "
    return replace(row, outcome=Outcome.INCONCLUSIVE, notes=(f"{whose}{reason(now)}",))


def _same_engine(was: Record, now: Record) -> bool:
    """Whether nothing that is timed can differ: a backend of the project's own may, while engines do not."""
    equal = all(was.digests.get(name) == now.digests.get(name) is not None for name in ("engine", "data"))
    try:
        return equal and type(get_backend(now.backend)).__module__.startswith("pytest_quant.")
    except UsageError:
        # Known in the runs of the two sides only, where it is registered from the project.
        return False


def _time_row(row: Row, paired: PairedTimes, limit_pct: float, whence: str) -> Row:
    voided = f", {len(paired.voided)} more do not count" if paired.voided else ""
    notes = [f"limit {limit_pct:g} %{whence}; {len(paired.pairs)} pairs of processes{voided}"]
    shift, reference = paired.shift, paired.reference_shift
    if shift is None or reference is None:
        return replace(row, outcome=Outcome.INCONCLUSIVE, notes=(paired.reason, *notes))
    sd = 100.0 * statistics.stdev(pair.shift for pair in paired.pairs)
    notes.append(f"pairs differ by {sd:.2g} % (sd); reference {percent(reference.value):+.2g} % on the head's side")
    if paired.side == "open":
        outcome = Outcome.INCONCLUSIVE
    elif paired.side == "above":
        outcome = Outcome.REGRESSION
    elif shift.high < 0.0:
        outcome = Outcome.IMPROVEMENT if shift.high < -paired.limit else Outcome.BETTER
    else:
        outcome = Outcome.WORSE if shift.low > 0.0 else Outcome.UNCHANGED
    return replace(
        row,
        outcome=outcome,
        base=statistics.median_high(pair.base_ms for pair in paired.pairs),
        head=statistics.median_high(pair.head_ms for pair in paired.pairs),
        change=percent(shift.value),
        interval=Interval(percent(shift.low), percent(shift.high)),
        base_launches=len(paired.pairs),
        head_launches=len(paired.pairs),
        notes=(*([paired.reason] if paired.reason else []), *notes),
    )


def _list_without_base(
    added: Sequence[Listed], base: SideResult, head: SideResult
) -> tuple[list[Row], tuple[Listed, ...]]:
    """Return a row for each test that the base could not measure, and the tests that it does not have."""
    checks = {check.record.series: check for check in _checks(head)}
    missing = {listed: why for listed in added if (why := _explain_missing(base, listed))}
    rows = []
    for listed, why in missing.items():
        check = checks[listed.series]
        row = row_of(Pair(listed.series, (), (check,)), "status", head=check.record.status.value)
        rows.append(replace(row, outcome=Outcome.NO_BASELINE, notes=(f"the base: {why}",)))
    return rows, tuple(listed for listed in added if listed not in missing)


def _explain_missing(base: SideResult, listed: Listed) -> str:
    if base.trouble:
        return base.trouble
    for how, why in explain_loss(listed.series, [base.run] if base.run else []).items():
        return f"the test is {how} there: {why}"
    others = {f"{record.model} {record.engine_id}" for record in base.records if record.nodeid == listed.nodeid}
    return f"its check there differs: {', '.join(sorted(others))}" if others else ""


@dataclass(frozen=True, slots=True)
class PairTimer:
    """Times tests of both sides against each other.

    Attributes
    ----------
    steps : shows long steps to the user.
    locks : of devices.
    step_timeout_s : longest single answer of a process, in seconds; ``None`` for no bound.
    max_s : longest timing of one pair, in seconds.
    """

    steps: Steps
    locks: DeviceLocks
    step_timeout_s: float | None
    max_s: float = LatencyPlan().max_s

    def __call__(
        self, base: tuple[SideResult, str], head: tuple[SideResult, str], limit_pct: float, *, same_reference: bool
    ) -> PairedTimes:
        """Time the candidate of the head against the candidate of the base.

        Parameters
        ----------
        base, head : the sides, each with the node id of the test there.
        limit_pct : largest slow-down that is allowed, in percent.
        same_reference : see `time_pairs`.

        Raises
        ------
        LaunchError : an engine cannot be opened in a process of its own.
        QuantError : a device was not free in time.
        """
        files = [_described(left, nodeid) for left, nodeid in (base, head)]
        headers = [read_header(file) for file in files]
        devices = {device for _, of_side, _ in headers for device in of_side}
        was, now = (shapes for _, _, shapes in headers)
        if was and now and was != now:
            raise LaunchError("the two sides time samples of other shapes", value=f"{was} -> {now}")
        plan = LatencyPlan(max_s=self.max_s, seed=zlib.crc32(head[1].encode()))

        processes = [
            TimingProcess(
                file, python=left.python, cwd=left.cwd, environment=left.environment, limit_s=self.step_timeout_s
            )
            for file, (left, _) in zip(files, (base, head), strict=True)
        ]

        def one_pair(number: int) -> TimedPair:
            with ExitStack() as held:
                held.enter_context(self.locks.exclusive(*devices))
                held.enter_context(self.steps.show(f"timing {headers[1][0]} of both commits, pair {number + 1}"))
                base_timer, head_timer = (held.enter_context(process).block for process in processes)
                return time_pair(base_timer, head_timer, plan, seed=plan.seed + number)

        return time_pairs(one_pair, math.log1p(limit_pct / 100.0), same_reference=same_reference)


def _described(left: SideResult, nodeid: str) -> Path:
    file = launch_file(left.folder, nodeid)
    if not file.is_file():
        why = file.with_suffix(".why")
        description = why.read_text("utf-8") if why.is_file() else f"the engines of {nodeid} were not described"
        raise LaunchError(
            description, fix="name files and importable objects in the mark, not objects of the test's module"
        )
    return file
