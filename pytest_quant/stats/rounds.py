"""Rounds judged while they come in: a group-sequential sign test, wider for alike neighbours and noise of sessions.

A round is beyond a limit or not. As long as the true median is not, each round is beyond with probability 1/2 at most,
whatever the distribution, and so the chance that many of them are is known exactly, over all looks together.

Every function takes arrays with the rounds on the last axis, so that one call serves one measurement or thousands.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.spec import Spread
from pytest_quant.stats.means import MEDIAN_EFFICIENCY, NORMAL_MAD, ValueWithError, mean_of_launches, session_spread
from pytest_quant.stats.ratio import Estimate

Floats = NDArray[np.float64]


Boundary: TypeAlias = tuple[tuple[int | None, ...], float]
"""When a group-sequential sign test rejects.

How many rounds must lie beyond the limit at each look, ``None`` where even all of them do not suffice, and the exact
probability that any look rejects a true median that lies at the limit.
"""


@cache
def sign_boundary(looks: tuple[int, ...], spent: tuple[float, ...]) -> Boundary:
    """Return the boundary that spends a given error up to each look (Lan and DeMets 1983, Biometrika 70, 659-663).

    By recursion from look to look over the number of rounds beyond the limit (Armitage, McPherson and Rowe 1969,
    JRSS A 132, 235-244): each step adds binomial(rounds since the last look, 1/2), and what crosses leaves.

    Parameters
    ----------
    looks : numbers of rounds, ascending, at least 1.
    spent : for each look, the largest one-sided error up to and including it, ascending; what a look cannot spend,
        because counts are whole, the next one may.
    """
    staying, last, error = np.ones(1), 0, 0.0
    beyond: list[int | None] = []
    for rounds, allowed in zip(looks, spent, strict=True):
        fresh = rounds - last
        chances = np.array([math.comb(fresh, k) for k in range(fresh + 1)], dtype=np.float64) / 2.0**fresh
        staying, last = np.convolve(staying, chances), rounds
        crossing = np.cumsum(staying[::-1])[::-1]  # at index k: that k rounds or more lie beyond
        affordable = np.flatnonzero(crossing <= allowed - error)
        if not affordable.size:
            beyond.append(None)
            continue
        least = int(affordable[0])
        error += float(crossing[least])
        staying[least:] = 0.0
        beyond.append(least)
    return tuple(beyond), error


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at the rounds of one measurement, with errors that hold over all looks together.

    Attributes
    ----------
    first, every : rounds at the first look, and between two of them.
    most : rounds at the last look.
    confidence : of the two-sided interval over all looks, 0..1; each side may err by half of the rest.
    """

    first: int = 8
    every: int = 8
    most: int = 40
    confidence: float = 0.95

    def until(self, rounds: int) -> tuple[int, ...]:
        """Return the looks up to `rounds`, itself a look: when the time is spent, the last look comes early."""
        return (*range(self.first, min(rounds, self.most), self.every), min(rounds, self.most))

    def boundary(self, rounds: int) -> Boundary:
        """Return the boundary of the looks up to `rounds`.

        The error is spent in proportion to the rounds. A look that comes early because the time is spent may take all
        that is left: it is the last one, and the clock, not the ratio, chose it.
        """
        error, looks = (1.0 - self.confidence) / 2.0, self.until(rounds)
        planned = rounds >= self.first and (rounds - self.first) % self.every == 0
        shares = [look / self.most for look in looks[:-1]] + [rounds / self.most if planned else 1.0]
        return sign_boundary(looks, tuple(error * min(share, 1.0) for share in shares))


@dataclass(frozen=True, slots=True)
class Span:
    """A median and an interval around it, or arrays with an entry for each measurement; all in one unit."""

    value: Floats
    low: Floats
    high: Floats


def median_span(values: Floats, beyond: int | None) -> Span:
    """Return the median of the last axis with the interval of all medians that the sign test does not reject.

    That is the repeated confidence interval (Jennison and Turnbull 1989, JRSS B 51, 305-361) of the look: between two
    order statistics, it lies beyond a limit exactly when at least `beyond` of the values do. A value that ties with the
    limit is not beyond it.

    Parameters
    ----------
    values : of any shape, one for each round on the last axis.
    beyond : of a `Boundary`; ``None`` gives the range of all values, of which less is known.
    """
    ordered = np.sort(values, axis=-1)
    rounds = ordered.shape[-1]
    count = rounds if beyond is None else beyond
    return Span(np.median(ordered, axis=-1), ordered[..., rounds - count], ordered[..., count - 1])


