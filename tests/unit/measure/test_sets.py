"""Sets of sessions: drawn where sessions differ by more than rounds do, and judged as draws, on simulated time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from pytest_quant.measure.timed_rounds import Calls, Reopening
from pytest_quant.measure.timing import join_launches
from pytest_quant.result import LatencyResult, Status
from pytest_quant.spec import UNMEASURED, LatencyPlan, Limits, Spread
from pytest_quant.stats.means import LOOK_CONFIDENCE
from pytest_quant.verdict.latency_limits import latency_verdicts
from tests.unit.measure.simulated import SimulatedTime

LIMIT = 1 / 1.03
PLAN = LatencyPlan(least_speedup=LIMIT, max_s=6.0)
MB = 1_000_000
OPENING_NS = 100_000_000


def timed(
    slower: float, session_sd: float, seed: int, plan: LatencyPlan = PLAN, weights: int = 0
) -> tuple[LatencyResult, int]:
    """Time an engine of 1 ms against itself, `slower` times as slow, in sessions that differ by `session_sd` each.

    Returns the result and the number of sets that were opened.
    """
    time = SimulatedTime(seed, noise=0.02, drift=0.001)
    session = random.Random(seed)  # noqa: S311 - noise, not a secret
    opened = 0

    def calls() -> Calls:
        nonlocal opened
        opened += 1
        time.now_ns += OPENING_NS
        factors = [factor * session.lognormvariate(0.0, session_sd) for factor in (1.0, 1.0, slower)]
        first, null, ours = (time.engine(factor) for factor in factors)
        return first, null, ours

    first = calls()
    time.now_ns = 0
    return time.measure(*first, replace(plan, seed=seed), reopening=Reopening(calls, OPENING_NS, weights)), opened


def statuses(slower: float, session_sd: float, weights: int, launches: int = 60) -> Counter[Status]:
    """Judge so many launches against a limit of 3 %, without the second measurement of a FAIL."""
    result = Counter[Status]()
    for seed in range(launches):
        latency, _ = timed(slower, session_sd, seed, weights=weights)
        (verdict,) = latency_verdicts(Limits(min_speedup=LIMIT), latency)
        result[verdict.status] += 1
    return result


def test_engines_whose_sessions_are_alike_are_timed_in_one_set() -> None:
    """A convolution pays nothing for the noise of others."""
    result, opened = timed(1.0, 0.002, 1)
    assert (opened, result.rounds_by_set) == (1, (result.rounds,))


def test_engines_that_wait_for_their_weights_are_timed_in_three_sets_at_least() -> None:
    """25 MB in a millisecond: a null that is near 1 by luck tells nothing about the next pair of sessions."""
    result, opened = timed(1.0, 0.001, 1, weights=25 * MB)
    assert opened == len(result.rounds_by_set) >= 3
    assert result.effective_rounds == opened
    assert result.rounds == sum(result.rounds_by_set) == len(result.candidate.runs_ns)
    assert result.speedup_ci.low < result.speedup < result.speedup_ci.high
    assert f"{opened} sets of sessions" in result.widened


def refilling(time: SimulatedTime, run_ms: float, last: list[float]) -> Callable[[], None]:
    """Return an engine whose first run after another engine takes twice as long, and each for 6 ms a little less."""
    since_ms = 0.0

    def run() -> None:
        nonlocal since_ms
        since_ms = since_ms if last == [id(run)] else 0.0
        took_ms = run_ms * (1.0 + max(0.0, 1.0 - since_ms / 6.0))
        since_ms += took_ms
        last[:] = [id(run)]
        time.now_ns += int(1e6 * took_ms)

    return run


def timed_refilling(reference_ms: float, candidate_ms: float, plan: LatencyPlan, weights: int) -> LatencyResult:
    """Time engines that take so long when they have run for a while, with so many bytes of weights."""
    time, last = SimulatedTime(), list[float]()
    first, null, ours = (refilling(time, run_ms, last) for run_ms in (reference_ms, reference_ms, candidate_ms))
    reopening = Reopening(lambda: (first, null, ours), OPENING_NS, weights)
    return time.measure(first, null, ours, plan, reopening=reopening)


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, least_speedup=None), replace(PLAN, most_ms=((90.0, 5.0),))])
@pytest.mark.parametrize(("reference_ms", "candidate_ms"), [(1.0, 0.8), (0.8, 0.5), (2.0, 2.0)])
def test_engines_that_wait_for_their_weights_are_timed_as_in_a_program_of_their_own(
    plan: LatencyPlan, reference_ms: float, candidate_ms: float
) -> None:
    """What an engine takes after it has run for a while counts, and nothing that the engine before it left."""
    result = timed_refilling(reference_ms, candidate_ms, plan, 25 * MB)
    assert result.candidate_p50_ms == pytest.approx(candidate_ms, rel=1e-3)
    assert result.reference_p50_ms == pytest.approx(reference_ms, rel=1e-3)
    assert result.speedup == pytest.approx(reference_ms / candidate_ms, rel=1e-3)


def test_engines_whose_weights_lie_next_to_the_core_pay_for_no_such_time() -> None:
    """Every run but the cold one counts, so that those which are still slow are seen."""
    assert timed_refilling(1.0, 0.8, PLAN, 0).candidate_p50_ms > 1.05 * 0.8


@pytest.mark.parametrize("plan", [replace(PLAN, least_speedup=None), replace(PLAN, most_ms=((99.0, 1.5),))])
def test_without_a_limit_that_sessions_decide_there_is_one_set(plan: LatencyPlan) -> None:
    """Without any limit, and with one on a tail, whose rounds are those of one set."""
    assert timed(1.0, 0.05, 1, plan, 25 * MB)[1] == 1


def test_a_null_that_is_off_in_every_set_speaks_against_the_numbers() -> None:
    """By 20 % in each, on a runner whose sessions differ by 3 %: chance makes that of one set, not of their mean."""
    time = SimulatedTime(1, noise=0.005)

    def calls() -> Calls:
        time.now_ns += OPENING_NS
        first, null, ours = (time.engine(run_ms) for run_ms in (1.25, 1.0, 1.0))
        return first, null, ours

    reopening = Reopening(calls, OPENING_NS, 25 * MB)
    plan = replace(PLAN, sessions=Spread(0.03, UNMEASURED.freedom))
    result = time.measure(*calls(), plan, reopening=reopening)
    assert len(result.rounds_by_set) >= 3
    assert [reason.partition(":")[0] for reason in result.reasons] == ["the null is off"]


def last_before_rounds(seed: int) -> int:
    """Return which of the three engines runs last before the rounds."""
    time, ran, seen = SimulatedTime(seed), list[int](), list[int]()

    def engine(index: int) -> Callable[[], None]:
        run = time.engine(1.0)

        def noted() -> None:
            ran.append(index)
            run()

        return noted

    calls = engine(0), engine(1), engine(2)
    plan = replace(PLAN, seed=seed)
    time.measure(*calls, plan, observe=lambda: seen.append(ran[-1]))
    return seen[0]


def test_any_of_the_three_is_warmed_up_last() -> None:
    """What is run last before the rounds is faster for a while, which must not be one of them each time."""
    last = Counter(map(last_before_rounds, range(60)))
    assert min(last[index] for index in range(3)) >= 8


def test_sets_are_drawn_while_the_budget_lasts() -> None:
    """An engine in doubt whose sessions differ much: no set is begun that would not end in time."""
    result, opened = timed(1.03, 0.05, 2, replace(PLAN, max_s=1.5), 25 * MB)
    assert 1 < opened < 10
    assert result.spent_s <= 1.6


def test_the_time_is_shared_by_the_sets_to_come() -> None:
    """Rounds of 30 % could fill it all in the first set; engines of a second to open still get three."""
    time = SimulatedTime(1, noise=0.3)

    def calls() -> Calls:
        time.now_ns += int(1e9)
        first, null, ours = (time.engine(1.0) for _ in range(3))
        return first, null, ours

    result = time.measure(*calls(), replace(PLAN, max_s=4.0), reopening=Reopening(calls, 1e9, 25 * MB))
    assert len(result.rounds_by_set) == 3
    assert max(result.rounds_by_set) - min(result.rounds_by_set) <= 2


def test_an_engine_that_opens_for_longer_than_the_budget_is_told_as_it_is() -> None:
    """One set, and an interval that allows for sessions that nobody drew."""
    time = SimulatedTime(1, noise=0.02)
    reference, null, candidate = (time.engine(1.0) for _ in range(3))
    never: Callable[[], Calls] = pytest.fail
    result = time.measure(reference, null, candidate, PLAN, reopening=Reopening(never, 60e9, 25 * MB))
    assert result.rounds_by_set == (result.rounds,)
    assert result.rounds > PLAN.min_rounds  # the time that no other set fits into is spent on rounds
    assert result.speedup_ci.high / result.speedup_ci.low > 1.08


@pytest.mark.parametrize(("session_sd", "weights"), [(0.025, 25 * MB), (0.025, 100 * MB), (0.004, 0)])
def test_equal_engines_do_not_fail_and_slower_ones_do_not_pass(session_sd: float, weights: int) -> None:
    """Sessions of 2.5 % are those of weights that are read from memory, 0.4 % those of convolutions."""
    assert statuses(1.0, session_sd, weights)[Status.FAIL] == 0
    assert statuses(1.05, session_sd, weights)[Status.PASS] == 0


def test_rounds_of_a_set_are_no_more_than_tell_its_sessions_apart() -> None:
    """Rounds of 2 % are known to half of the 3 % between sessions at once, those of 20 % take longer than opening."""
    steady, _ = timed(1.03, 0.03, 1, weights=25 * MB)
    assert set(steady.rounds_by_set) == {PLAN.min_rounds}
    assert len(steady.rounds_by_set) == 10


@pytest.mark.parametrize(("launches", "session_sd"), [(1, 0.025), (3, 0.01), (3, 0.03)])
def test_intervals_enclose_the_true_ratio(launches: int, session_sd: float) -> None:
    """In 93 of 100 at least; three launches together too, though they claim more than one of them."""
    plan, held = replace(PLAN, max_s=3.0), 0
    for seed in range(100):
        results = [timed(1.02, session_sd, 1000 * seed + launch, plan, 25 * MB)[0] for launch in range(launches)]
        span = results[0].speedup_ci
        if launches > 1:
            over = join_launches(results[0], results, LOOK_CONFIDENCE).over
            assert over is not None
            span = over.speedup_ci
        held += span.low <= 1 / 1.02 <= span.high
    assert held >= 93


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, least_speedup=None)])
def test_engines_that_wait_for_their_weights_are_timed_as_far_into_their_blocks(plan: LatencyPlan) -> None:
    """Runs of a block become faster as the cache fills, and warming up saw the candidate in a slow moment."""
    time, looks = SimulatedTime(1), list[int]()
    last, run_of_block = "", 0

    def engine(name: str) -> Callable[[], None]:
        def run() -> None:
            nonlocal last, run_of_block
            run_of_block = run_of_block + 1 if last == name else 0
            last = name
            slow = 1.5 if name == "candidate" and not looks else 1.0
            time.now_ns += int(1e6 * slow * (0.7 + 0.5 * 0.8**run_of_block))

        return run

    calls = engine("reference"), engine("null"), engine("candidate")
    reopening = Reopening(lambda: calls, OPENING_NS, 25 * MB)
    observe = partial(looks.append, 1)
    result = time.measure(*calls, plan, observe=observe, reopening=reopening)
    assert result.speedup_ci.low <= 1.0 <= result.speedup_ci.high
    for blocks in zip(result.reference.runs_ns, result.null.runs_ns, result.candidate.runs_ns, strict=True):
        assert len(set(map(len, blocks))) == 1
