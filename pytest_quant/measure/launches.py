"""Further launches of one check: fresh processes that time what was built, and what all launches say together."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pytest_quant.errors import BuildError, LaunchError
from pytest_quant.measure.engines import Tools
from pytest_quant.measure.launch import Launch, Launchable
from pytest_quant.measure.sessions import Subject
from pytest_quant.measure.timing import plan_for
from pytest_quant.result import Interval, LatencyResult, OverLaunches
from pytest_quant.spec import UNMEASURED, Check, LatencyPlan, Spread
from pytest_quant.stats.launches import launch_of, speedup_of
from pytest_quant.stats.one_sample import LOOK_CONFIDENCE, LOOKS, mean_of_launches
from pytest_quant.stats.ratio import Estimate
from pytest_quant.stats.rounds import OF_RATIO, SessionSet, session_sets
from pytest_quant.stats.runner import Draw, draw_of, session_spread

_MOST_FREEDOM = 8.0
"""Degrees of freedom that the noise between sessions is worth for a ratio at most: launches differ by what the sessions
of one do not show."""

TIME_FREEDOM = 1.0
"""Degrees of freedom that the noise between sessions is worth for a time, which also varies by all that a reference
beside it cancels."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many launches a check is given, the first one included.

    Attributes
    ----------
    least : in any case.
    auto : more, up to the last of `LOOKS`, as long as a limit on latency is in doubt.
    """

    least: int = 1
    auto: bool = False

    def after(self, made: int, in_doubt: bool) -> int:
        """Return the number of launches at which all of them are judged next; 0 where these are enough.

        Parameters
        ----------
        made : so far.
        in_doubt : whether they leave a limit undecided.
        """
        if made < self.least:
            return self.least
        return next((look for look in LOOKS if self.auto and in_doubt and look > made), 0)


def add_launches(
    check: Check,
    latency: LatencyResult,
    timed: tuple[Subject, Subject],
    wanted: Wanted,
    in_doubt: Callable[[LatencyResult], bool],
    tools: Tools,
) -> LatencyResult:
    """Time a check in fresh processes too, and add what each of them found and what all of them say together.

    A launch whose numbers have a reason against them is a note and does not count. One that fails is a note and the
    last one, since the next would fail too. Where the numbers of the first are not to be trusted no more are made.

    Parameters
    ----------
    check : the limits, and the plan of the first launch, which is that of each.
    latency : of the first launch, in this process.
    timed : reference and candidate.
    wanted : how many.
    in_doubt : whether a limit is, by a result.
    tools : the messages to the user.

    Raises
    ------
    QuantError : a device was not free in time.
    """
    if latency.reasons or check.latency is None:
        return latency
    plan = plan_for(check, replace(check.latency, batch_size=latency.batch_size))
    found, results, tried = latency, [latency], 1
    with tempfile.TemporaryDirectory(prefix="pytest-quant-launch-") as folder:
        file = Path(folder) / "check"
        while target := wanted.after(tried, in_doubt(found)):
            while tried < target:
                tried += 1
                what = f"launch {tried} of {target} of {check.candidate.id} of {check.candidate.model.name}"
                try:
                    if not file.exists():
                        Launchable.of(*timed, plan).save(file)
                    launched = _time_apart(file, replace(plan, seed=plan.seed + tried), timed, what, tools)
                except (LaunchError, BuildError) as error:
                    return replace(found, notes=(*found.notes, f"{what}: {error.what}; {error.value}"))
                if launched.reasons:
                    found = replace(found, notes=(*found.notes, f"{what} does not count: {launched.reasons[0]}"))
                    continue
                results.append(launched)
                found = replace(
                    found,
                    launches=(*found.launches, launch_of(launched, datetime.now(UTC).isoformat(timespec="seconds"))),
                )
            found = with_over(found, results, LOOK_CONFIDENCE if wanted.auto else plan.confidence)
    return found


def _time_apart(
    file: Path, plan: LatencyPlan, timed: tuple[Subject, Subject], what: str, tools: Tools
) -> LatencyResult:
    with ExitStack() as stack:
        stack.enter_context(tools.locks.exclusive(*{subject.backend.device for subject in timed}))
        stack.enter_context(tools.bounded_step(what))
        launch = stack.enter_context(Launch(file, limit_s=None))
        return launch.measure(plan)


def with_over(latency: LatencyResult, results: Sequence[LatencyResult], confidence: float) -> LatencyResult:
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
    spread = _session_spread(results[0], sets)
    share = statistics.fmean(OF_RATIO / len(of_one) if len(of_one) > 1 else 1.0 for of_one in sets)
    known, draws = Spread(math.sqrt(share) * spread.sd, spread.freedom), sum(map(len, sets))
    ratio = _together([speedup_of(one) for one in results], known, confidence, draws)
    p50 = _together([_time(one) for one in results], replace(known, freedom=TIME_FREEDOM), confidence, draws)
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
    return session_sets(reference, null, candidate, latency.sets or (latency.rounds,))


def _session_spread(first: LatencyResult, sets: Sequence[Sequence[SessionSet]]) -> Spread:
    """Return the noise between sessions of all launches: what the first one knew of it, and the nulls of the others."""
    of_first = len(sets[0])
    share = OF_RATIO / of_first if of_first > 1 else 1.0
    known = Spread(first.session_sd / math.sqrt(share), UNMEASURED.freedom + of_first)
    spread = session_spread(known, [Draw(each.null, each.null_error) for of_one in sets[1:] for each in of_one])
    return replace(spread, freedom=min(spread.freedom, _MOST_FREEDOM))


def _together(draws: Sequence[Draw], known: Spread, confidence: float, sets: int) -> Estimate:
    values, errors = [draw.log_ratio for draw in draws], [draw.error for draw in draws]
    return mean_of_launches(values, errors, known, confidence=confidence, draws=sets)


def _time(latency: LatencyResult) -> Draw:
    medians = [math.log(one) for one in latency.candidate.medians_ns]
    return Draw(math.log(latency.candidate_p50_ms), draw_of(medians).error)
