"""The engine that latency is compared with: the reference, or in its place one as users deploy it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends import Feeds, Tf32Backend
from pytest_quant.data import Data
from pytest_quant.errors import BuildError
from pytest_quant.measure.engines import Side, Tools, build_side, match_names, open_side, usable_backend
from pytest_quant.measure.float_reference import prove_float
from pytest_quant.measure.sessions import Subject
from pytest_quant.spec import Check

_LEAST_PCT = 50.0
"""Of the eligible compute, in the precision that is named: with less, the times are those of another one."""


def timed_reference(check: Check, reference: Side, data: Data, feeds: Feeds, tools: Tools) -> Subject:
    """Return the engine whose time is divided by the candidate's.

    Where the mark names a `reference_precision`, that engine is built through the cache like any other, and what it
    runs is read back once.

    Parameters
    ----------
    check : names the engine.
    reference : the open engine at exact FP32, which accuracy is compared with.
    data : of the check.
    feeds : one batch to time, under the names of the data.
    tools : the cache, and the messages to the user.

    Raises
    ------
    BackendUnavailable : the device does not compute in that precision.
    UsageError : the backend does not offer the engine.
    BuildError : the runtime cannot build or load it, or it runs in another precision.
    ModelError : it is to run in FP32, and does not.
    """
    spec, backend = check.timed_reference, reference.backend
    tf32 = check.reference_precision == "tf32" if isinstance(backend, Tf32Backend) else None
    if spec is None:
        return Subject(reference.spec, backend, reference.built, reference.feeds(feeds), tf32=tf32)
    built = build_side(spec, usable_backend(spec), data, tools)
    with ExitStack() as opened:
        engine = open_side(spec, backend, built, tools, opened)
        names = match_names(reference.engine.signature.inputs, engine.signature.inputs, "input")
        inputs = {ours: names[theirs] for ours, theirs in reference.batched.inputs.items()}
        side = Side(spec, backend, built, engine, replace(reference.batched, engine=engine, inputs=inputs))
        own_feeds = side.feeds(feeds)
        if spec.precision == reference.spec.precision:
            prove_float(side, own_feeds, tools)
        else:
            tf32 = None
            _prove_short(side, own_feeds, tools)
    return Subject(spec, backend, built, own_feeds, check.reference_precision, tf32)


def _prove_short(side: Side, feeds: Feeds, tools: Tools) -> None:
    """Check that most of an engine runs in its short float, once for each engine. Raises `BuildError`."""
    spec = side.spec

    def read_back(_: Path) -> dict[str, str]:
        with tools.step(f"reading back what {spec.id} of {spec.model.name} runs"):
            ran = side.engine.coverage(feeds)
        if ran.most_pct is not None and ran.most_pct < _LEAST_PCT:
            others = ", ".join(ran.float_nodes) or "all"
            raise BuildError(
                f"latency cannot be compared with {spec.id} of {spec.model.name}, which runs in another precision",
                value=f"{ran.pct:.4g} % of {ran.unit} ran in {spec.precision}, not {others}",
                allowed=f"at least {_LEAST_PCT:g} %",
                fix="leave reference_precision out: latency is then compared with exact FP32",
            )
        return {"provider": ran.provider}

    what = f"{spec.precision} kernels of {spec.id} of {spec.model.name}"
    tools.cache.obtain("proof", what, side.backend.ingredients(spec), read_back)
