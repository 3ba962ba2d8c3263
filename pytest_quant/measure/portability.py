"""Whether what was found about an INT8 engine here holds on CPUs without VNNI: proven, simulated or measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends import Outputs
from pytest_quant.backends.saturation import Exposed, OlderCpu
from pytest_quant.cache import Cache
from pytest_quant.data import Batch, Data
from pytest_quant.errors import QuantError
from pytest_quant.files import temporary_folder
from pytest_quant.measure.batching import OpenEngine, run_batches
from pytest_quant.measure.build import CANNOT_BE_PACKED, BuiltEngine, Tools
from pytest_quant.measure.outputs import Replay
from pytest_quant.measure.pipeline import EnginePair, Measurement
from pytest_quant.result import AccuracyResult, Portability
from pytest_quant.verdict import Judge
from pytest_quant.verdict.processors import judge_elsewhere


def find_portability(measurement: Measurement, opened: OpenEngine, judge: Judge, tools: Tools) -> Portability | None:
    """Return on which processors the verdict on an INT8 engine holds; ``None`` for what is no such engine on the CPU.

    That no sum of two products can pass 16 bits is a proof. Where one can, a check that asks for processors without
    VNNI has its engine run by their kernels, on up to 64 evenly spaced samples. For any other the sums of matrices are
    simulated on up to 16, which may show that it does not hold there, and never that it does.

    Parameters
    ----------
    measurement : of the check, on this machine.
    opened : its candidate, or another engine for it that is tried.
    judge : of the check's limits.
    tools : the cache, and the messages to the user.
    """
    check, built = measurement.check, opened.built
    backend, older = built.backend, built.backend.older_cpu()
    if check.portability_off or backend.offer.is_opaque or backend.device != "cpu" or opened.engine.simulated:
        return None
    kind = "avx2" if older is not None and older.is_here else "vnni"
    if built.spec.precision != "int8":
        return Portability("any", "proven", kind, "it computes in float") if built.spec.cpus else None
    exposed = _find_exposed(built, tools.cache)
    if exposed == ():
        return Portability("any", "proven", kind, "no sum of two products passes 16 bits, whatever the data are")
    unknown = Portability(None, None, kind, "", worst_layer=exposed[0].name if exposed else "")
    if check.accuracy_off:
        return replace(unknown, reason=f"nothing was compared: {check.accuracy_off}")
    if kind == "avx2":
        found = judge_elsewhere(judge.limits, check, None, measurement.accuracy)
        return _conclude(unknown, found, measurement.accuracy, "this processor, which has no VNNI")
    if built.spec.model.state:
        return replace(unknown, reason="a model with a state is run nowhere else")
    pair = replace(measurement.bench, candidate=opened)
    macs = sum(op.macs or 0 for op in measurement.coverage.by_op) / pair.latency_batch_size
    if built.spec.cpus in ("any", "avx2"):
        # Of so many multiply-accumulates QEMU takes a minute or two.
        most = max(8, min(64, int(40e9 / max(macs, 1.0))))
        return _measure(pair, older, unknown, judge, tools, most)
    unknown = replace(unknown, reason="sums of two products may pass 16 bits: cpus='any' measures what that does")
    # A million takes some ms: small models take no time, and large ones would take more than the rest of the check.
    return _simulate(pair, unknown, judge, tools.cache) if exposed and 0.0 < macs <= 20e6 else unknown


def _find_exposed(built: BuiltEngine, cache: Cache) -> tuple[Exposed, ...] | None:
    """Return the products that saturate perhaps, looked up once for each engine that is in the cache."""

    def find(_: Path) -> dict[str, str]:
        return {"exposed": json.dumps(built.backend.exposed_sums(built.spec, built.folder))}

    slot, of = f"sums of two products of {built.name}", built.ingredients
    facts = cache.obtain("portability", slot, of, find, shared=False).facts if of else find(Path())
    rows = json.loads(str(facts["exposed"]))
    return None if rows is None else tuple(Exposed(*row) for row in rows)


def _measure(
    pair: EnginePair, older: OlderCpu | None, unknown: Portability, judge: Judge, tools: Tools, most: int
) -> Portability:
    """Run the candidate on at most so many samples by the kernels of an older processor, and judge the limits there."""
    built = pair.candidate.built
    if older is None or older.missing:
        why = "this backend does not say how its kernels for them run here" if older is None else older.missing
        return replace(unknown, reason=f"not measured: {why}")
    # Here, because few checks run elsewhere.
    from pytest_quant.backends.child_process import ChildError

    def run_there(batches: list[Batch]) -> list[Outputs]:
        feeds = [batch.feeds for batch in batches]
        return older.run(built.evaluation_engine.spec, built.folder, feeds, 600.0)

    data = pair.data.some(_fitting(pair.candidate, most))
    with tools.steps.show(f"running {built.name} on {data.n} samples on a processor without VNNI: {older.name}"):
        try:
            runs = _run_few(pair.candidate, data, tools.cache, older.name, run_there)
        except (ChildError, *CANNOT_BE_PACKED) as error:
            return replace(unknown, reason=f"not measured on {older.name}: {error}")
    return _judge(unknown, pair, data, runs, judge, f"{data.n} samples on {older.name}")


def _simulate(pair: EnginePair, unknown: Portability, judge: Judge, cache: Cache) -> Portability:
    """Compute exposed products of matrices with sums that saturate, which can only show that they do harm."""
    built = pair.candidate.built
    if not pair.candidate.pads and built.spec.scheme != "dynamic":
        # Sums of two take half of the products of a run, in float32.
        pair = replace(pair, candidate=replace(pair.candidate, batch_size=1, ran=()))

    def run_saturating(batches: list[Batch]) -> list[Outputs]:
        with temporary_folder() as work:
            engine = built.backend.saturate(built.evaluation_engine.spec, built.folder, work)
            if engine is None:
                return []
            with engine:
                return run_batches(engine, batches)

    data = pair.data.some(_fitting(pair.candidate, 16))
    try:
        runs = _run_few(pair.candidate, data, cache, "saturating sums", run_saturating)
    except QuantError:
        runs = []  # Nobody asked for it, and the verdict must not be lost.
    where = f"a simulation of its matrices on {data.n} samples"
    found = _judge(unknown, pair, data, runs, judge, where) if runs else unknown
    # Products that are not simulated may saturate too.
    return replace(found, how="simulated") if found.holds == "vnni" else unknown


def _fitting(opened: OpenEngine, most: int) -> int:
    """Return how many samples have outputs that memory may hold, at least one."""
    return max(1, min(most, (256 << 20) // max(1, opened.output_bytes)))


def _judge(
    unknown: Portability, pair: EnginePair, data: Data, runs: list[Outputs], judge: Judge, where: str
) -> Portability:
    """Return what the outputs of `runs`, which another processor gave for `data`, say."""
    there = pair.compare(replace(pair.candidate, workers=Replay(runs)), data)
    found = judge_elsewhere(judge.limits, pair.check, pair.compare(pair.candidate, data), there)
    return _conclude(unknown, found, there, where)


def _conclude(unknown: Portability, found: tuple[str | None, str], there: AccuracyResult, where: str) -> Portability:
    holds, why = found
    figures: dict[str, Any] = {name: getattr(there, name) for name in ("n", "drop", "sqnr_db", "agreement_pct")}
    return replace(unknown, holds=holds, how="measured" if holds else None, reason=f"{where}: {why}", **figures)


def _run_few(
    opened: OpenEngine, data: Data, cache: Cache, where: str, run: Callable[[list[Batch]], list[Outputs]]
) -> list[Outputs]:
    """Return what `run` gives for the batches of `data`, from the cache if it has that; none if it gave nothing."""
    batches = data.batches(opened.batch_size, pad=opened.pads)
    named = [replace(batch, feeds=opened.feeds(batch.feeds)) for batch in batches]
    of = opened.built.ingredients
    if not of:
        return run(named)

    def build(folder: Path) -> dict[str, int]:
        ran = run(named)
        for number, outputs in enumerate(ran):
            arrays: dict[str, Any] = {f"output {name}": array for name, array in outputs.items()}
            np.savez(folder / f"{number}.npz", **arrays)
        return {"runs": len(ran)}

    samples = {"samples": str(data.n), "batch size": str(opened.batch_size), "where": where}
    slot = f"{data.n} outputs of {opened.built.name} on {where}"
    key = {**of, "evaluation data": data.digest, **samples}
    entry = cache.obtain("portability", slot, key, build, shared=False)
    files = (np.load(entry.folder / f"{number}.npz") for number in range(int(str(entry.facts["runs"]))))
    return [{name.removeprefix("output "): file[name] for name in file.files} for file in files]
