"""The figures of a self-test: how far sessions and launches of one model lie apart, and which limits that leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_quant.result import KindNoise
from pytest_quant.spec import Spread
from pytest_quant.stats.rounds import judge_ratio
from pytest_quant.stats.runner import Draw, draw_of, held_limits, session_spread
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