@dataclass(frozen=True, slots=True)
class JudgedRounds:
    """A logarithm with the interval it is judged on, and what made that wide.

    Attributes
    ----------
    span : median over rounds, and the interval of the true value.
    alike : correlation of a round with its neighbour, 0..1, as far as it widens.
    effective_rounds : how many independent rounds tell as much.
    session_sd : standard deviation between sessions that the interval allows for.
    """

    span: Span
    alike: Floats
    effective_rounds: Floats
    session_sd: Floats


def autocorrelation(values: Floats) -> Floats:
    """Return the correlation of each value of the last axis with its predecessor, -1..1; 0 if all are equal."""
    off = values - values.mean(axis=-1, keepdims=True)
    power = (off * off).sum(axis=-1)
    return np.asarray((off[..., 1:] * off[..., :-1]).sum(axis=-1) / np.where(power > 0.0, power, 1.0))


def resemblance(values: Floats, levels: int = 1) -> Floats:
    """Return the correlation of neighbours without the bias of short series, 0 to 0.9.

    Over n values r falls short of the true one by (1 + 4 r) / n (Marriott and Pope 1954, Biometrika 41, 390-402); where
    the values are several levels in a row, each without its middle, n is the length of one.
    """
    n = values.shape[-1] / levels
    unbiased = (autocorrelation(values) + 1.0 / n) / max(1.0 - 4.0 / n, 0.5)
    # Of 40 rounds, resemblance beyond that leaves two; nothing is decided there.
    return np.asarray(np.clip(unbiased, 0.0, 0.9))


def moderate_sd(prior: Spread, deviation: Floats, error: Floats) -> Floats:
    """Return the standard deviation between sessions after a pair of sessions was found `deviation` apart.

    What was known counts as `known.freedom` draws, the new one once (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3, 3):
    its square, less what its rounds alone explain.

    Parameters
    ----------
    prior : before this launch.
    deviation : logarithm of null / reference.
    error : standard error of `deviation` from its rounds.
    """
    shown = np.maximum(deviation**2 - error**2, 0.0)
    return np.sqrt((prior.freedom * prior.sd**2 + shown) / (prior.freedom + 1.0))


def widen_span(span: Span, rounds_times: Floats, session: Floats) -> Span:
    """Widen an interval of rounds, and add the independent error of a session.

    Independent errors are combined by their squares on either side of the value (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702), so that neither end needs to be that of a normal distribution.

    Parameters
    ----------
    span : of rounds.
    rounds_times : factor of its half-widths, 1 or more.
    session : half-width of the error of a session.
    """
    low = span.value - np.hypot(rounds_times * (span.value - span.low), session)
    high = span.value + np.hypot(rounds_times * (span.high - span.value), session)
    return Span(span.value, low, high)


def judge_ratio(
    reference: Floats, null: Floats, candidate: Floats, looks: Looks, prior: Spread
) -> tuple[JudgedRounds, JudgedRounds]:
    """Judge log(reference / candidate), and log(null / reference), which shows how far sessions lie apart.

    Parameters
    ----------
    reference, null, candidate : logarithms of the times of the same rounds.
    looks : at these rounds, of which the last is now.
    prior : of the noise between sessions, before this launch.

    Returns
    -------
    ratio, of_null : the second one's interval is that of these two sessions, without noise between sessions.
    """
    ratio, of_null, rounds = reference - candidate, null - reference, reference.shape[-1]
    neighbours = ratio, null - (reference + candidate) / 2.0  # these two do not share the noise of an engine
    apart = judge_rounds(of_null, neighbours, looks, np.zeros(1))
    # The k-th of n order statistics lies (2 k - n) / sqrt(n) standard errors from the median: Conover 1999, section
    # 3.2.
    beyond = looks.boundary(rounds)[0][-1]
    errors = (2 * (rounds if beyond is None else beyond) - rounds) / rounds**0.5
    sd = moderate_sd(prior, apart.span.value, (apart.span.high - apart.span.low) / (2.0 * errors))
    return judge_rounds(ratio, neighbours, looks, sd), apart


@dataclass(frozen=True, slots=True)
class SessionSet:
    """What the rounds of one set of sessions say, two of the reference and one of the candidate; natural logarithms.

    Attributes
    ----------
    ratio : reference / candidate, both sessions of the reference counting alike.
    null : second session of the reference / first one.
    candidate : time of the candidate.
    """

    ratio: ValueWithError
    null: ValueWithError
    candidate: ValueWithError


