"""The two engines of a check: opened, matched and built for the shapes of the data, and the reference proven float."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_quant.backends import TF32, Backend, Engine, Feeds, get_backend
from pytest_quant.backends.feeds import match_inputs
from pytest_quant.backends.runtime import name_errors
from pytest_quant.data import Data, inputs_of, open_data
from pytest_quant.errors import BackendUnavailable, BuildError, ModelError, QuantError, UsageError
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine, Tools, build_engine, map_models
from pytest_quant.measure.rollout import Rollout
from pytest_quant.result import Coverage, TimedSample
from pytest_quant.spec import Check, Dataset, EngineSpec, InputShapes, Model, Signature, TensorInfo


def usable_backend(spec: EngineSpec, own: Backend | None = None) -> Backend:
    """Return the backend of `spec` if it can build and run that engine here.

    Parameters
    ----------
    spec : the engine.
    own : the backend, where it is known; ``None`` looks its name up.

    Raises
    ------
    BackendUnavailable : it is not installed, or its device is absent.
    BuildError : it is installed and does not load.
    """
    backend = own or get_backend(spec.backend)
    availability = backend.availability(spec)
    if availability.broken:
        what = f"backend '{spec.backend}' is installed but does not load"
        raise BuildError(what, value=availability.reason, fix=availability.fix or None)
    if not availability.available:
        what = f"backend '{spec.backend}' cannot run here: {availability.reason}"
        raise BackendUnavailable(what, fix=availability.fix or None)
    return backend


def add_inputs(spec: EngineSpec, dataset: Dataset, known: dict[int, Model]) -> EngineSpec:
    """Return `spec` with the inputs of the data as those of its functions, which declare none, and of its modules.

    `known` keeps each model of a module with its inputs, by its identity. To look at them runs the module.

    Raises
    ------
    UsageError : its backend runs no functions.
    ModelError : a module does not run on its example inputs.
    DataError : the data cannot be read, see `inputs_of`.
    """

    def of_data(model: Model) -> Model:
        if model.module is not None:
            if id(model) not in known:
                known[id(model)] = replace(model, signature=get_backend(spec.backend).signature(model))
            return known[id(model)]
        if model.call is None:
            return model
        if not get_backend(spec.backend).offer.is_opaque:
            raise UsageError(
                f"backend '{spec.backend}' runs no functions, and model '{model.name}' is one",
                fix="write backend='callable', and quantized='NAME' of a fixture that returns the function to judge",
            )
        inputs = inputs_of(dataset)
        if model.streams:
            inputs = tuple(replace(tensor, shape=(1, *(tensor.shape or ())[1:])) for tensor in inputs)
        return replace(model, signature=Signature(inputs, ()))

    return map_models(spec, of_data)


def read_data(dataset: Dataset, spec: EngineSpec, tools: Tools) -> Data:
    """Read data once and check it against a model's inputs.

    Parameters
    ----------
    dataset : the user's samples.
    spec : names the model, and the backend that reads its signature.

    Raises
    ------
    DataError : the data is not usable, or does not fit the model; see `open_data`.
    """
    with tools.steps.show(f"reading {dataset.name}, for the inputs of {spec.model.name}"):
        backend = get_backend(spec.backend)
        data = open_data(dataset, backend.signature(spec.model), spec.model)
        if data.fixed_batch_size is not None:
            return data
        shapes = {
            name: _insert_batch(seen.largest[name in data.layout.stepped :], 1, data.layout.axes[name])
            for name, seen in data.shapes.items()
        }
        return replace(data, tensor_bytes=backend.largest_tensor(spec.model, shapes))


def open_engine(built: BuiltEngine, tools: Tools, opened: ExitStack) -> Engine:
    """Open a built engine, which closing `opened` closes. Raises `BuildError` if the runtime cannot load it."""
    doing = f"opening {built.name}"
    with tools.steps.bounded(doing), name_errors(f"{doing} failed"):
        engine = built.open(tools.steps.watch)
    opened.callback(engine.close)
    return engine


@dataclass(frozen=True, slots=True)
class TimingSubject:
    """An engine to time, opened anew for each measurement, and the batch it runs.

    Attributes
    ----------
    feeds : the batch, under the engine's names.
    precision : one of `REFERENCE_PRECISIONS`, where it is what latency is compared with.
    sample : that the batch begins with; ``None`` where it is not of a user's data.
    tf32 : whether its FP32 products may be rounded to TF32; ``None`` where they are not FP32, or there is no TF32.
    """

    built: BuiltEngine
    feeds: Feeds
    precision: str = "fp32"
    tf32: bool | None = None
    sample: TimedSample | None = None

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return self.built.backend.device

    def open(self, stack: ExitStack) -> Engine:
        """Open a new session, closed with `stack`."""
        engine = self.built.open()
        stack.callback(engine.close)
        return engine


def use_single_steps(data: Data, reference: Engine) -> Data:
    """Return `data` for a model with a state: calibration samples are single steps, and outputs have a time axis."""
    if not isinstance(reference, Rollout):
        return data
    axes = {name: axis + 1 if axis else axis for name, axis in data.output_axes.items()}
    return replace(data, steps=reference.steps, output_axes=axes)


def shape_check(check: Check, data: Data) -> Check:
    """Return a check with the input shapes of its runs, for each engine that is built for them."""
    names = get_backend(check.reference.backend).signature(check.reference.model).inputs
    bounds = [_largest_batch(spec, names, data) for spec in (check.candidate, check.reference)]
    timed = check.batch_size if check.latency is None else check.latency.batch_size
    fitting = data.find_evaluation_size(timed)
    size = min(bound for bound in (check.eval_batch_size or fitting, *bounds) if bound is not None)
    shaped = partial(shape_spec, names=names, data=data, usual_batch=timed, largest_batch=max(timed, size))
    chosen = check.eval_batch_size if size == fitting or data.fixed_batch_size is not None else size
    return replace(check.map_engines(shaped), eval_batch_size=chosen)


def shape_spec(
    spec: EngineSpec, names: tuple[TensorInfo, ...], data: Data, usual_batch: int, largest_batch: int
) -> EngineSpec:
    """Return a specification with the input shapes of its runs, if its backend builds for shapes.

    Parameters
    ----------
    spec : the engine.
    names : inputs of the model under the names of `data`.
    data : the shapes of its samples.
    usual_batch : samples in a timed run.
    largest_batch : most samples in a run; the smallest batch is 1.
    """
    backend = get_backend(spec.backend)
    if not backend.offer.fixed_shapes:
        return spec
    inputs = _inputs(spec)
    own = match_inputs(names, inputs, data.layout.axes)
    of_name = {tensor.name: tensor for tensor in inputs}
    shapes = []
    for name, seen in data.shapes.items():
        axis = data.layout.axes[name]
        sizes = of_name[own[name]].shape
        fixed = None if axis is None or not sizes else sizes[axis]
        batches = (1, usual_batch, largest_batch) if fixed is None else (fixed, fixed, fixed)
        smallest, commonest, largest = (
            _insert_batch(shape[1:] if name in data.layout.stepped else shape, batch, axis)
            for shape, batch in zip((seen.smallest, seen.commonest, seen.largest), batches, strict=True)
        )
        shapes.append(InputShapes(own[name], smallest, commonest, largest, axis if fixed is None else None))
    return replace(spec, shapes=tuple(shapes))


def _insert_batch(sample: tuple[int, ...], batch: int, axis: int | None) -> tuple[int, ...]:
    """Return the shape of a batch: the shape of a sample with `batch` inserted at the batch axis."""
    return sample if axis is None else (*sample[:axis], batch, *sample[axis:])


def _largest_batch(spec: EngineSpec, names: tuple[TensorInfo, ...], data: Data) -> int | None:
    backend = get_backend(spec.backend)
    if not backend.offer.fixed_shapes:
        return None
    own = match_inputs(names, _inputs(spec), data.layout.axes)
    return backend.largest_batch(spec, {own[name]: axis for name, axis in data.layout.axes.items()})


def _inputs(spec: EngineSpec) -> tuple[TensorInfo, ...]:
    return get_backend(spec.backend).signature(spec.quantized or spec.model).inputs


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

    def refuse(ran: Coverage, others: str) -> QuantError:
        return ModelError(
            f"the reference {reference.built.name} does not compute in FP32: its file is quantized or half",
            value="; ".join((f"{ran.pct:.4g} % of {ran.unit} ran in float32, not {others}", *ran.notes)),
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

    def refuse(ran: Coverage, others: str) -> QuantError:
        return BuildError(
            f"latency cannot be compared with {built.name}, which runs in another precision",
            value=f"{ran.pct:.4g} % of {ran.unit} ran in {built.spec.precision}, not {others}",
            allowed="at least 50 %",
            fix="leave reference_precision out: latency is then compared with exact FP32",
        )

    with ExitStack() as opened:
        engine = open_engine(built, tools, opened)
        names = match_inputs(reference.engine.signature.inputs, engine.signature.inputs, data.layout.axes)
        feeds = {names[name]: array for name, array in timed.feeds.items()}
        deployed = replace(reference, built=built, engine=engine)
        if spec.precision == reference.spec.precision:
            prove_float(deployed, feeds, tools)
        else:
            tf32 = None
            # Of the eligible compute: with less, the times are those of another precision.
            _prove(deployed, feeds, tools, 50.0, refuse)
    return replace(timed, built=built, feeds=feeds, precision=check.reference_precision, tf32=tf32)


def _prove(
    opened: OpenEngine, feeds: Feeds, tools: Tools, least_pct: float, refusal: Callable[[Coverage, str], QuantError]
) -> str:
    """Read back what an engine runs, once for each engine, and return what cannot be seen into.

    Raises the error that `refusal` makes of it, and of the operators in another precision, where less than `least_pct`
    can have run in the precision of the engine.
    """
    spec, name = opened.spec, opened.built.name

    def read_back(_: Path) -> dict[str, str]:
        with tools.steps.show(f"reading back what {name} runs"):
            ran = opened.engine.coverage(feeds)
        if ran.most_pct is not None and ran.most_pct < least_pct:
            raise refusal(ran, ", ".join(ran.float_nodes) or "all")
        share = "" if ran.pct is None else f", {100.0 - ran.pct:.4g} % of {ran.unit},"
        nodes = f"{ran.opaque_nodes} nodes{share} of the reference {spec.id} cannot be seen into"
        unseen = f"{nodes}: that they run in float32 is not proven" if ran.opaque_nodes else ""
        return {"provider": ran.provider, "unseen": unseen}

    entry = tools.cache.obtain("proof", f"{spec.precision} kernels of {name}", opened.built.ingredients, read_back)
    return str(entry.facts.get("unseen", ""))
