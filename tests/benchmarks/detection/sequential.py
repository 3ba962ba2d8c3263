"""`--quant-sequential` on 50 000 right and wrong answers: how many of them it needs, and how often it is wrong."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data import Data
from pytest_quant.measure.early import Early, Sequences, random_order
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import Rate
from tests.benchmarks.detection.table import Row

N, LIMIT_PP = 50_000, 1.0
WON = 100
"""Samples that the candidate alone has right; those that it alone has wrong are as many, and the drop."""

RIGHT = 0.9
DROPS_PP = {"far": 0.1, "within": 0.98, "beyond": 1.02}
TRIALS = {"far": 100, "within": 100, "beyond": 100}
USED_AT_MOST_PCT, WRONG_AT_MOST_PCT = 20.0, 5.0


def trial(drop_pp: float, seed: int) -> Found:
    """Evaluate one set in random order, until it is decided or over."""
    random = np.random.default_rng(seed)
    early = Early(
        data=cast("Data", None),
        order=random_order(N),
        limits={"drop": LIMIT_PP / 100.0},
        rate=100.0,
        better="higher",
        confidence=0.95,
        finite=True,
    )
    reference, candidate = _answers(drop_pp, random)
    sequences = Sequences(early)
    for start in range(0, N, early.chunk):
        part = slice(start, start + early.chunk)
        scores = reference[part], candidate[part]
        sequences.add(len(scores[0]), scores, None)
        if sequences.decided:
            so_far = float(np.mean(reference[: part.stop] - candidate[: part.stop]))
            return {"used": min(part.stop, N), "passes": so_far < LIMIT_PP / 100.0}
    return {"used": N, "passes": drop_pp < LIMIT_PP}


def _answers(drop_pp: float, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return which answers of reference and candidate are right, as 1.0, in random order; the drop is exact."""
    lost = WON + round(N * drop_pp / 100.0)
    reference = np.zeros(N)
    candidate = np.zeros(N)
    both = round(N * RIGHT)
    reference[: both + lost] = 1.0
    candidate[:both] = 1.0
    candidate[both + lost : both + lost + WON] = 1.0
    order = random.permutation(N)
    return reference[order], candidate[order]


def arms() -> list[Arm]:
    """A drop far from the limit, and one on either side of it."""
    return [Arm(_key(name), TRIALS[name], partial(trial, drop)) for name, drop in DROPS_PP.items()]


def _key(name: str) -> str:
    return f"sequential {name}"


def rows(ledger: Ledger) -> list[Row]:
    """The samples that were needed, and the wrong decisions."""
    return list(_rows(ledger))


def _rows(ledger: Ledger) -> Iterator[Row]:
    used = [100.0 * int(str(one["used"])) / N for one in ledger.trials(_key("far"))]
    yield Row(
        f"`--quant-sequential`, drop {DROPS_PP['far']:g}, limit {LIMIT_PP:g}, n = {N}: samples used",
        f"<= {USED_AT_MOST_PCT:g} %",
        f"median {statistics.median(used):.1f} %, at most {max(used):.1f} % (n={len(used)})" if used else "not run",
        statistics.median(used) <= USED_AT_MOST_PCT if used else None,
    )
    for name in ("within", "beyond"):
        trials = ledger.trials(_key(name))
        wrong = Rate(sum(bool(one["passes"]) is not (DROPS_PP[name] < LIMIT_PP) for one in trials), len(trials))
        yield Row(
            f"`--quant-sequential`, drop {DROPS_PP[name]:g}, limit {LIMIT_PP:g}: wrong verdict",
            f"<= {WRONG_AT_MOST_PCT:g} %",
            str(wrong),
            wrong.pct <= WRONG_AT_MOST_PCT if wrong.n else None,
        )
