"""Trials of remedies for a broken limit: other engines of the same check are built, run and judged."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pytest_quant.backends.offer import Remedy, with_all_samples, without
from pytest_quant.diagnose.effect import TrialResult, broken
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.bench import Bench
from pytest_quant.measure.build import Tools, build_apart
from pytest_quant.result import Measured, Verdict
from pytest_quant.spec import EngineSpec

_FEW = 64
_FEW_CALIBRATION = 16
_WHOLE_SHARE = 0.1
"""A trial is judged on the whole evaluation set where running it takes at most this share of the time."""

_BYTES_PER_MB = 1e6

Found = TypeVar("Found")

Judge = Callable[[Measured], Sequence[Verdict]]
"""Judges the limits of a check on the figures of an engine."""


class EngineTrials:
    """The trials of one check; the engine of a trial is closed after it.

    Parameters
    ----------
    bench : the candidate whose limits are broken, the data, and the comparison with the reference.
    measured : figures of the candidate on all of the data.
    judge : judges the limits of the check; a trial keeps the candidate's latency.
    tools : the cache, and the messages to the user.
    seconds : time budget, which determines the number of samples that trials are judged on.

    Attributes
    ----------
    spec : of the candidate.
    samples : description of the samples that `before` and `judged` refer to, ``64 of 1797 samples``.
    before : the candidate's verdicts on these samples.
    """

    def __init__(self, bench: Bench, measured: Measured, judge: Judge, tools: Tools, seconds: float) -> None:
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
        """Return the remedies: no ``exclude`` for coverage, all calibration samples, and the backend's, best first."""
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
        """Return the nodes that the candidate quantizes, in the graph's order; none without ``exclude``."""
        names = self._candidate.built.backend.quantized_nodes(self.spec)
        return names if names and self._offered(without(self.spec, names[:1]).spec) else ()

    def noise(self, spec: EngineSpec) -> float | None:
        """Build `spec`, and return noise / signal in power on a few samples; ``None`` when it cannot be built.

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
        """Judge `spec` on `samples`. Raises `QuantError` where it cannot be built or run."""
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