def session_sets(reference: Floats, null: Floats, candidate: Floats, sizes: Sequence[int]) -> list[SessionSet]:
    """Return what each set of sessions says.

    A set's ratio is the mean of two medians, one for each session of the reference: times are skewed, and the median of
    a mean of two of them, less a third, is not 0 where all three are alike.

    A set has few rounds, which tell little about their own noise, and rounds of all sets are alike: the standard
    deviation around the median of their set, and the correlation with the round before, are those of all rounds
    together. The error of a median is sqrt(pi / 2) standard errors of a mean (Kendall and Stuart 1977, volume 1,
    section 10.10), and rounds that resemble their neighbours count for fewer, see `judge_rounds`.

    Parameters
    ----------
    reference, null, candidate : logarithms (rounds,) of the times of the same rounds, those of one set in a row.
    sizes : rounds of each set, in order.
    """
    ends = np.cumsum(sizes)[:-1]

    def medians(series: Floats) -> Floats:
        return np.array([np.median(of_set) for of_set in np.split(series, ends)])

    ratios = (medians(reference - candidate) + medians(null - candidate)) / 2.0
    series = (reference + null) / 2.0 - candidate, null - reference, candidate
    within = [values - np.repeat(medians(values), sizes) for values in series]
    alike = [float(resemblance(values, len(sizes))) for values in within]
    alike[:2] = [max(alike[:2])] * 2  # ratio and null do not share the noise of an engine
    left = 1.0 - len(sizes) / len(reference)  # of the degrees of freedom, where each set takes one for its median
    errors = [
        MEDIAN_EFFICIENCY * NORMAL_MAD * float(np.median(np.abs(values))) * math.sqrt((1.0 + r) / (1.0 - r) / left)
        for values, r in zip(within, alike, strict=True)
    ]
    values = np.stack([ratios, medians(null - reference), medians(candidate)], axis=1).tolist()
    of_medians = (np.array(errors) / np.sqrt(sizes)[:, None]).tolist()
    return [SessionSet(*map(ValueWithError, *of_set)) for of_set in zip(values, of_medians, strict=True)]


OF_RATIO = 0.75
"""Variance between sessions of log(reference / candidate) where two sessions of the reference count: 1 + 1/2 sessions,
in place of the 1 + 1 of the null."""


def judge_sets(
    sets: Sequence[SessionSet], prior: Spread, confidence: float
) -> tuple[Estimate, Estimate, Estimate, float]:
    """Judge two or more sets of sessions; each set is a draw of the noise between sessions.

    Each null is one more draw of that noise, independent of the ratio beside it, since the mean of two sessions and
    their difference are. They are averaged with what was known, see `session_spread`, and then with what the sets' own
    ratios show, see `mean_of_launches`: launches differ as sets do.

    Returns
    -------
    Means of ratio, null and candidate over the sets with their intervals, see `SessionSet`, and the standard deviation
    between two sessions that the sets show, together with what was known; natural logarithms.
    """
    spread = session_spread(prior, [each.null for each in sets])

    def mean(draws: list[ValueWithError], share: float) -> Estimate:
        of_mean = Spread(math.sqrt(share) * spread.sd, spread.freedom)
        values, errors = [draw.value for draw in draws], [draw.error for draw in draws]
        return mean_of_launches(values, errors, of_mean, confidence=confidence, draws=2 * len(sets))

    return (
        mean([each.ratio for each in sets], OF_RATIO),
        mean([each.null for each in sets], 1.0),
        mean([each.candidate for each in sets], 0.5),
        spread.sd,
    )


def reach(confidence: float) -> float:
    """Return how many standard deviations to either side a normal value lies with `confidence`: 1.96 at 95 %."""
    return statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0)


def judge_rounds(values: Floats, neighbours: tuple[Floats, ...], looks: Looks, session_sd: Floats) -> JudgedRounds:
    """Return the interval of the true median of logarithms.

    Where rounds resemble their neighbours, n of them tell as much as n (1 - r) / (1 + r) independent ones (Bayley and
    Hammersley 1946, JRSS Suppl. 8, 184-197), and the interval of the sign test is wider by the root of that.

    Parameters
    ----------
    values : logarithms, the rounds on the last axis.
    neighbours : series of the same rounds that tell r, of which the largest counts.
    looks : taken so far at such rounds, the last one now.
    session_sd : standard deviation between sessions; 0 for an interval of these sessions alone.
    """
    n = values.shape[-1]
    alike = np.max([resemblance(neighbour) for neighbour in neighbours], axis=0)
    share = (1.0 - alike) / (1.0 + alike)
    of_rounds = median_span(values, looks.boundary(n)[0][-1])
    whole = widen_span(of_rounds, 1.0 / np.sqrt(share), reach(looks.confidence) * session_sd)
    return JudgedRounds(whole, alike, np.maximum(n * share, 1.0), session_sd)
