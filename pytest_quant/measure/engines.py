"""The two engines of a check: opened, their inputs and outputs matched, and built for the shapes of the data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from pytest_quant.backends import Backend, Engine, Feeds, get_backend
from pytest_quant.backends.feeds import spelled
from pytest_quant.backends.runtime import failing_as
from pytest_quant.data import Data, inputs_of, open_data
from pytest_quant.errors import BackendUnavailable, BuildError, ModelError, UsageError
from pytest_quant.measure.build import BuiltEngine, Tools
from pytest_quant.measure.rollout import Rollout
from pytest_quant.result import TimedSample
from pytest_quant.spec import Check, Dataset, EngineSpec, InputShapes, Model, Signature, TensorInfo


def match_names(reference: tuple[TensorInfo, ...], candidate: tuple[TensorInfo, ...], what: str) -> dict[str, str]:
    """Map the reference's names to the candidate's: by name, else by position when the counts agree.

    Parameters
    ----------
    reference, candidate : all inputs, or all outputs, of the two engines.
    what : ``input`` or ``output``, for the message.

    Raises
    ------
    ModelError : names and counts both differ, so that a tensor would not be compared.
    """
    ours, theirs = ({tensor.name: tensor for tensor in side} for side in (reference, candidate))
    if ours.keys() == theirs.keys():
        return _of_one_rank({name: name for name in ours}, ours, theirs, what)
    if len(ours) == len(theirs):
        return _of_one_rank(dict(zip(ours, theirs, strict=True)), ours, theirs, what)
    missing = sorted(set(ours) - set(theirs))
    raise ModelError(
        f"the candidate has {len(theirs)} {what}s, the reference {len(ours)}",
        value=f"candidate: {', '.join(theirs)}; missing: {', '.join(missing) or 'none'}",
        allowed=f"the same {what} names, or as many of them: {', '.join(ours)}",
        fix=f"give the quantized model the {what}s of the float one",
    )


def _of_one_rank(
    names: dict[str, str], ours: Mapping[str, TensorInfo], theirs: Mapping[str, TensorInfo], what: str
) -> dict[str, str]:
    """Return `names`. Raises `ModelError` where two tensors have not as many axes, as of two networks."""
    for name, other in names.items():
        first, second = ours[name].shape, theirs[other].shape
        if first is not None and second is not None and len(first) != len(second):
            raise ModelError(
                f"the candidate's {what} '{other}' has {len(second)} axes, the reference's '{name}' {len(first)}",
                value=f"shapes {spelled(theirs[other])} and {spelled(ours[name])}",
                fix="look whether the quantized model is made from this float one",
            )
    return names


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


def with_inputs(spec: EngineSpec, dataset: Dataset, known: dict[int, Model]) -> EngineSpec:
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
                fix="write backend='callable'",
            )
        inputs = inputs_of(dataset)
        if model.streams:
            inputs = tuple(replace(tensor, shape=(1, *(tensor.shape or ())[1:])) for tensor in inputs)
        return replace(model, signature=Signature(inputs, ()))

    return replace(spec, model=of_data(spec.model), quantized=spec.quantized and of_data(spec.quantized))


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
            name: _in_batch(seen.largest[name in data.layout.stepped :], 1, data.layout.axes[name])
            for name, seen in data.shapes.items()
        }
        return replace(data, tensor_bytes=backend.largest_tensor(spec.model, shapes))


def open_engine(built: BuiltEngine, tools: Tools, opened: ExitStack) -> Engine:
    """Open a built engine, which closing `opened` closes. Raises `BuildError` where the runtime cannot load it."""
    doing = f"opening {built.name}"
    with tools.steps.bounded(doing), failing_as(f"{doing} failed"):
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


def named_axes(engine: Engine, axes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the batch axes of outputs that the user names, shifted by the time axis that a sequence adds."""
    if not isinstance(engine, Rollout):
        return dict(axes)
    return {name: axis + 1 if axis else axis for name, axis in axes.items()}


def with_steps(data: Data, reference: Engine) -> Data:
    """Return `data` whose calibration samples are single steps, where the model has a state."""
    return replace(data, steps=reference.steps) if isinstance(reference, Rollout) else data


def shape_check(check: Check, data: Data) -> Check:
    """Return a check with the input shapes of its runs, for each engine that is built for them.

    Parameters
    ----------
    check : the check.
    data : the shapes of its samples.
    """
    names = get_backend(check.reference.backend).signature(check.reference.model).inputs
    bounds = [_largest_batch(spec, names, data) for spec in (check.candidate, check.reference)]
    timed = check.batch_size if check.latency is None else check.latency.batch_size
    fitting = data.evaluated_together(timed)
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
    own = match_names(names, inputs, "input")
    of_name = {tensor.name: tensor for tensor in inputs}
    shapes = []
    for name, seen in data.shapes.items():
        axis = data.layout.axes[name]
        sizes = of_name[own[name]].shape
        fixed = None if axis is None or not sizes else sizes[axis]
        batches = (1, usual_batch, largest_batch) if fixed is None else (fixed, fixed, fixed)
        smallest, commonest, largest = (
            _in_batch(shape[1:] if name in data.layout.stepped else shape, batch, axis)
            for shape, batch in zip((seen.smallest, seen.commonest, seen.largest), batches, strict=True)
        )
        shapes.append(InputShapes(own[name], smallest, commonest, largest, axis if fixed is None else None))
    return replace(spec, shapes=tuple(shapes))


def _in_batch(sample: tuple[int, ...], batch: int, axis: int | None) -> tuple[int, ...]:
    """Return the shape of a batch: that of a sample with `batch` inserted at the batch axis."""
    return sample if axis is None else (*sample[:axis], batch, *sample[axis:])


def _largest_batch(spec: EngineSpec, names: tuple[TensorInfo, ...], data: Data) -> int | None:
    backend = get_backend(spec.backend)
    if not backend.offer.fixed_shapes:
        return None
    own = match_names(names, _inputs(spec), "input")
    return backend.largest_batch(spec, {own[name]: axis for name, axis in data.layout.axes.items()})


def _inputs(spec: EngineSpec) -> tuple[TensorInfo, ...]:
    return get_backend(spec.backend).signature(spec.quantized or spec.model).inputs
