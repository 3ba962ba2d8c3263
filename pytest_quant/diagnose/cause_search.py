"""Why a limit is broken, found by runs of the candidate's graph with roundings off, on a few evaluation samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pytest_quant.backends import Feeds, Outputs, get_exporter
from pytest_quant.backends.feeds import match_names
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.cache import JsonScalar
from pytest_quant.clocks import REAL
from pytest_quant.data import Data
from pytest_quant.diagnose.ladder import Finding, Ladder, OutOfTimeError, show_range
from pytest_quant.diagnose.trials import show_change
from pytest_quant.environment.machine import isa_tier
from pytest_quant.files import temporary_folder
from pytest_quant.measure.build import BuiltEngine, Tools
from pytest_quant.measure.outputs import Replay
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.result import AccuracyResult, Cause, RangeRow, Verdict
from pytest_quant.spec import limits_on
from pytest_quant.verdict import Judge

_FEWEST, _SAMPLES = 8, 64
"""Samples that errors are measured on, as time allows."""

_WHOLE_SHARE = 0.2
"""The figures without the cause are of the whole evaluation set if that takes at most this share of the time."""

_RUNS = 200
"""Runs of the engine that take about as long as a search: some forty of a graph that takes several times as long."""

_EXPLAINED = frozenset({"outputs", *limits_on("score", "accuracy", "output")})
"""Limits whose figure follows from the outputs."""


def find_cause(
    measurement: Measurement, broken: Sequence[str], judge: Judge, seconds: float, tools: Tools
) -> Cause | None:
    """Return why the first of the `broken` limits on the outputs is; ``None`` if there is none, or nothing shows it.

    Parameters
    ----------
    measurement : of the check, with open engines.
    broken : names of the limits that are broken.
    judge : of the check's limits.
    seconds : no run is begun later than that.
    tools : the cache, and the messages to the user.

    Raises
    ------
    QuantError : the graph with switches cannot be made, or run.
    OutOfTimeError : the time was over before the stage was known.
    """
    limits = [each for each in broken if each.partition("[")[0] in _EXPLAINED]
    pair = measurement.bench
    candidate, until_s = pair.candidate, REAL.perf_counter() + seconds
    if not limits or seconds <= 0.0 or candidate.spec.model.state:
        return None

    def ask(what: str) -> None:
        if REAL.perf_counter() > until_s:
            raise OutOfTimeError
        tools.steps.describe(f"looking for the cause: {what}")

    with temporary_folder() as work:
        built = candidate.built
        graph = built.backend.switches(built.evaluation_engine.spec, built.folder, work)
        if graph is None:
            return None
        with graph:
            data, others = pair.data.split(_affordable(measurement, seconds))
            batches, other_batches = ([*_batches(measurement, each)] for each in (data, others))
            engine = [candidate.engine.run(feeds) for feeds in batches]
            outputs = _judged_outputs(measurement, limits[0])
            reference = [*_reference(measurement, data, pair.reference.engine.run)]
            own = measurement.original
            module = None if own is None else _reference(measurement, data, get_exporter().open_module(own))
            given = _calibration(measurement)
            ladder = Ladder(graph, batches, other_batches, given, outputs, reference, engine, ask, module)
            began_s = REAL.perf_counter()
            try:
                finding = ladder.climb()
            except (OutOfTimeError, KeyboardInterrupt) as error:
                known = (
                    f"{each.asked} {np.inf if each.sqnr_db is None else each.sqnr_db:.1f} dB" for each in ladder.steps
                )
                error.add_note(f"known so far: {', '.join(known)}")
                raise
            of_run_s = (REAL.perf_counter() - began_s) / max(1, ladder.runs)
            if of_run_s * pair.data.n / data.n <= _WHOLE_SHARE * seconds:
                data = pair.data
            cause = _explain(measurement, finding, graph, limits, judge, data)
            return _narrow(cause, graph, batches[0], built, tools) if cause.stage == "kernels" else cause


def _narrow(cause: Cause, graph: SwitchableGraph, feeds: Feeds, built: BuiltEngine, tools: Tools) -> Cause:
    """Keep the first part whose kernels differ, and name its products and what runs it again."""

    def keep(folder: Path) -> dict[str, JsonScalar]:
        return {"tensor": built.backend.keep_part(built.spec, built.folder, feeds, folder)}

    key = {"engine": built.key, "isa": isa_tier()}
    kept = tools.cache.obtain("kernels", f"kernels of {built.name}", key, keep, shared=False)
    nodes = next((site.nodes for site in graph.sites if site.tensor == kept.facts["tensor"]), ())
    replay = f"; the first part that does: python {kept.folder / 'replay.py'}" if kept.facts["tensor"] else ""
    return replace(cause, nodes=nodes, text=cause.text + replay)


def _affordable(measurement: Measurement, seconds: float) -> int:
    """Return how many samples a search of so many seconds can measure errors on."""
    pair = measurement.bench
    size, feeds = pair.candidate.batch_size, pair.candidate.feeds(pair.data.first(pair.candidate.batch_size))
    began_s = REAL.perf_counter()
    pair.candidate.engine.run(feeds)
    of_sample_s = (REAL.perf_counter() - began_s) / size
    return int(min(_SAMPLES, max(_FEWEST, seconds / (_RUNS * of_sample_s))))


def _reference(measurement: Measurement, data: Data, run: Callable[[Feeds], Outputs]) -> Iterator[Outputs]:
    """Yield what `run` of the reference gives for the batches of the candidate, by the candidate's names."""
    pair = measurement.bench
    ours, theirs = pair.reference, pair.candidate
    names = match_names(ours.engine.signature.outputs, theirs.engine.signature.outputs, "output")
    size = ours.batch_size if ours.pads else theirs.batch_size
    for batch in data.batches(size, pad=ours.pads or theirs.pads):
        yield {names[name]: array for name, array in run(ours.feeds(batch.feeds)).items()}


