"""Real launches of one check each: false alarms, slow-downs caught, rounds needed, coverage of printed intervals."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingJob
from pytest_quant.result import Status
from pytest_quant.spec import EngineSpec, LatencyPlan, Model
from tests.benchmarks.detection import bursts, launch, peers
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.models import WRITERS, feeds_of, model_file
from tests.benchmarks.detection.rates import having, rate
from tests.benchmarks.detection.table import Row, at_least, at_most

LIMIT_PCT = 3.0
MAX_S = LatencyPlan().max_s
LOADS = ("quiet", "bursty")
LAUNCHES = {("quiet", 0.0): 70, ("bursty", 0.0): 70, ("quiet", 5.0): 50, ("bursty", 5.0): 50, ("quiet", 10.0): 15}
"""Of each model, by load and by percent more of the same work."""

CAUGHT_AT_LEAST_PCT = {"quiet": 90.0, "bursty": 60.0}
FALSE_AT_MOST_PCT = 1.0
COVERED_PCT = (93.0, 98.0)
MOST_ROUNDS = 17
_HANGS_S = 120.0


def subject(folder: Path, name: str, more_pct: float) -> TimingSubject:
    """Return an engine of a model from the cache in `folder`, and what it is fed."""
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(model_file(folder, name, more_pct)))
    tools = Tools(Cache(folder / "cache"), Steps(_silent), DeviceLocks(_silent))
    return TimingSubject(build_engine(spec, get_backend("ort"), None, tools), feeds_of(name))


def _silent(_: str) -> None:
    """Show nothing."""


def check_file(folder: Path, name: str, more_pct: float) -> Path:
    """Return the description of a check of a model against itself with more work, which is written once."""
    file = folder / f"{name}-{more_pct:g}.check"
    if not file.exists():
        reference, candidate = (subject(folder, name, pct) for pct in (0.0, more_pct))
        TimingJob(reference, candidate, LatencyPlan()).save(file)
    return file


def trial(folder: Path, name: str, load: str, more_pct: float, seed: int) -> Found:
    """Make one launch, beside our own load where it is asked for."""
    file = check_file(folder, name, more_pct)
    arguments = (str(file), f"{1.0 / (1.0 + LIMIT_PCT / 100.0)}", str(seed), str(MAX_S))
    with bursts.load(load, seed):
        done = subprocess.run(
            [sys.executable, "-m", launch.__name__, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=_HANGS_S,
        )
    result: Found = json.loads(done.stdout.splitlines()[-1])
    return result


def arms(folder: Path) -> list[Arm]:
    """Of each model, load and size of a slow-down; those of other tools beside them."""
    own_arms = [
        Arm(_key(name, load, pct), wanted, partial(trial, folder, name, load, pct))
        for (load, pct), wanted in LAUNCHES.items()
        for name in WRITERS
    ]
    return [*own_arms, *peers.arms(folder)]


def _key(name: str, load: str, more_pct: float) -> str:
    return f"launch {load} +{more_pct:g} {name}"


def _trials(ledger: Ledger, load: str, more_pct: float) -> list[Found]:
    return [each for name in WRITERS for each in ledger.trials(_key(name, load, more_pct))]


def rows(ledger: Ledger) -> list[Row]:
    """False alarms, slow-downs caught, rounds and coverage."""
    return [*_false_alarms(ledger), *_caught(ledger), *_rounds(ledger), *_covered(ledger)]


def _false_alarms(ledger: Ledger) -> Iterator[Row]:
    for load in LOADS:
        trials = _trials(ledger, load, 0.0)
        more = f"; PASS {having(trials, Status.PASS).pct:.0f} %"
        rates = peers.worse_rates(ledger, load, 0.0)
        yield at_most(f"A/A, {load}: FAIL", having(trials, Status.FAIL), FALSE_AT_MOST_PCT, more, rates)


def _caught(ledger: Ledger) -> Iterator[Row]:
    for load in LOADS:
        trials = _trials(ledger, load, 5.0)
        figure = f"+5 % at a limit of {LIMIT_PCT:g} %, one launch, {load}: FAIL"
        more = f"; PASS {having(trials, Status.PASS).pct:.0f} %; true {_truths(ledger, load, 5.0)}"
        rates = peers.worse_rates(ledger, load, 5.0)
        yield at_least(figure, having(trials, Status.FAIL), CAUGHT_AT_LEAST_PCT[load], more, rates)


def _rounds(ledger: Ledger) -> Iterator[Row]:
    for pct, status in ((0.0, Status.PASS), (10.0, Status.FAIL)):
        trials = _trials(ledger, "quiet", pct)
        needed = [int(str(each["rounds"])) if each["status"] == status.value else math.inf for each in trials]
        middle = statistics.median(needed) if needed else None
        yield Row(
            f"rounds until {status.value} at +{pct:g} %, quiet",
            f"median <= {MOST_ROUNDS} of 40",
            "not run" if middle is None else f"{middle:g} (n={len(needed)})",
            None if middle is None else middle <= MOST_ROUNDS,
        )


def _covered(ledger: Ledger) -> Iterator[Row]:
    low, high = COVERED_PCT
    for load in LOADS:
        result = rate(each for pct in (0.0, 5.0) for each in _of_speedup(ledger, load, pct))
        yield Row(
            f"coverage of the printed 95 % interval of the speedup, {load}",
            f"{low:g} to {high:g} %",
            str(result),
            low <= result.pct <= high if result.n else None,
        )
    for load in LOADS:
        # No figure to reach: it is the interval of two sessions, which do differ.
        spans = [each["null_ratio_ci"] for pct in (0.0, 5.0) for each in _trials(ledger, load, pct)]
        result = rate(encloses(span, 1.0) for span in spans)
        yield Row(f"intervals of the null that enclose 1, {load}", "-", str(result), None)


def true_speedup(trials: list[Found]) -> float:
    """Return the median speedup over launches, 1 / (1 + more work): what an interval of any of them should enclose."""
    return statistics.median(float(str(each["speedup"])) for each in trials)


def _truths(ledger: Ledger, load: str, more_pct: float) -> str:
    """Return how much slower each model really is."""
    result = {name: ledger.trials(_key(name, load, more_pct)) for name in WRITERS}
    return ", ".join(
        f"{name} {100.0 * (1.0 / true_speedup(trials) - 1.0):+.1f} %" for name, trials in result.items() if trials
    )


def encloses(span: object, value: float) -> bool:
    """Whether an interval as it is kept has a value in it."""
    assert isinstance(span, list)
    return bool(span[0] <= value <= span[1])


def _of_speedup(ledger: Ledger, load: str, more_pct: float) -> Iterator[bool]:
    for name in WRITERS:
        trials = ledger.trials(_key(name, load, more_pct))
        truth = 1.0 if more_pct == 0.0 else true_speedup(trials) if trials else 1.0
        yield from (encloses(each["speedup_ci"], truth) for each in trials)
