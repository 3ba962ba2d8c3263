"""Machines whose noise is known: generators of the times of rounds, many launches at once.

Nothing here waits: a world gives natural logarithms of the median time of each round, of reference, null and candidate,
as arrays that the functions of `pytest_quant.stats` take as they are. `research/verdicts.md` names the worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_quant.spec import Spread
from pytest_quant.stats.rounds import Looks, judge_ratio

Logs = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Logs]
"""Noise of each engine's rounds, of the given shape; the last axis is time, the one before it the three engines."""

ROUNDS = 40
ENGINES = 3

_SHARE = 1.0 / math.sqrt(2.0)
"""A ratio of two engines, or of two sessions, varies by sqrt(2) times what each of them does."""


@dataclass(frozen=True, slots=True)
class World:
    """A machine.

    Attributes
    ----------
    noise : of the rounds of one session.
    session_sd : standard deviation of log(reference / candidate) between sessions.
    lasting : the second measurement of a launch has the offsets of the first one.
    """

    noise: Noise
    session_sd: float = 0.005
    lasting: bool = False

    def launches(self, slower: float, launches: int, seed: int, *, measurements: int = 1, rounds: int = ROUNDS) -> Logs:
        """Return log times of shape ``(measurements, launches, 3, rounds)``; the reference takes 1 without noise.

        Parameters
        ----------
        slower : of the candidate against the reference: 0.05 is 5 % slower.
        launches : independent repetitions.
        seed : of everything drawn.
        measurements : of one launch, each in sessions of its own.
        rounds : of one measurement.
        """
        random = np.random.default_rng(seed)
        times = self.noise(random, (measurements, launches, ENGINES, rounds))
        sessions = (1 if self.lasting else measurements, launches, ENGINES, 1)
        times = times + random.normal(0.0, self.session_sd * _SHARE, sessions)
        times[:, :, -1] += math.log1p(slower)
        return times


def _normal(ratio_sd: float) -> Noise:
    """Independent rounds whose log ratio has this standard deviation."""
    return lambda random, shape: random.normal(0.0, ratio_sd * _SHARE, shape)


def _heavy_tails(random: np.random.Generator, shape: tuple[int, ...]) -> Logs:
    """Student's t with three degrees of freedom, of the standard deviation of the other worlds."""
    return 0.018 * _SHARE / math.sqrt(3.0) * random.standard_t(3, shape)


def _bursts(random: np.random.Generator, shape: tuple[int, ...]) -> Logs:
    """One block in eight is slowed down, by 15 % on average."""
    hit = random.random(shape) < 1.0 / 8.0
    return random.normal(0.0, 0.01, shape) + hit * random.exponential(0.15, shape)


def _drift_and_waves(random: np.random.Generator, shape: tuple[int, ...]) -> Logs:
    """A trend of 5 % and waves of 5 %, which all engines of a round share."""
    time = np.arange(shape[-1]) / ROUNDS
    start = random.random((*shape[:-2], 1, 1))
    return _normal(0.018)(random, shape) + 0.05 * time + 0.05 * np.sin(2.0 * math.pi * (3.0 * time + start))


def autoregressive(resemblance: float, ratio_sd: float = 0.018) -> Noise:
    """Return noise in which a round of an engine resembles its last one: AR(1) of that coefficient."""

    def noise(random: np.random.Generator, shape: tuple[int, ...]) -> Logs:
        fresh = _normal(ratio_sd)(random, shape)
        times = fresh.copy()
        for index in range(1, shape[-1]):
            from_last = resemblance * times[..., index - 1]
            times[..., index] = from_last + math.sqrt(1.0 - resemblance**2) * fresh[..., index]
        return times

    return noise


WORLDS: dict[str, World] = {
    "independent rounds": World(_normal(0.018), session_sd=0.0),
    "and sessions": World(_normal(0.018)),
    "quiet": World(_normal(0.006)),
    "bursts": World(_bursts),
    "heavy tails": World(_heavy_tails),
    "drift and waves": World(_drift_and_waves),
    "AR(0.5)": World(autoregressive(0.5)),
    "AR(0.8)": World(autoregressive(0.8)),
    "sessions of 1 %": World(_normal(0.018), session_sd=0.01, lasting=True),
}
"""By name. Rounds vary by 1.8 % and sessions by 0.5 % unless the name says otherwise."""


_LOOKS = Looks()


@dataclass(frozen=True, slots=True)
class Decided:
    """What one measurement of each launch says about a limit, one entry a launch.

    Attributes
    ----------
    failed, passed : the interval lies below the limit, or reaches it; neither is INCONCLUSIVE.
    rounds : that were timed.
    covered : the interval encloses the true ratio.
    """

    failed: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    rounds: NDArray[np.int_]
    covered: NDArray[np.bool_]


def decide(times: Logs, slower: float, limit: float, spread: Spread, looks: Looks = _LOOKS) -> Decided:
    """Judge one measurement of each launch against ``min_speedup=1 / (1 + limit)``, and stop at the look that decides.

    Parameters
    ----------
    times : log times of shape ``(launches, 3, rounds)``.
    slower : what the candidate truly is.
    limit : the slow-down that is allowed.
    spread : of the noise between sessions.
    looks : at the rounds.
    """
    launches, truth, least = len(times), -math.log1p(slower), -math.log1p(limit)
    failed, passed, covered = (np.zeros(launches, dtype=bool) for _ in range(3))
    rounds = np.zeros(launches, dtype=int)
    for look in looks.until(looks.most):
        open_ones = np.flatnonzero(rounds == 0)
        reference, null, candidate = (times[open_ones, engine, :look] for engine in range(ENGINES))
        span = judge_ratio(reference, null, candidate, looks, spread)[0].span
        below, reached = span.high < least, span.low >= least
        stops = below | reached | (look == looks.most)
        ended = open_ones[stops]
        failed[ended], passed[ended], rounds[ended] = below[stops], reached[stops], look
        covered[ended] = (span.low <= truth)[stops] & (truth <= span.high)[stops]
    return Decided(failed, passed, rounds, covered)