def _batches(measurement: Measurement, data: Data) -> Iterator[Feeds]:
    opened = measurement.bench.candidate
    return (opened.feeds(batch.feeds) for batch in data.batches(opened.batch_size, pad=opened.pads))


def _judged_outputs(measurement: Measurement, limit: str) -> tuple[str, ...]:
    """Return the engine's names of the outputs that a limit is about: those that it or the mark names, or all."""
    pair = measurement.bench
    names = match_names(pair.reference.engine.signature.outputs, pair.candidate.engine.signature.outputs, "output")
    groups = {each.name: each.group_of or each.name for each in measurement.accuracy.by_output}
    named = limit.partition("[")[2].rstrip("]")
    wanted = (named,) if named in groups else measurement.check.output
    chosen = [names[groups.get(each, each)] for each in wanted if groups.get(each, each) in names]
    return tuple(dict.fromkeys(chosen)) or tuple(names.values())


def _explain(
    measurement: Measurement, finding: Finding, graph: SwitchableGraph, limits: Sequence[str], judge: Judge, data: Data
) -> Cause:
    """Return the finding in terms of the user's model, with the figures of the broken limits without it, on `data`."""
    nodes = tuple(dict.fromkeys(name for place in finding.sites for name in graph.sites[place].nodes))
    regains, without, pair = None, "", measurement.bench
    if finding.sites:
        off = () if finding.ranges else finding.sites
        mended = (graph.run(feeds, off, finding.ranges) for feeds in _batches(measurement, data))
        before = measurement.accuracy if data is pair.data else pair.compare(pair.candidate, data)
        after = pair.compare(replace(pair.candidate, workers=Replay(mended), ran=()), data)
        figures = [tuple(_verdict(measurement, each, limit, judge) for each in (before, after)) for limit in limits]
        changes = (show_change(limit, *both) for limit, both in zip(limits, figures, strict=True))
        samples = f"all {data.n} samples" if data is pair.data else f"{data.n} of {pair.data.n} samples"
        without = f"{', '.join(changes)} on {samples}"
        with_it, without_it = (None if each is None else each.observed for each in figures[0])
        if with_it is not None and without_it is not None:
            regains = (with_it - without_it) * (1.0 if limits[0].startswith("max_") else -1.0)
    text = finding.text
    if finding.stage == "calibration":
        text += _describe_calibration(measurement, _batches(measurement, data))
    asked, unseen = (finding.steps, finding.range_rows, finding.site_rows), (graph.unseen,) if graph.unseen else ()
    return Cause(finding.stage, nodes, regains, text, without, *asked, unseen)


def _calibration(measurement: Measurement) -> Iterator[Feeds]:
    """Yield the batches that the candidate was calibrated on; none of one that arrived quantized."""
    pair, spec = measurement.bench, measurement.check.candidate
    if spec.quantized is None:
        yield from map(pair.candidate.feeds, pair.data.calibration(pair.candidate.batch_size, spec.calibration.samples))


def _describe_calibration(measurement: Measurement, batches: Iterable[Feeds]) -> str:
    """Return the number of calibration samples, and the inputs whose values are others than in the evaluation."""
    pair, spec = measurement.bench, measurement.check.candidate
    ours, theirs = (_find_ends(side) for side in (_calibration(measurement), batches))
    if not ours:
        return ""
    differing = [
        f"; calibration inputs '{name}' lie in {show_range(own)}, those of the evaluation in {show_range(theirs[name])}"
        for name, own in ours.items()
        if RangeRow((), own, theirs[name]).is_off
    ]
    n = pair.data.calibrating(spec.calibration)
    return f"; calibrated on {n} sample{'' if n == 1 else 's'}" + "".join(differing)


def _find_ends(batches: Iterable[Feeds]) -> dict[str, Range]:
    """Return the smallest and the largest value of each input in floating point."""
    found: dict[str, Range] = {}
    for feeds in batches:
        for name, array in feeds.items():
            if array.dtype.kind == "f" and array.size:
                low, high = found.get(name, (np.inf, -np.inf))
                found[name] = Range(min(low, float(array.min())), max(high, float(array.max())))
    return found


def _verdict(measurement: Measurement, accuracy: AccuracyResult, limit: str, judge: Judge) -> Verdict | None:
    judged = judge.verdicts(replace(measurement, accuracy=accuracy, accuracy_again=None, unsteady=()))
    return next((each for each in judged if each.limit == limit), None)
