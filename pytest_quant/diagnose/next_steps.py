"""Where to look for what no trial can mend: speed, size, and a float model in the place of a quantized one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_quant.backends import get_backend
from pytest_quant.host import quote
from pytest_quant.measure.model_kinds import find_quantizing, list_halves
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.result import Hint, Status, Verdict
from pytest_quant.spec import EngineSpec, limits_on
from pytest_quant.stats.ratio import fewest_rounds

_SHOWN_SHARE, _MOST_NODES = 0.01, 8
"""Weights that take less of the largest are not named; nodes that nobody reads further."""


def next_steps(measurement: Measurement, verdicts: Sequence[Verdict]) -> Iterator[Hint]:
    """Yield where to look for what breaks a limit on speed or size, and why a latency cannot be trusted."""
    failed = {verdict.limit.partition("[")[0] for verdict in verdicts if verdict.status is Status.FAIL}
    not_met = {verdict.limit.partition("[")[0] for verdict in verdicts if verdict.status is not Status.PASS}
    if failed & {*limits_on("latency")}:
        yield Hint(f"pytest-quant profile {quote(measurement.check.nodeid)} shows which layers take the time")
    for verdict in verdicts:
        if verdict.limit == "max_size_mb" and verdict.status is Status.FAIL:
            yield from _size_hints(measurement, (verdict.observed or 0.0) - (verdict.allowed or 0.0))
    latency, plan = measurement.latency, measurement.check.latency
    for reason in latency.reasons if latency and plan and not_met & {*limits_on("latency")} else ():
        if plan and latency and latency.rounds < fewest_rounds(plan.confidence):
            yield Hint(reason, f"--quant-max-time={6 * plan.max_s:g}")
        else:
            yield Hint(f"measure on a quiet machine: {reason}")


def _size_hints(measurement: Measurement, above_mb: float) -> Iterator[Hint]:
    """Yield what of the engine's file is weights in float, by the nodes that read them, the largest first.

    None is named where all of them together take less than the file is above its limit.
    """
    sizes = measurement.engine.float_bytes()
    if sizes is not None:
        whole_mb, most = sum(sizes.values()) / 1e6, Counter(sizes).most_common(3)
        named = ", ".join(f"{size / 1e6:.3g} MB for {who}" for who, size in most if size >= _SHOWN_SHARE * most[0][1])
        told = f": {named}" if whole_mb >= above_mb else f" of the {above_mb:.3g} MB above the limit"
        yield Hint(f"weights in float take {whole_mb:.3g} MB{told}")
    elif nodes := ", ".join(measurement.coverage.float_nodes[:_MOST_NODES]):
        yield Hint(f"what runs in float keeps the size of FP32: {nodes}")


def explain_float(spec: EngineSpec) -> Hint | None:
    """Return what the float model is that was given as a quantized one; ``None`` where it is not known to be one."""
    given = spec.quantized
    if given is None or find_quantizing(given) != ():
        return None
    halves = sorted(list_halves(given))
    if spec.precision in halves:
        why = f"'{spec.backend}' computes {spec.precision} in float32 here, so that min_coverage cannot be met"
        return Hint(f"{why}: leave it out of the mark")
    if halves:
        offered = get_backend(spec.backend).offer.precisions
        takes = [f"precision='{name}'" for name in halves if spec.scheme in offered.get(name, ())]
        text = f"the file given as quantized= holds weights in {', '.join(halves)}, and nothing in it is quantized"
        return Hint(text, next(iter(takes), ""))
    which = "the float model itself" if given.path and given.path == spec.model.path else "a float model"
    return Hint(f"quantized= is {which}, which has no node that quantizes: give the quantized one")
