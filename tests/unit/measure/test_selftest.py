"""A self-test makes launches until it has enough, and finds their noise and the limits that checks hold with it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_quant.backends import get_backend
from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.errors import BackendUnavailable, LaunchError, UsageError
from pytest_quant.measure import selftest
from pytest_quant.measure.selftest import Effort, LogTimes, held_limits, kinds_noise, run_selftest, session_draws
from pytest_quant.report.selftest_page import round_limit
from pytest_quant.result import Blocks, LatencyResult, SelfTest
from pytest_quant.spec import UNMEASURED, LatencyPlan, Spread
from pytest_quant.stats.means import session_spread
from pytest_quant.stats.rounds import Looks, judge_ratio
from tests.support.measuring import QuietSteps
from tests.unit.record.examples import LATENCY

IDENTITY = {"cpu": "Some CPU"}
TINY = WORKLOADS[:1]


class Played:
    """Stands in for all launches, and is the clock: time passes only while one of them runs.

    Each times `rounds` of known noise and takes `seconds`; the one with the number `ends` is interrupted, and `dies`
    lets the first one die.
    """

    def __init__(self, rounds: int = 40, ends: int | None = None, seconds: float = 0.0, *, dies: bool = False) -> None:
        self._rounds, self._ends, self._seconds, self._dies = rounds, ends, seconds, dies
        self._rng, self._started = np.random.default_rng(0), 0
        self.seeds: list[int] = []

    def clock(self) -> float:
        """Return the seconds that have passed."""
        return self._started * self._seconds

    def __call__(self, _file: Path, limit_s: float) -> Self:
        """Be one launch."""
        assert limit_s > 0.0
        return self

    def __enter__(self) -> Self:
        """Open the engines."""
        self._started += 1
        if self._started == self._ends:
            raise KeyboardInterrupt
        if self._dies:
            raise LaunchError("opening ort-int8 failed", value="it died with signal 4", fix="ask", log="its.log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time them; load disturbs the first two launches."""
        self.seeds.append(plan.seed)
        busy = ("busy machine",) if self._started < 3 else ()
        reference, null, candidate = (self._blocks(ns) for ns in (1e5, 1e5, 5e4))
        return replace(
            LATENCY, rounds=self._rounds, reference=reference, null=null, candidate=candidate, disturbances=busy
        )

    def _blocks(self, ns: float) -> Blocks:
        times = ns * np.exp(self._rng.normal(0.0, 0.01, self._rounds))
        return Blocks(tuple((round(time),) for time in times))


class Said(QuietSteps):
    """Keeps its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def notify(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


def measured(monkeypatch: pytest.MonkeyPatch, launches: Played, effort: Effort) -> tuple[SelfTest, list[str]]:
    """Run a self-test with played launches; the engines are built for real."""
    monkeypatch.setattr(selftest, "TimingProcess", launches)
    steps = Said()
    result = run_selftest(effort, IDENTITY, steps=steps, backend="ort", clock=launches.clock)
    return result, steps.said


def test_every_launch_counts_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of five, one line each, and each in an order of its own."""
    launches = Played()
    result, said = measured(monkeypatch, launches, Effort(launches=5, kinds=TINY))
    assert (result.launches, result.planned, result.backend, result.device) == (5, 5, "ort", "cpu")
    assert dict(result.identity) == IDENTITY
    assert [line.split(":")[0] for line in said[1:]] == [f"launch {number} of 5" for number in range(1, 6)]
    assert result.notes == ("busy machine in 2 of 5 launches",)
    assert len(result.kinds[0].draws) == 5
    assert len(set(launches.seeds)) == 5


