"""Timing of a check's engines, alone on their devices: twice before a limit fails, and in further launches."""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from pytest_quant.clocks import now
from pytest_quant.errors import BuildError, LaunchError
from pytest_quant.files import temporary_folder
from pytest_quant.measure.build import Tools
from pytest_quant.measure.engine_trio import EngineTrio
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.timed_rounds import has_limit
from pytest_quant.measure.timing_process import TimingJob, TimingProcess
from pytest_quant.result import Interval, LatencyResult, OverLaunches
from pytest_quant.spec import UNMEASURED, Check, LatencyPlan, Spread
from pytest_quant.stats.launches import launch_of
from pytest_quant.stats.means import LAUNCH_LOOKS, LOOK_CONFIDENCE, mean_of_launches, median_with_error, session_spread
from pytest_quant.stats.rounds import OF_RATIO, SessionSet, session_sets
from pytest_quant.verdict import Judge

CONFIRMING = 0.8
"""Confidence of the second measurement's intervals: it repeats a finding, and does not look for one.

A true ratio at the limit fails only where both measurements err: at most 2.5 % of the time whatever they share, and
0.025 * 0.1 where their sessions are independent. A second interval of 95 % would add little to that, and lose one in
ten of the engines that are as much too slow as the first measurement can just tell.
"""


def time_with_confirmation(
    plan: LatencyPlan,
    measure_once: Callable[[LatencyPlan], LatencyResult],
    judge: Judge,
    measure_apart: Callable[[LatencyPlan], LatencyResult] | None = None,
) -> LatencyResult:
    """Measure, and once more if a limit is broken; the second result is the `repeat` of the first.

    Parameters
    ----------
    plan : its `max_s` bounds both measurements together; without a limit the first may use all of it.
    measure_once : measures in fresh sessions; opening them is not part of the budget.
    judge : of the check's limits.
    measure_apart : measures in a fresh process, for the second time where the first is in doubt; ``None`` for none.
    """
    # The half-width of an interval falls with the square root of the time, so that 40 % of the time give one that is
    # sqrt(0.6 / 0.4) = 1.22 times as wide as that of 60 %: the second measurement can confirm what the first finds
    # broken by more than its own width. A limit that is clearly broken is decided by the fewest rounds.
    first = measure_once(replace(plan, max_s=plan.max_s * (0.6 if has_limit(plan) else 1.0)))
    if not judge.broken(first):
        return first
    left_s = max(plan.max_s - first.spent_s, 0.0)
    again = replace(plan, max_s=left_s, seed=plan.seed + 1, confidence=min(plan.confidence, CONFIRMING))
    # Processes differ by what sessions of one do not show: where memory lies, how threads are placed.
    # A FAIL that does not stand if intervals reach twice as far is close.
    doubted = measure_apart is not None and not judge.broken(first.wider(reach=2.0))
    return replace(first, repeat=measure_apart(again) if measure_apart and doubted else measure_once(again))


def time_check(
    check: Check, plan: LatencyPlan, reference: TimingSubject, candidate: TimingSubject, tools: Tools, judge: Judge
) -> LatencyResult:
    """Time reference, null and candidate; time them again before a limit fails, in a fresh process if it is close.

    Parameters
    ----------
    check : its limits on latency, and its node id, which seeds the random order.
    plan : its `max_s` bounds all runs of both measurements; opening the sessions is not part of it.
    reference, candidate : the engines; the null is a second session of the reference.
    judge : of the check's limits.
    """
    plan = plan_for(check, plan)
    with tools.locks.exclusive(reference.device, candidate.device):
        return time_with_confirmation(
            plan,
            lambda once: _time_once(once, reference, candidate, tools),
            judge,
            lambda once: _time_apart(once, reference, candidate, tools),
        )


def plan_for(check: Check, plan: LatencyPlan) -> LatencyPlan:
    """Return `plan` with the limits of a check to decide, and the random order that its node id seeds."""
    return replace(
        plan,
        least_speedup=check.limits.min_speedup,
        most_ms=check.limits.max_latency_ms,
        most_tokens_ms=check.limits.token_limits,
        # Milliseconds must be those of a user's program, which gets no pages of 2 MB unless its system gives them.
        pages="small" if check.limits.max_latency_ms else plan.pages,
        seed=zlib.crc32(check.nodeid.encode()),
    )


def _time_once(plan: LatencyPlan, reference: TimingSubject, candidate: TimingSubject, tools: Tools) -> LatencyResult:
    name = candidate.built.name
    with ExitStack() as stack:
        with tools.steps.show(f"opening sessions to time {name}"):
            sessions = stack.enter_context(EngineTrio(reference, candidate, plan.pages))
        with tools.steps.show(f"timing {name}"):
            return sessions.measure(plan)


def _time_apart(plan: LatencyPlan, reference: TimingSubject, candidate: TimingSubject, tools: Tools) -> LatencyResult:
    """Time in a fresh process; if no other can open the engines, in fresh sessions of this process, with a note."""
    try:
        with (
            _write_job(TimingJob(reference, candidate, plan)) as file,
            tools.steps.show(f"timing {candidate.built.name} again in a fresh process"),
            TimingProcess(file) as process,
        ):
            latency, note = process.measure(plan), "measured in a process of its own"
    except LaunchError as error:
        latency = _time_once(plan, reference, candidate, tools)
        note = f"measured again in the same process: {error.what}"
    return replace(latency, notes=(*latency.notes, note))


@contextmanager
def _write_job(job: TimingJob) -> Iterator[Path]:
    """Keep a job in a file while the block runs. Raises `LaunchError` if no other process can have it."""
    with temporary_folder() as folder:
        file = folder / "check"
        job.save(file)
        yield file


