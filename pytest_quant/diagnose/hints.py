"""Hints about a broken limit from trials of remedies, while the engines of the check are open."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pytest_quant.backends.offer import Remedy, with_all_samples, without
from pytest_quant.diagnose.advise import Budget, advise
from pytest_quant.diagnose.effect import TrialResult, broken
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.bench import Bench, Measurement
from pytest_quant.measure.build import Tools, build_apart
from pytest_quant.result import Hint, LatencyResult, Measured, Status, Verdict
from pytest_quant.spec import EngineSpec, LatencyPlan

_FEW = 64
_FEW_CALIBRATION = 16
_WHOLE_SHARE = 0.1
"""A trial is judged on the whole evaluation set where running it takes at most this share of the time."""

_BYTES_PER_MB = 1e6

Found = TypeVar("Found")

Judge = Callable[[Measured], Sequence[Verdict]]
"""Judges the limits of a check on the figures of an engine."""


class EngineTrials:
    """The trials of one check, see `pytest_quant.diagnose.Trials`; the engine of a trial is closed after it.

    Parameters
    ----------
    bench : the candidate whose limits are broken, the data, and the comparison with the reference.
    measured : figures of the candidate on all of the data.
    judge : judges the limits of the check; a trial keeps the candidate's latency.
    tools : the cache, and the messages to the user.
    seconds : time budget, which determines the number of samples that trials are judged on.
    """

    def __init__(
        self,
        bench: Bench,
        measured: Measured,
        judge: Judge,
        tools: Tools,
        seconds: float,
    ) -> None:
        whole = bench.data
        self.spec = bench.candidate.spec
        self._candidate = bench.candidate
        self._few = whole.some(_FEW)
        self._compare = bench.compare
        self._judge = judge
        self._tools = tools
        # A trial is evaluated once; nondeterministic engines get no trials.
        self._measured = replace(measured, accuracy_again=None, unsteady=())
        started = time.perf_counter()
        on_few = bench.compare(bench.candidate, self._few)
        predicted_s = (time.perf_counter() - started) * whole.n / self._few.n
        self._data = whole if predicted_s <= _WHOLE_SHARE * seconds else self._few
        accuracy = measured.accuracy if self._data is whole else on_few
        self.before = TrialResult(judge(replace(self._measured, accuracy=accuracy)), measured.coverage.pct)
        self.samples = f"all {whole.n} samples" if self._data is whole else f"{self._data.n} of {whole.n} samples"

    def remedies(self) -> Sequence[Remedy]:
        """Return the remedies to try: no ``exclude`` for coverage, all calibration samples, and the backend's own."""
        backend, spec, data = self._candidate.built.backend, self.spec, self._data
        remedies: list[Remedy] = []
        if spec.exclude and "min_coverage" in broken(self.before.verdicts):
            remedies.append(Remedy("exclude=[]", replace(spec, exclude=())))
        samples = spec.calibration.samples
        if samples is not None and samples < data.n_calibration and backend.calibration_ingredients(spec) is not None:
            remedies.append(with_all_samples(spec))
        remedies += backend.remedies(spec)
        return [remedy for remedy in remedies if self._offered(remedy.spec)]

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the backend quantizes, none where it does not support ``exclude``."""
        names = self._candidate.built.backend.quantized_nodes(self.spec)
        return names if names and self._offered(without(self.spec, names[:1]).spec) else ()

    def noise(self, spec: EngineSpec) -> float | None:
        """Build `spec` and compare it on a few samples.

        Where excluded nodes need other ranges, few calibration samples are used, since this only ranks nodes.
        """
        backend, calibration = self._candidate.built.backend, spec.calibration
        if backend.calibration_ingredients(spec) != backend.calibration_ingredients(self.spec):
            few = min(calibration.samples or _FEW_CALIBRATION, _FEW_CALIBRATION)
            spec = replace(spec, calibration=replace(calibration, samples=few))
        try:
            return self._tried(spec, self._noise)
        except QuantError:
            return None

    def judged(self, spec: EngineSpec) -> TrialResult:
        """Build `spec`, compare it on `samples`, read its coverage, and judge its limits."""
        return self._tried(spec, self._judged)

    def _noise(self, side: OpenEngine) -> float:
        accuracy = self._compare(side, self._few)
        if accuracy.identical:
            return 0.0
        return float("inf") if accuracy.faults or accuracy.sqnr_db is None else 10.0 ** (-accuracy.sqnr_db / 10.0)

    def _judged(self, side: OpenEngine) -> TrialResult:
        accuracy = self._compare(side, self._data)
        first = self._data.first(side.batch_size if side.pads else 1)
        coverage = side.engine.coverage(side.feeds(first))
        resources = replace(self._measured.resources, size_mb=side.engine.size_bytes / _BYTES_PER_MB)
        check = replace(self._measured.check, candidate=side.spec)
        trial = replace(self._measured, check=check, accuracy=accuracy, coverage=coverage, resources=resources)
        return TrialResult(self._judge(trial), coverage.pct)

    def _offered(self, spec: EngineSpec) -> bool:
        """Whether the backend supports `spec`, and there are samples where it calibrates."""
        backend = self._candidate.built.backend
        try:
            backend.check(spec)
        except UsageError:
            return False
        return self._few.n_calibration > 0 or backend.calibration_ingredients(spec) is None

    def _tried(self, spec: EngineSpec, find: Callable[[OpenEngine], Found]) -> Found:
        """Build and open `spec` as the check does its engines, and return the result of `find`."""
        ours, tools = self._candidate, self._tools
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work, ExitStack() as opened:
            built = build_apart(spec, ours.built, self._few, tools, Path(work))
            engine = built.open(tools.steps.watch)
            opened.callback(engine.close)
            return find(replace(ours, built=built, engine=engine))


_LONGER = 6
_TOO_SHORT = "too few rounds"


def timing_hints(latency: LatencyResult | None, plan: LatencyPlan | None) -> tuple[Hint, ...]:
    """Return one hint for each reason why the numbers of `latency` cannot be trusted."""
    if latency is None or plan is None:
        return ()
    return tuple(
        Hint(reason, f"--quant-max-time={_LONGER * plan.max_s:g}")
        if reason.startswith(_TOO_SHORT)
        else Hint(f"measure on a quiet machine: {reason}")
        for reason in latency.reasons
    )


def find_hints(
    measurement: Measurement, verdicts: Sequence[Verdict], judge: Judge, seconds: float, tools: Tools
) -> tuple[Hint, ...]:
    """Return hints about broken limits, the best first.

    Remedies are tried unless an engine is nondeterministic, which would make the results of trials meaningless.

    Parameters
    ----------
    measurement : of the check, with open engines.
    verdicts : of all its limits.
    judge : judges the limits on a trial's figures.
    seconds : approximate budget for trials; 0 for none.
    tools : the cache, and the messages to the user.
    """
    on_timing = timing_hints(measurement.latency, measurement.check.latency) if _latency_limit_not_met(verdicts) else ()
    bench = measurement.bench
    if bench is None or seconds == 0.0 or measurement.accuracy_again is not None or not broken(verdicts):
        return on_timing
    built = bench.candidate.built
    budget = Budget(seconds, (built.build_s or 0.0) - (built.calibration_s or 0.0))
    doing = f"{built.name} breaks {', '.join(broken(verdicts))}: trying for {seconds:g} s what repairs it"
    with ExitStack() as stack:
        stack.enter_context(tools.steps.show(doing))
        times = measurement.check.latency is not None
        devices = built.backend.device, bench.reference.built.backend.device
        stack.enter_context(tools.locks.shared(*devices, waits=times))
        try:
            trials = EngineTrials(bench, measurement, judge, tools, seconds)
            return (*advise(trials, budget), *on_timing)
        except Exception as error:
            # The verdict is known already: an error in a trial becomes a hint, and must not replace the verdict.
            return (Hint(f"looking for what repairs it broke off with {type(error).__name__}: {error}"), *on_timing)


def _latency_limit_not_met(verdicts: Sequence[Verdict]) -> bool:
    """Whether a limit on latency was not met."""
    on_latency = ("max_latency_ms", "min_speedup", "max_slowdown", "max_p50_increase")
    return any(verdict.status is not Status.PASS and verdict.limit.startswith(on_latency) for verdict in verdicts)
