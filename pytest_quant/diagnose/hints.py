"""From a broken limit to what mends it, tried while the engines of the check are open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from pytest_quant.diagnose.advise import Budget, advise
from pytest_quant.diagnose.effect import broken
from pytest_quant.diagnose.noise import timing_hints
from pytest_quant.diagnose.trials import EngineTrials, Judge
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.measure.sides import Tools, on_device
from pytest_quant.result import Hint, Status, Verdict


def find_hints(
    measurement: Measurement, verdicts: Sequence[Verdict], judge: Judge, seconds: float, tools: Tools
) -> tuple[Hint, ...]:
    """Return what is worth trying about the broken limits of `verdicts`, the best first.

    Other ways to quantize are built and judged by `judge` for about so many `seconds`; 0 tries none. Where an engine
    differs from itself on the same batch, what a trial finds would tell nothing.
    """
    found = timing_hints(measurement.latency, measurement.check.latency) if _untimed(verdicts) else ()
    bench = measurement.bench
    if bench is None or seconds == 0.0 or measurement.accuracy_again is not None or not broken(verdicts):
        return found
    backend, built = bench.candidate.backend, bench.candidate.built
    budget = Budget(seconds, (built.build_s or 0.0) - (built.calibration_s or 0.0))
    name = f"{bench.candidate.spec.id} of {bench.candidate.spec.model.name}"
    told = f"{name} breaks {', '.join(broken(verdicts))}: trying for {seconds:g} s what mends it"
    with ExitStack() as stack:
        stack.enter_context(tools.step(told))
        for device in sorted({backend.device, bench.reference_device}):
            stack.enter_context(on_device(device, tools, times=measurement.check.latency is not None))
        try:
            trials = EngineTrials(bench, measurement, judge, tools, seconds)
            return (*advise(trials, budget), *found)
        except Exception as error:
            # The verdict stands already: what breaks in a trial is told beside it, and must not take its place.
            return (Hint(f"looking for what mends it broke off with {type(error).__name__}: {error}"), *found)


def _untimed(verdicts: Sequence[Verdict]) -> bool:
    """Whether a limit on latency was not met."""
    on_latency = ("max_latency_ms", "min_speedup", "max_slowdown")
    return any(one.status is not Status.PASS and one.limit.startswith(on_latency) for one in verdicts)