def next_look(made: int, wanted: int | Literal["auto"], is_in_doubt: bool) -> int:
    """Return the number of launches to reach before judging again; 0 means stop.

    Parameters
    ----------
    made : launches so far, the first one included.
    wanted : so many in any case; ``auto``: up to the last of `LAUNCH_LOOKS`, as long as a limit on latency is in doubt.
    is_in_doubt : whether those that were made leave a limit undecided.
    """
    if wanted == "auto":
        return next((look for look in LAUNCH_LOOKS if is_in_doubt and look > made), 0)
    return wanted if made < wanted else 0


def add_launches(
    check: Check,
    latency: LatencyResult,
    timed: tuple[TimingSubject, TimingSubject],
    wanted: int | Literal["auto"],
    judge: Judge,
    tools: Tools,
) -> LatencyResult:
    """Time a check in fresh processes too, and add what each launch found and what all launches say together.

    A launch whose numbers have a reason against them is a note and does not count. One that fails is a note and the
    last one, since the next would fail too. If the first measurement is unreliable, there are none, or with ``auto``
    one in its place, since what disturbed it may be over.

    Parameters
    ----------
    check : the limits, and the plan of the first launch, which is that of each.
    latency : of the first launch, in this process.
    timed : reference and candidate.
    wanted : how many, see `next_look`.
    judge : of the check's limits, beside its baseline.

    Raises
    ------
    QuantError : a device was not free in time.
    """
    if check.latency is None:
        return latency
    plan = plan_for(check, replace(check.latency, batch_size=latency.batch_size))
    if latency.reasons and wanted == "auto":
        note = f"the first launch does not count: {latency.reasons[0]}"
        with tools.locks.exclusive(*(subject.device for subject in timed)):
            latency = _time_apart(replace(plan, seed=plan.seed + 1), *timed, tools)
        latency = replace(latency, notes=(*latency.notes, note))
    if latency.reasons:
        return latency
    results, tried = [latency], 1
    what = ""
    try:
        with ExitStack() as held:
            file: Path | None = None
            while target := next_look(tried, wanted, judge.undecided(latency)):
                while tried < target:
                    tried += 1
                    what = f"launch {tried} of {target} of {check.candidate.id} of {check.candidate.model.name}"
                    file = file or held.enter_context(_write_job(TimingJob(*timed, plan)))
                    with (
                        tools.locks.exclusive(*(subject.device for subject in timed)),
                        tools.steps.bounded(what),
                        TimingProcess(file, limit_s=None) as process,
                    ):
                        launched = process.measure(replace(plan, seed=plan.seed + tried))
                    if launched.reasons:
                        note = f"{what} does not count: {launched.reasons[0]}"
                        latency = replace(latency, notes=(*latency.notes, note))
                        continue
                    results.append(launched)
                    figures = launch_of(launched, now().isoformat(timespec="seconds"))
                    latency = replace(latency, launches=(*latency.launches, figures))
                latency = join_launches(latency, results, LOOK_CONFIDENCE if wanted == "auto" else plan.confidence)
    except (LaunchError, BuildError) as error:
        return replace(latency, notes=(*latency.notes, f"{what}: {error.what}; {error.value}"))
    return latency


def join_launches(latency: LatencyResult, results: Sequence[LatencyResult], confidence: float) -> LatencyResult:
    """Return the first launch with what all launches say together; one alone says nothing more.

    Parameters
    ----------
    latency : the first launch.
    results : of all launches that count, the first included; each knows the noise between sessions.
    confidence : of the intervals.
    """
    if len(results) < 2:
        return latency
    sets = [_sets(result) for result in results]
    shares = [OF_RATIO / len(of_one) if len(of_one) > 1 else 1.0 for of_one in sets]
    # What the first launch knew of the noise between sessions, and the nulls of the others.
    prior = Spread(results[0].session_sd / math.sqrt(shares[0]), UNMEASURED.freedom + len(sets[0]))
    spread = session_spread(prior, [each.null for of_one in sets[1:] for each in of_one])
    # Launches differ by what the sessions of one do not show, whose noise is worth no more degrees of freedom.
    freedom, draws = min(spread.freedom, 8.0), sum(map(len, sets))
    spread_of_share = Spread(math.sqrt(statistics.fmean(shares)) * spread.sd, freedom)
    logs, errors = [math.log(each.speedup) for each in results], [each.error or 0.0 for each in results]
    ratio = mean_of_launches(logs, errors, spread_of_share, confidence=confidence, draws=draws)
    logs = [math.log(each.candidate_p50_ms) for each in results]
    errors = [median_with_error(np.log(each.candidate.medians_ns).tolist()).error for each in results]
    # A time also varies by all that a reference beside it cancels.
    spread_of_time = replace(spread_of_share, freedom=1.0)
    p50 = mean_of_launches(logs, errors, spread_of_time, confidence=confidence, draws=draws)
    over = OverLaunches(
        launches=len(results),
        speedup=math.exp(ratio.value),
        speedup_ci=Interval(math.exp(ratio.low), math.exp(ratio.high)),
        candidate_p50_ms=math.exp(p50.value),
        candidate_p50_ci_ms=Interval(math.exp(p50.low), math.exp(p50.high)),
    )
    return replace(latency, over=over)


def _sets(latency: LatencyResult) -> list[SessionSet]:
    reference, null, candidate = (
        np.log(side.medians_ns[: latency.rounds]) for side in (latency.reference, latency.null, latency.candidate)
    )
    return session_sets(reference, null, candidate, latency.rounds_by_set or (latency.rounds,))
