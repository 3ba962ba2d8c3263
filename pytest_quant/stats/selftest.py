"""The figures of a self-test: how far sessions and launches of one model lie apart, and which limits that leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_quant.result import KindNoise
from pytest_quant.spec import Spread
from pytest_quant.stats.draws import Draw, draw_of, session_spread
from pytest_quant.stats.ratio import student_quantile
from pytest_quant.stats.rounds import judge_ratio
from pytest_quant.stats.sequential import Floats, Looks

FEWEST_LAUNCHES = 3
"""With fewer there is no standard deviation between launches worth its name."""


@dataclass(frozen=True, slots=True)
class KindTimed:
    """One kind of model: natural logarithms of the times of its rounds.

    Attributes
    ----------
    name : of the kind.
    reference, null, candidate : (launches, rounds), interleaved; the null is a second session of the reference.
    """

    name: str
    reference: Floats
    null: Floats
    candidate: Floats

    def draws(self) -> list[Draw]:
        """Return a draw of the noise between sessions from each launch."""
        return [draw_of([float(log) for log in rounds]) for rounds in self.null - self.reference]


def kinds_noise(timed: Sequence[KindTimed], prior: Spread) -> tuple[KindNoise, ...]:
    """Return the noise of each kind of model.

    Parameters
    ----------
    timed : kinds of models in the same launches, at least `FEWEST_LAUNCHES`, of at least eight rounds each.
    prior : the noise between sessions of a runner that nobody measured.
    """
    # The verdicts of later runs will allow for this much.
    learned = session_spread(prior, [draw for kind in timed for draw in kind.draws()])
    return tuple(_noise_of(kind, prior, learned) for kind in timed)


def _noise_of(kind: KindTimed, prior: Spread, learned: Spread) -> KindNoise:
    launches, rounds = kind.reference.shape
    draws = kind.draws()
    speedups = np.median(kind.reference - kind.candidate, axis=1)
    launch = Spread(float(np.std(speedups, ddof=1)), launches - 1.0)
    judged, _ = judge_ratio(kind.reference, kind.null, kind.candidate, Looks(most=rounds), learned)
    held = held_limits(launch, float(np.mean(judged.span.high - judged.span.low)) / 2.0)
    return KindNoise(
        name=kind.name,
        session_sd_pct=100.0 * session_spread(prior, draws).sd,
        launch_sd_pct=100.0 * launch.sd,
        one_pct=held.one_pct,
        five_pct=held.five_pct,
        five_each_pct=held.five_each_pct,
        draws=tuple((draw.log_ratio, draw.error) for draw in draws),
    )


@dataclass(frozen=True, slots=True)
class Held:
    """The smallest limits that a machine can hold, in percent, and what was assumed.

    Attributes
    ----------
    one_pct : judged in one launch.
    five_pct : judged over five launches, against a number that is known.
    five_each_pct : five launches against a baseline of five.
    """

    one_pct: float
    five_pct: float
    five_each_pct: float


FALSE_ALARMS = 0.01
POWER = 0.80
_LAUNCHES = 5


def held_limits(launch: Spread, half_width: float, *, confidence: float = 0.95) -> Held:
    """Return the smallest limits L at which verdicts are worth something on a machine.

    A limit is held where code that did not change passes in at least 80 % of the runs and fails in at most 1 %, and
    code that became slower by twice the limit fails in at least 80 %. A run says log ratio +- w, passes where all of
    that lies within L, and fails where all of it lies beyond; the log ratio has the standard deviation s. Unchanged
    code passes in 80 % of the runs where L >= w + t(0.80) s, and fails in 1 % where L >= t(0.99) s - w; what lost twice
    the limit is the first case mirrored. Over m launches s is divided by sqrt(m), and w is t(0.975) times that.

    Parameters
    ----------
    launch : the spread of one launch's log ratio: between processes, rounds included.
    half_width : w of one launch, as a natural logarithm.
    confidence : of the interval over launches, 0..1.
    """
    passes, fails = _one_sided(POWER, launch.freedom), _one_sided(1.0 - FALSE_ALARMS, launch.freedom)

    def held(sd: float, width: float) -> float:
        return 100.0 * math.expm1(max(width + passes * sd, fails * sd - width))

    of_five = launch.sd / math.sqrt(_LAUNCHES)
    reach = student_quantile(confidence, launch.freedom)
    both = math.sqrt(2.0) * of_five
    return Held(held(launch.sd, half_width), held(of_five, reach * of_five), held(both, reach * both))


def _one_sided(share: float, freedom: float) -> float:
    """Return the t with P(T <= t) = `share`, above one half."""
    return student_quantile(2.0 * share - 1.0, freedom)


_STEPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0)


def to_write(limit_pct: float) -> float:
    """Return the next round number of percent that is not below a limit; whole tens above 50."""
    return next((step for step in _STEPS if step >= limit_pct), 10.0 * math.ceil(limit_pct / 10.0))
