"""`--quant-against`: pairs of processes of the same code and of 5 % more work, real ones and simulated ones."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.pairs import PairedTimes, TimedPair, time_pair, time_pairs
from pytest_quant.measure.timing_process import TimingProcess
from pytest_quant.spec import LatencyPlan
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.launches import check_file
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.rates import counted, rate
from tests.benchmarks.detection.table import Row, at_least, at_most

LIMIT_PCT = 3.0
MODELS = ("products", "convolutions")
REAL = {0.0: 50, 5.0: 20}
"""Comparisons of each model, by percent more work at the head."""

PLAN = LatencyPlan(max_s=1.0)
SDS_PCT = (0.5, 1.0)
WITHIN_SD = 0.002
"""Standard error of the shift of one pair from its rounds, as 40 of 3 % have it."""

BATCH, BATCHES = 100, 10
FALSE_AT_MOST_PCT, COVERED_AT_LEAST_PCT = 1.0, 93.0
CAUGHT_AT_LEAST_PCT = {0.5: 95.0, 1.0: 90.0}


def compared(base: Path, head: Path, seed: int) -> PairedTimes:
    """Time the check of a file against that of another, as the plugin does with two commits."""

    def one_pair(number: int) -> TimedPair:
        with ExitStack() as held:
            held.enter_context(DeviceLocks(lambda _: None).exclusive("cpu"))
            sides = [held.enter_context(TimingProcess(file)) for file in (base, head)]
            return time_pair(sides[0].block, sides[1].block, PLAN, seed=seed + number)

    return time_pairs(one_pair, math.log1p(LIMIT_PCT / 100.0), same_reference=True)


def trial(folder: Path, name: str, more_pct: float, seed: int) -> Found:
    """Compare a model with itself with more work."""
    result = compared(check_file(folder, name, 0.0), check_file(folder, name, more_pct), seed)
    return {
        "side": result.side,
        "pairs": len(result.pairs),
        "voided": len(result.voided),
        "shift": None if result.shift is None else result.shift.value,
        "span": None if result.shift is None else [result.shift.low, result.shift.high],
        "sd": None if result.shift is None else statistics.stdev(pair.shift for pair in result.pairs),
    }


def batch(sd: float, more_pct: float, seed: int) -> Found:
    """Simulate so many comparisons, whose launches of each side have that spread."""
    random = np.random.default_rng(seed)
    truth, limit = math.log1p(more_pct / 100.0), math.log1p(LIMIT_PCT / 100.0)
    spread = math.hypot(math.sqrt(2.0) * sd, WITHIN_SD)

    def one_pair(number: int) -> TimedPair:
        return TimedPair(float(random.normal(truth, spread)), 0.0, 1.0, 1.0, PLAN.max_rounds)

    sides = [time_pairs(one_pair, limit, same_reference=True).side for _ in range(BATCH)]
    return {"n": BATCH, "above": sides.count("above"), "within": sides.count("within")}


def arms(folder: Path) -> list[Arm]:
    """Real ones for each model, simulated ones for each spread of launches."""
    real = [
        Arm(_key(name, pct), wanted, partial(trial, folder, name, pct))
        for pct, wanted in REAL.items()
        for name in MODELS
    ]
    return [
        *real,
        *(Arm(_simulated(sd, pct), BATCHES, partial(batch, sd / 100.0, pct)) for sd in SDS_PCT for pct in REAL),
    ]


def _key(name: str, more_pct: float) -> str:
    return f"against +{more_pct:g} {name}"


def _simulated(sd_pct: float, more_pct: float) -> str:
    return f"against simulated sd {sd_pct:g} +{more_pct:g}"


def rows(ledger: Ledger) -> list[Row]:
    """Real ones, then simulated ones."""
    return [*_real(ledger), _covered(ledger), *_of_simulated(ledger)]


def _real(ledger: Ledger) -> Iterator[Row]:
    for pct in REAL:
        trials = [each for name in MODELS for each in ledger.trials(_key(name, pct))]
        above, within = (rate(each["side"] == side for each in trials) for side in ("above", "within"))
        sds = [float(str(each["sd"])) for each in trials if each["sd"] is not None]
        more = f"; within {within.pct:.0f} %"
        if sds:
            more += f"; median sd of pairs {100.0 * statistics.median(sds):.2f} %"
        if pct:
            figure = f"`--quant-against`, +{pct:g} % at a limit of {LIMIT_PCT:g} %: FAIL"
            yield at_least(figure, above, CAUGHT_AT_LEAST_PCT[0.5], more)
        else:
            yield at_most("`--quant-against`, same code both sides: FAIL", above, FALSE_AT_MOST_PCT, more)


def _covered(ledger: Ledger) -> Row:
    """Whether the intervals enclose no shift, or the median over all comparisons of a model with more work."""
    result: list[bool] = []
    for name in MODELS:
        for pct in REAL:
            trials = [each for each in ledger.trials(_key(name, pct)) if each["span"] is not None]
            shifts = [float(str(each["shift"])) for each in trials]
            truth = statistics.median(shifts) if pct and shifts else 0.0
            result += [span[0] <= truth <= span[1] for each in trials if isinstance(span := each["span"], list)]
    figure = "`--quant-against`: coverage of its interval, which holds at both looks"
    return at_least(figure, rate(result), COVERED_AT_LEAST_PCT)


def _of_simulated(ledger: Ledger) -> Iterator[Row]:
    for sd in SDS_PCT:
        result = {pct: counted(ledger, _simulated(sd, pct), "above") for pct in REAL}
        yield Row(
            f"`--quant-against`, simulated, launch sd {sd:g} %: FAIL at +0 %; at +5 %",
            f"<= {FALSE_AT_MOST_PCT:g} %; >= {CAUGHT_AT_LEAST_PCT[sd]:g} %",
            f"{result[0.0]}; {result[5.0]}",
            result[0.0].pct <= FALSE_AT_MOST_PCT and result[5.0].pct >= CAUGHT_AT_LEAST_PCT[sd]
            if all(each.n for each in result.values())
            else None,
        )
