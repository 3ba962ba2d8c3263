"""The figures of a self-test, from the rounds of fresh processes: how far they scatter, and what verdicts they give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pytest_quant.result import Interval, KindNoise, SlowdownSeen
from pytest_quant.stats.quantiles import sd_interval, share_interval
from pytest_quant.stats.rounds import autocorrelation, judge_ratio, judge_rounds
from pytest_quant.stats.runner import Draw, Spread, draw_of, held_limits, robust_sd, session_spread
from pytest_quant.stats.sequential import Floats, Looks

GATE_PCT = 3.0
"""Limit at which false alarms are counted: the usual one of a gate on speed."""

PLANTED_PCT = 5.0
"""More of the same work in the planted engine."""

_SHIFTS_PCT = (3.0, 5.0, 10.0)

FEWEST_PROCESSES = 3
"""With fewer there is no standard deviation between processes worth its name."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Reference, a second session of it, and another engine, interleaved: natural logarithms of their times.

    Each is an array with the processes on the first axis and their rounds on the second.
    """

    reference: Floats
    null: Floats
    candidate: Floats

    @property
    def ratio(self) -> Floats:
        """Logarithms of the speedup."""
        return self.reference - self.candidate

    @property
    def of_null(self) -> Floats:
        """Logarithms of null / reference, which are 0 but for noise."""
        return self.null - self.reference

    def draws(self) -> list[Draw]:
        """Return a draw of the noise between sessions from each process."""
        return [draw_of([float(one) for one in rounds]) for rounds in self.of_null]


@dataclass(frozen=True, slots=True)
class KindTimed:
    """One kind of model in every process: reference and candidate, then candidate and the planted engine.

    The second measurement has sessions of its own, and takes the candidate for its reference.
    """

    name: str
    candidate: Timed
    planted: Timed

    def draws(self) -> list[Draw]:
        """Return both draws of each process."""
        return [*self.candidate.draws(), *self.planted.draws()]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the processes show together.

    Attributes
    ----------
    kinds : of models, each by itself.
    alarms : processes in which unchanged code failed at `GATE_PCT`, for any kind.
    alarms_below_pct : largest rate of them that is not excluded at 95 %.
    """

    kinds: tuple[KindNoise, ...]
    alarms: int
    alarms_below_pct: float


def figures(timed: Sequence[KindTimed], prior: Spread) -> Figures:
    """Compute what a self-test says.

    Parameters
    ----------
    timed : kinds of models in the same processes, at least `FEWEST_PROCESSES`, of at least eight rounds each.
    prior : the noise between sessions of a runner that nobody measured.
    """
    processes, rounds = timed[0].candidate.reference.shape
    looks = Looks(most=rounds)
    # What the verdicts of later runs will know of this runner.
    known = session_spread(prior, [draw for kind in timed for draw in kind.draws()])
    alarmed = np.zeros(processes, dtype=bool)
    for kind in timed:
        for one in (kind.candidate, kind.planted):
            alarmed |= _failed(-one.of_null, GATE_PCT, looks, known)
    alarms = int(alarmed.sum())
    _, below = share_interval(alarms, processes)
    return Figures(tuple(_kind(one, prior, known, looks) for one in timed), alarms, 100.0 * below)


def _kind(kind: KindTimed, prior: Spread, known: Spread, looks: Looks) -> KindNoise:
    processes, rounds = kind.candidate.reference.shape
    ratio = kind.candidate.ratio
    draws = kind.draws()
    session = session_spread(prior, draws)
    launch = Spread(float(np.std(np.median(ratio, axis=1), ddof=1)), processes - 1.0)
    judged, _ = judge_ratio(kind.candidate.reference, kind.candidate.null, kind.candidate.candidate, looks, known)
    half_width = float(np.mean(judged.span.high - judged.span.low)) / 2.0
    held = held_limits(launch, half_width)
    return KindNoise(
        name=kind.name,
        reference_p50_ms=_median_ms(kind.candidate.reference),
        candidate_p50_ms=_median_ms(kind.candidate.candidate),
        processes=processes,
        rounds=rounds,
        round_sd_pct=100.0 * statistics.median(robust_sd([float(one) for one in row]) for row in ratio),
        autocorrelation=float(np.median(autocorrelation(ratio))),
        session_sd_pct=100.0 * session.sd,
        session_sd_ci=_in_percent(sd_interval(session.sd, session.freedom)),
        launch_sd_pct=100.0 * launch.sd,
        launch_sd_ci=_in_percent(sd_interval(launch.sd, launch.freedom)),
        half_width_pct=100.0 * math.expm1(half_width),
        slowdowns=(*_shifted(kind, known, looks), _planted(kind, known, looks)),
        one_pct=held.one_pct,
        five_pct=held.five_pct,
        five_each_pct=held.five_each_pct,
        draws=tuple((draw.log_ratio, draw.error) for draw in draws),
    )


def _shifted(kind: KindTimed, known: Spread, looks: Looks) -> Iterator[SlowdownSeen]:
    """Yield what is seen of sessions of one model, as they are and with one of them slowed down by so much."""
    unchanged = -np.concatenate([kind.candidate.of_null, kind.planted.of_null])
    for percent in _SHIFTS_PCT:
        slowed = unchanged - math.log1p(percent / 100.0)
        yield _seen(unchanged, slowed, percent, known, looks)


def _planted(kind: KindTimed, known: Spread, looks: Looks) -> SlowdownSeen:
    """Return what is seen of the planted engine beside the candidate, and of a second session of that."""
    ratio = kind.planted.ratio
    found = _seen(-kind.planted.of_null, ratio, PLANTED_PCT, known, looks)
    return replace(found, slowdown_pct=100.0 * math.expm1(-float(np.median(ratio, axis=1).mean())), is_planted=True)


def _seen(unchanged: Floats, slowed: Floats, percent: float, known: Spread, looks: Looks) -> SlowdownSeen:
    limit_pct = percent / 2.0
    failed, passed = _failed(slowed, limit_pct, looks, known), _passed(unchanged, limit_pct, looks, known)
    return SlowdownSeen(
        percent, limit_pct, 100.0 * float(failed.mean()), 100.0 * float(passed.mean()), int(failed.size)
    )


def _failed(speedups: Floats, limit_pct: float, looks: Looks, known: Spread) -> NDArray[np.bool_]:
    """Whether each row of rounds fails at a limit on the slowdown, at the first look that decides."""
    return _verdicts(speedups, limit_pct, looks, known) < 0


def _passed(speedups: Floats, limit_pct: float, looks: Looks, known: Spread) -> NDArray[np.bool_]:
    return _verdicts(speedups, limit_pct, looks, known) > 0


def _verdicts(speedups: Floats, limit_pct: float, looks: Looks, known: Spread) -> NDArray[np.int_]:
    """Return 1 for rows that pass at the first look that decides, -1 for those that fail, 0 where none decides."""
    allowed = -math.log1p(limit_pct / 100.0)
    verdicts = np.zeros(speedups.shape[0], dtype=np.int_)
    for rounds in looks.until(speedups.shape[1]):
        seen = speedups[:, :rounds]
        span = judge_rounds(seen, (seen,), looks, np.full(1, known.sd)).span
        now = np.where(span.low >= allowed, 1, np.where(span.high < allowed, -1, 0))
        verdicts = np.where(verdicts == 0, now, verdicts)
    return verdicts


def _median_ms(logs_of_ns: Floats) -> float:
    return math.exp(float(np.median(logs_of_ns))) / 1e6


def _in_percent(span: tuple[float, float]) -> Interval:
    return Interval(100.0 * span[0], 100.0 * span[1])
