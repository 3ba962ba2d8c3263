"""The reference: proven to be a float model, and the engine that latency is compared with in its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_quant.backends import TF32, Feeds, get_exporter
from pytest_quant.data import Data
from pytest_quant.errors import BuildError, ModelError, QuantError
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine, Tools, build_engine
from pytest_quant.measure.engines import TimingSubject, match_names, open_engine, usable_backend
from pytest_quant.result import Coverage
from pytest_quant.spec import Check, EngineSpec

_LEAST_PCT = 50.0
"""Of the eligible compute, in the precision that is named: with less, the times are those of another one."""

_NAMED = 3


def refuse_quantized(spec: EngineSpec) -> None:
    """Check that the model of a reference is a float one, by its operators, before anything is built from it.

    A runtime may fold them into its constants or run them in float, so that what it reads back does not show them.

    Parameters
    ----------
    spec : the reference; a torch module is looked at as it is, and once more when it is exported.

    Raises
    ------
    ModelError : some of its operators round to few levels, or multiply integers; the message names them.
    """
    parts = _quantizing(spec)
    if not parts:
        return
    what = "part" if spec.model.path is None else "node"
    more = f", and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    raise ModelError(
        f"the reference {spec.id} of {spec.model.name} is no FP32 model: it is quantized already",
        value=f"{len(parts)} {what}{'' if len(parts) == 1 else 's'} of a quantized model: "
        f"{', '.join(parts[:_NAMED])}{more}",
        allowed="a float32 model as the reference, which a quantized one is compared with",
        fix="give the float model as quant_model, and this one as quantized='...', a path or a fixture's name",
    )


def _quantizing(spec: EngineSpec) -> tuple[str, ...]:
    if spec.model.path is None:
        if spec.model.module is None:
            return ()
        reader = get_exporter()
        return reader.quantizing_parts(spec.model) if reader.availability().available else ()
    try:
        # Here, because a third party's backend may do without the package that reads ONNX.
        from pytest_quant.backends.onnx_files import quantizing_nodes

        return quantizing_nodes(spec.model.path)
    except (ImportError, ModelError, OSError):
        # The file is of a format of the backend's own, or is broken, which the backend says when it reads it.
        return ()


def prove_float(reference: OpenEngine, feeds: Feeds, tools: Tools) -> str:
    """Check that the reference runs float32 kernels only, once for each engine.

    Returns what is not proven because it cannot be seen into, for the reader; empty where everything can.

    Parameters
    ----------
    reference : the open reference.
    feeds : one batch under the engine's names.

    Raises
    ------
    ModelError : some of it was seen to run in another precision; what cannot be seen into proves nothing.
    """
    if reference.built.backend.offer.is_opaque:
        return f"what the reference {reference.built.name} computes in is not proven: a callable cannot be seen into"

    def refuse(ran: Coverage) -> QuantError:
        return ModelError(
            f"the reference {reference.built.name} does not compute in FP32: its file is quantized or half",
            value="; ".join((f"{ran.pct:.4g} % of {ran.unit} ran in float32, not {_others(ran)}", *ran.notes)),
            allowed="a float32 model as the reference",
            fix="give the float32 model as the model; the quantized one goes to quantized='model_int8.onnx'",
        )

    return _prove(reference, feeds, tools, 100.0, refuse)


def timed_reference(
    check: Check, reference: OpenEngine, timed: TimingSubject, data: Data, tools: Tools
) -> TimingSubject:
    """Return the engine whose time is divided by the candidate's: the reference, or one as users deploy it.

    Where the mark names a `reference_precision`, that engine is built through the cache like any other, and what it
    runs is read back once.

    Parameters
    ----------
    check : names the engine.
    reference : the open engine at exact FP32, which accuracy is compared with.
    timed : that engine as it would be timed itself.
    data : of the check.

    Raises
    ------
    BackendUnavailable : the device does not compute in that precision.
    UsageError : the backend does not offer the engine.
    BuildError : the runtime cannot build or load it, or it runs in another precision.
    ModelError : it is to run in FP32, and does not.
    """
    spec, backend = check.timed_reference, reference.built.backend
    tf32 = check.reference_precision == TF32 if TF32 in backend.offer.options else None
    if spec is None:
        return replace(timed, tf32=tf32)
    built = build_engine(spec, usable_backend(spec), data, tools)
    with ExitStack() as opened:
        engine = open_engine(built, tools, opened)
        names = match_names(reference.engine.signature.inputs, engine.signature.inputs, "input")
        feeds = {names[name]: array for name, array in timed.feeds.items()}
        deployed = replace(reference, built=built, engine=engine)
        if spec.precision == reference.spec.precision:
            prove_float(deployed, feeds, tools)
        else:
            tf32 = None
            _prove(deployed, feeds, tools, _LEAST_PCT, partial(_not_as_named, built))
    return replace(timed, built=built, feeds=feeds, precision=check.reference_precision, tf32=tf32)


def _prove(
    opened: OpenEngine,
    feeds: Feeds,
    tools: Tools,
    least_pct: float,
    refusal: Callable[[Coverage], QuantError],
) -> str:
    """Read back what an engine runs, once for each engine, and return what cannot be seen into.

    Raises the error that `refusal` makes where less than `least_pct` can have run in the precision of the engine.
    """
    spec, name = opened.spec, opened.built.name

    def read_back(_: Path) -> dict[str, str]:
        with tools.steps.show(f"reading back what {name} runs"):
            ran = opened.engine.coverage(feeds)
        if ran.most_pct is not None and ran.most_pct < least_pct:
            raise refusal(ran)
        share = "" if ran.pct is None else f", {100.0 - ran.pct:.4g} % of {ran.unit},"
        nodes = f"{ran.opaque_nodes} nodes{share} of the reference {spec.id} cannot be seen into"
        unseen = f"{nodes}: that they run in float32 is not proven" if ran.opaque_nodes else ""
        return {"provider": ran.provider, "unseen": unseen}

    entry = tools.cache.obtain(
        "proof", f"{spec.precision} kernels of {name}", opened.built.backend.ingredients(spec), read_back
    )
    return str(entry.facts.get("unseen", ""))


def _not_as_named(built: BuiltEngine, ran: Coverage) -> QuantError:
    return BuildError(
        f"latency cannot be compared with {built.name}, which runs in another precision",
        value=f"{ran.pct:.4g} % of {ran.unit} ran in {built.spec.precision}, not {_others(ran)}",
        allowed=f"at least {_LEAST_PCT:g} %",
        fix="leave reference_precision out: latency is then compared with exact FP32",
    )


def _others(ran: Coverage) -> str:
    return ", ".join(ran.float_nodes) or "all"