@pytest.mark.parametrize(
    ("launches", "effort", "number", "said"),
    [
        (Played(ends=4), Effort(kinds=TINY), 3, "interrupted: the 3 launches that were measured count"),
        # After four of 10 s each, another one would be over at 50 of 45 s.
        (Played(seconds=10.0), Effort(10, 45.0, kinds=TINY), 4, "the time is spent after 4 of 10 launches"),
    ],
)
def test_what_was_measured_by_the_end_counts(
    monkeypatch: pytest.MonkeyPatch, launches: Played, effort: Effort, number: int, said: str
) -> None:
    """An interrupt ends it, and so does the budget: no launch is begun that would end past it."""
    result, texts = measured(monkeypatch, launches, effort)
    assert (result.launches, result.planned, texts[-1]) == (number, effort.launches, said)
    assert result.seconds == launches.clock()


def test_a_machine_without_time_for_eight_rounds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures would mean nothing."""
    with pytest.raises(LaunchError, match="too slow, or too busy"):
        measured(monkeypatch, Played(rounds=7), Effort(launches=3, kinds=TINY))


def test_without_a_backend_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names those that could be, and the command that tells what they need."""
    monkeypatch.setattr(selftest, "backend_names", lambda: ("ort-cuda", "torch"))
    with pytest.raises(BackendUnavailable, match="nothing to time") as raised:
        run_selftest(Effort(kinds=TINY), IDENTITY, steps=Said())
    assert "pytest-quant doctor" in str(raised.value)


