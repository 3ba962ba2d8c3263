"""Runs the checks of one process: a check in, a measurement and a record out. Knows no pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from pytest_quant.backends import Engine
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.clocks import REAL
from pytest_quant.errors import BackendUnavailable, BuildError, DataError, ModelError, ModelFileError
from pytest_quant.measure.build import Tools, build_engine, export_spec
from pytest_quant.measure.engines import open_engine, read_data, shape_spec, usable_backend, use_single_steps
from pytest_quant.measure.pipeline import Measurement, measure_check
from pytest_quant.measure.portability import find_portability
from pytest_quant.record import EncodedRecord, build_failed_record, build_record
from pytest_quant.result import Baseline, Cause, Cost, Hint, LatencyResult, Measured, Status
from pytest_quant.spec import Check, Dataset, EngineSpec
from pytest_quant.verdict import Judge, note_unread_outputs, reference_doubts, worst

DIAGNOSE_S = 30.0
"""Default budget in seconds for the search for advice about one check."""


@contextmanager
def _placeholder_named(dataset: Dataset) -> Iterator[None]:
    """If the data is a placeholder, say so in errors that the data may have caused."""
    try:
        yield
    except (BuildError, DataError, ModelError) as error:
        if dataset.stands_in and not isinstance(error, ModelFileError):
            first = (
                f"{dataset.name} is a placeholder, whose numbers this model may not take: return real samples there "
                "first, Dataset.from_arrays(inputs, labels, calibration=100)"
            )
            error.fix = f"{first}. If the error stays: {error.fix}" if error.fix else first
        raise


_ONLY_SCORES = Hint("nothing was tried: scores are given, and no model that another way to quantize could be tried on")


@dataclass(frozen=True, slots=True)
class CheckRunner:
    """Runs the checks of one process.

    Parameters
    ----------
    tools : the cache of engines, calibrations and reference outputs; what shows and bounds steps; the locks of devices.
    baseline : returns the baseline of a measurement for the limits against earlier records, or the reason why there is
        none; ``None`` where no such limit is set.
    times : the run measures latency; a run that does not never waits for another process's timing.
    diagnose_s : budget in seconds for the search for advice about one check; 0 for no advice.
    launches : how many a measurement gets; ``auto``: as many as decide its limits.
    """

    tools: Tools
    _: KW_ONLY
    baseline: Callable[[Measured], Baseline | str | None]
    times: bool = True
    diagnose_s: float = DIAGNOSE_S
    launches: int | Literal["auto"] = 1

    def measure(self, check: Check) -> Measured:
        """Measure engines, or compare the scores that were given. Raises `QuantError` when that cannot be done."""
        if check.scores is None:
            return self.measure_engines(check)
        # Here, because most checks have engines.
        from pytest_quant.measure.scored import measure_scores

        began_s = REAL.perf_counter()
        measured = measure_scores(check, check.scores, self.baseline, self.tools)
        return replace(measured, cost=Cost(0.0, REAL.perf_counter() - began_s, 0.0))

    def measure_engines(self, check: Check) -> Measurement:
        """Build and measure; the caller closes the result. Raises `QuantError` when the check cannot be measured."""
        with _placeholder_named(check.dataset):
            try:
                measurement = measure_check(check, self.tools, Judge(check.limits))
            except MemoryError as error:
                raise wrap_error(
                    f"{check.candidate.id} of {check.candidate.model.name} was not measured", error
                ) from error
            try:
                measurement = self._add_portability(measurement)
                if measurement.latency is None or self.launches == 1:
                    return measurement
                return self._add_launches(measurement, measurement.latency)
            except BaseException:
                measurement.close()
                raise

    def _add_portability(self, measurement: Measurement) -> Measurement:
        """Return a measurement with the processors on which its verdict holds."""
        began_s, candidate = REAL.perf_counter(), measurement.bench.candidate
        with self.tools.locks.shared(candidate.built.backend.device, waits=self.times):
            found = find_portability(measurement, candidate, Judge(measurement.check.limits), self.tools)
        spent_s = REAL.perf_counter() - began_s
        cost = measurement.cost and replace(measurement.cost, evaluation_s=measurement.cost.evaluation_s + spent_s)
        return replace(measurement, portability=found, cost=cost)

    def _add_launches(self, measurement: Measurement, latency: LatencyResult) -> Measurement:
        """Return a measurement with further launches beside the `latency` of its first."""
        # Here, because most checks have one launch.
        from pytest_quant.measure.timing import add_launches

        began_s = REAL.perf_counter()
        check, judge = measurement.check, Judge(measurement.check.limits, self.baseline(measurement))
        with self.tools.cache.quiet():
            latency = add_launches(check, latency, measurement.bench.timed, self.launches, judge, self.tools)
        spent_s = REAL.perf_counter() - began_s
        cost = measurement.cost and replace(measurement.cost, timing_s=measurement.cost.timing_s + spent_s)
        return replace(measurement, latency=latency, cost=cost)

    def judge(self, measurement: Measured) -> EncodedRecord:
        """Judge every limit, search for remedies of a broken one, and return the record of the check."""
        judge = Judge(measurement.check.limits, self.baseline(measurement))
        verdicts = judge.verdicts(measurement)
        status = worst(verdicts)
        hints: tuple[Hint, ...] = ()
        cause: Cause | None = None
        if not isinstance(measurement, Measurement):
            hints = (_ONLY_SCORES,) if status is Status.FAIL else ()
        elif status is not Status.PASS:
            # Here, because a check that passes needs no advice.
            from pytest_quant.diagnose.advise import find_hints

            budget_s = 0.0 if measurement.check.accuracy_off else self.diagnose_s
            cause, hints = find_hints(measurement, verdicts, judge, budget_s, self.tools)
        accuracy, check = measurement.accuracy, measurement.check
        notes = reference_doubts(accuracy, check.output) + note_unread_outputs(check.limits, accuracy, check.output)
        noted = replace(measurement, notes=measurement.notes + notes)
        return build_record(noted, status=status, verdicts=verdicts, hints=hints, cause=cause)

    def failed(self, check: Check, error: Exception) -> EncodedRecord:
        """Return the record of a check that could not be measured: UNAVAILABLE or ERROR."""
        status = Status.UNAVAILABLE if isinstance(error, BackendUnavailable) else Status.ERROR
        return build_failed_record(check, status=status, message=str(error))

    def open_engine(self, spec: EngineSpec, dataset: Dataset | None = None) -> Engine:
        """Build one engine through the cache and open it.

        `dataset` is needed where `spec` calibrates; a backend that builds for shapes takes them from it too.
        """
        backend = usable_backend(spec)
        spec = export_spec(spec, self.tools)
        data = None if dataset is None else read_data(dataset, spec, self.tools)
        if data is not None:
            spec = shape_spec(spec, backend.signature(spec.model).inputs, data, 1, data.fit_batch_size())
        with self.tools.locks.shared(backend.device, waits=self.times), ExitStack() as opened:
            if spec.model.state and data is not None:
                # Calibration sequences are split into steps, for which the float model gives the states.
                plain = replace(spec, precision="fp32", scheme=None, quantized=None)
                built = build_engine(plain, usable_backend(plain), data, self.tools)
                data = use_single_steps(data, open_engine(built, self.tools, opened))
            engine = open_engine(build_engine(spec, backend, data, self.tools), self.tools, opened)
            opened.pop_all()
        return engine
