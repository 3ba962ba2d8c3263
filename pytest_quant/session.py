"""The checks of one process: a check in, a measurement and a record out. Knows no pytest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from pytest_quant.backends import Engine
from pytest_quant.cache import Cache
from pytest_quant.data import Data
from pytest_quant.diagnose.hints import find_hints
from pytest_quant.errors import BackendUnavailable
from pytest_quant.measure.build import Step, export_spec
from pytest_quant.measure.pipeline import EVAL_BATCH_SIZE, Measurement, measure_check
from pytest_quant.measure.sides import (
    Tools,
    build_side,
    on_device,
    open_side,
    read_data,
    shape_spec,
    usable_backend,
    with_steps,
)
from pytest_quant.record import Record, build_record, failed_record
from pytest_quant.result import Baseline, NoBaseline, Status
from pytest_quant.spec import Check, Dataset, EngineSpec
from pytest_quant.verdict import breaks_latency, judge, reference_doubts, worst

DIAGNOSE_S = 30.0
"""Seconds that looking for advice about one check may take, unless the user says."""


class Session:
    """Runs the checks of one process.

    Parameters
    ----------
    cache : where engines, calibrations and reference outputs are kept.
    baseline : gives what the limits against earlier records are judged by, or why there is nothing, or ``None``;
        it takes a measurement.
    times : whether the run measures latency; one that does not waits for nobody's timing.
    notify, step : tell the user what goes on; see `pytest_quant.plugin.console`.
    diagnose_s : seconds that looking for advice about one check may take; 0 gives none.
    """

    def __init__(
        self,
        cache: Cache,
        *,
        baseline: Callable[[Measurement], Baseline | NoBaseline | None],
        notify: Callable[[str], None],
        step: Step,
        times: bool = True,
        diagnose_s: float = DIAGNOSE_S,
    ) -> None:
        self._tools = Tools(cache, notify, step)
        self._baseline = baseline
        self._times = times
        self._diagnose_s = diagnose_s

    def measure(self, check: Check) -> Measurement:
        """Build and measure; close the result when done. Raises a `QuantError` when that cannot be."""
        return measure_check(check, self._tools, breaks_latency)

    def judge(self, measurement: Measurement) -> Record:
        """Judge every limit, try what mends a broken one, and return the record of the check."""
        baseline = self._baseline(measurement)
        verdicts = judge(measurement, baseline)
        hints = find_hints(measurement, verdicts, lambda found: judge(found, baseline), self._diagnose_s, self._tools)
        doubts = reference_doubts(measurement.accuracy, measurement.check.output)
        told = replace(measurement, notes=(*measurement.notes, *doubts))
        return build_record(told, status=worst(verdicts), verdicts=verdicts, hints=hints)

    def failed(self, check: Check, error: Exception) -> Record:
        """Return the record of a check that never came to be: UNAVAILABLE or ERROR."""
        status = Status.UNAVAILABLE if isinstance(error, BackendUnavailable) else Status.ERROR
        return failed_record(check, status=status, message=str(error))

    def open_engine(self, spec: EngineSpec, dataset: Dataset | None = None) -> Engine:
        """Build one engine through the cache and open it; `dataset` is needed where `spec` calibrates.

        A backend that builds for shapes takes them from it too.
        """
        backend = usable_backend(spec)
        spec = export_spec(spec, self._tools.cache, self._tools.step)
        data = None if dataset is None else read_data(dataset, spec, self._tools)
        if data is not None:
            spec = shape_spec(spec, backend.signature(spec.model).inputs, data, 1, EVAL_BATCH_SIZE)
        with on_device(backend.device, self._tools, times=self._times), ExitStack() as opened:
            if spec.model.state and data is not None:
                data = self._with_steps(spec, data, opened)
            built = build_side(spec, backend, data, self._tools)
            engine = open_side(spec, backend, built, self._tools, opened)
            opened.pop_all()
        return engine

    def _with_steps(self, spec: EngineSpec, data: Data, opened: ExitStack) -> Data:
        """Run the float model over the calibration sequences, for the states that they go through."""
        plain = replace(spec, precision="fp32", scheme=None, quantized=None)
        backend = usable_backend(plain)
        built = build_side(plain, backend, data, self._tools)
        return with_steps(data, open_side(plain, backend, built, self._tools, opened))