@pytest.mark.parametrize("names", [("openvino", "ort", "trt-rtx"), ("openvino", "trt-rtx")])
def test_an_installed_backend_is_taken_that_is_no_simulation(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The one that offers most, and another where that is not there."""
    wanted = "ort" if "ort" in names else "openvino"
    if not get_backend(wanted).availability().available:
        pytest.skip(f"{wanted} cannot run here")
    monkeypatch.setattr(selftest, "backend_names", lambda: names)
    monkeypatch.setattr(selftest, "TimingProcess", Played())
    result = run_selftest(Effort(3, kinds=TINY), IDENTITY, steps=Said())
    assert result.backend == wanted


@pytest.mark.parametrize(
    ("name", "error"), [("torch", UsageError), ("otr", UsageError), ("ort-cuda", BackendUnavailable)]
)
def test_a_backend_that_cannot_be_timed_is_refused(name: str, error: type[Exception]) -> None:
    """It reads no files, is unknown, or its device is not here."""
    if get_backend("ort-cuda").availability().available:
        pytest.skip("a GPU is here")
    with pytest.raises(error):
        run_selftest(Effort(kinds=TINY), IDENTITY, steps=Said(), backend=name)


ROUNDS = 40


def a_kind(launches: int, *, round_sd: float, session_sd: float, launch_sd: float, seed: int = 0) -> LogTimes:
    """Rounds of 0.1 ms and twice as fast.

    The ratio of two sessions differs by `session_sd`, so that each has that divided by the root of two.
    """
    rng = np.random.default_rng(seed)
    launch = rng.normal(0.0, launch_sd, (launches, 1))

    def engine(log_ns: float) -> np.ndarray:
        session = rng.normal(0.0, session_sd / math.sqrt(2.0), (launches, 1))
        return log_ns + session + rng.normal(0.0, round_sd / math.sqrt(2.0), (launches, ROUNDS))

    return engine(math.log(1e5)), engine(math.log(1e5)), engine(math.log(5e4)) + launch


def test_the_spreads_that_were_put_in_are_found() -> None:
    """Of 800 launches: sessions 0.8 %, and launches with all of sessions and rounds 1.3 %."""
    (noise,) = kinds_noise({"tiny": a_kind(800, round_sd=0.015, session_sd=0.008, launch_sd=0.010)}, UNMEASURED)
    of_median = math.sqrt(math.pi / 2.0) * 0.015 / math.sqrt(ROUNDS)
    assert noise.session_sd_pct == pytest.approx(0.8, rel=0.06)
    assert noise.launch_sd_pct == pytest.approx(100 * math.hypot(0.008, 0.010, of_median), rel=0.06)
    assert len(noise.draws) == 800


def test_what_one_kind_shows_of_sessions_widens_the_limits_of_all() -> None:
    """Later checks allow for the noise of the runner, whatever their model."""
    quiet = a_kind(20, round_sd=0.002, session_sd=0.001, launch_sd=0.001)
    loud = a_kind(20, round_sd=0.002, session_sd=0.04, launch_sd=0.001)
    (alone,), (beside, _) = (kinds_noise(kinds, UNMEASURED) for kinds in ({"a": quiet}, {"a": quiet, "b": loud}))
    assert beside.session_sd_pct == alone.session_sd_pct
    assert beside.one_pct > 2.0 * alone.one_pct


def _share(kind: LogTimes, allowed: float, looks: Looks, spread: Spread, *, passed: bool) -> float:
    """The share of launches that pass, or fail, at the first look that decides: by the rule of ordinary checks."""
    verdicts = np.zeros(kind[0].shape[0])
    for rounds in looks.until(ROUNDS):
        reference, null, candidate = (side[:, :rounds] for side in kind)
        span = judge_ratio(reference, null, candidate, looks, spread)[0].span
        now = np.where(span.low >= allowed, 1, np.where(span.high < allowed, -1, 0))
        verdicts = np.where(verdicts == 0, now, verdicts)
    return float(np.mean(verdicts > 0 if passed else verdicts < 0))


@pytest.mark.parametrize("spreads", [(0.006, 0.003, 0.003), (0.018, 0.01, 0.01), (0.03, 0.02, 0.005)])
def test_the_limit_that_is_told_is_held_by_ordinary_checks(spreads: tuple[float, float, float]) -> None:
    """Of 30 self-tests of 20 launches, each asked with 200 later launches of the same machine.

    On average 80 % of unchanged code pass and at most 1 % fail, and 80 % of what lost twice the limit fail. The limits
    of single self-tests scatter, so that the average of 30 is known within 2 %.
    """
    rounds, sessions, launches = spreads
    machine = partial(a_kind, round_sd=rounds, session_sd=sessions, launch_sd=launches)
    rates = []
    for seed in range(30):
        tested = machine(20, seed=seed)
        (noise,) = kinds_noise({"tiny": tested}, UNMEASURED)
        spread = session_spread(UNMEASURED, session_draws(tested))
        later = machine(200, seed=1000 + seed)
        limit = math.log1p(noise.one_pct / 100.0)
        slower = (*later[:2], later[2] + 2.0 * limit)
        terms = (math.log(2.0) - limit, Looks(most=ROUNDS), Spread(spread.sd, min(spread.freedom, 20.0)))
        passing, failing = (_share(later, *terms, passed=passed) for passed in (True, False))
        rates.append((passing, failing, _share(slower, *terms, passed=False)))
    passed, alarmed, caught = np.mean(rates, axis=0)
    assert passed >= 0.78
    assert alarmed <= 0.01
    assert caught >= 0.78


def test_five_launches_hold_a_smaller_limit() -> None:
    """By the formula: (t(0.975) + t(0.80)) s / sqrt(5), and sqrt(2) of it where the baseline is measured too."""
    one_pct, five_pct, five_each_pct = held_limits(Spread(0.01, 19.0), 0.02)
    t = scipy_stats.t.ppf(0.975, 19) + scipy_stats.t.ppf(0.80, 19)
    assert five_pct == pytest.approx(100 * math.expm1(t * 0.01 / math.sqrt(5)))
    assert five_each_pct == pytest.approx(100 * math.expm1(t * 0.01 * math.sqrt(2 / 5)))
    assert one_pct == pytest.approx(100 * math.expm1(0.02 + scipy_stats.t.ppf(0.80, 19) * 0.01))


@pytest.mark.parametrize(("limit", "written"), [(0.2, 0.5), (2.0, 2.0), (2.01, 2.5), (17.0, 20.0), (61.0, 70.0)])
def test_a_limit_is_written_as_a_round_number_above_it(limit: float, written: float) -> None:
    """Never below what is held."""
    assert round_limit(limit) == written
