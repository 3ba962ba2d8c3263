"""The two engines of a check: built, opened, their inputs and outputs matched, and the reference proven FP32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_quant.backends import Backend, Engine, Feeds, ShapedBackend, get_backend
from pytest_quant.backends.failure import failing_as
from pytest_quant.cache import Cache
from pytest_quant.data import Data, open_data
from pytest_quant.errors import BackendUnavailable, BuildError, ModelError
from pytest_quant.measure.batching import Batched
from pytest_quant.measure.build import BuiltEngine, Step, build_engine
from pytest_quant.measure.lock import shared, shared_if_free
from pytest_quant.measure.outputs import Chunk
from pytest_quant.measure.rollout import Rollout
from pytest_quant.spec import Check, Dataset, EngineSpec, InputShapes, Signature, TensorInfo


def match_names(reference: tuple[TensorInfo, ...], candidate: tuple[TensorInfo, ...], what: str) -> dict[str, str]:
    """Map the reference's names to the candidate's: by name, else by position when the counts agree.

    Raises
    ------
    ModelError : neither fits, so that something would go uncompared. `what` is ``input`` or ``output``.
    """
    ours, theirs = [tensor.name for tensor in reference], [tensor.name for tensor in candidate]
    if set(ours) == set(theirs):
        return {name: name for name in ours}
    if len(ours) == len(theirs):
        return dict(zip(ours, theirs, strict=True))
    missing = sorted(set(ours) - set(theirs))
    raise ModelError(
        f"the candidate has {len(theirs)} {what}s, the reference {len(ours)}",
        value=f"candidate: {', '.join(theirs)}; missing: {', '.join(missing) or 'none'}",
        allowed=f"the same {what} names, or as many of them: {', '.join(ours)}",
        fix=f"give the quantized model the {what}s of the float one",
    )


def renamed(chunks: Iterator[Chunk], reference: Signature, candidate: Signature) -> Iterator[Chunk]:
    """Give the candidate's outputs the reference's names; an output it did not give stays missing."""
    names = match_names(reference.outputs, candidate.outputs, "output")
    for chunk in chunks:
        outputs = {ours: chunk.outputs[theirs] for ours, theirs in names.items() if theirs in chunk.outputs}
        yield Chunk(outputs, chunk.labels, chunk.start, chunk.n)


@dataclass(frozen=True, slots=True)
class Tools:
    """What a session shares between its checks; `notify` and `step` tell the user what goes on."""

    cache: Cache
    notify: Callable[[str], None]
    step: Step


@dataclass(frozen=True, slots=True)
class Side:
    """One engine of a check, open, and how it takes batches of the data."""

    spec: EngineSpec
    backend: Backend
    built: BuiltEngine
    engine: Engine
    batched: Batched

    def feeds(self, feeds: Feeds) -> Feeds:
        """Rename the inputs of one batch to the engine's names."""
        return self.batched.feeds(feeds)


def usable_backend(spec: EngineSpec) -> Backend:
    """Return the backend of `spec` if that engine can be had here.

    Raises
    ------
    BackendUnavailable : it is not installed, or its device is absent.
    BuildError : it is installed and does not load.
    """
    name = spec.backend
    backend = get_backend(name)
    found = backend.availability(spec)
    if found.broken:
        raise BuildError(f"backend '{name}' is installed but does not load", value=found.reason, fix=found.fix or None)
    if not found.available:
        raise BackendUnavailable(f"backend '{name}' cannot run here: {found.reason}", fix=found.fix or None)
    return backend


def on_device(device: str, tools: Tools, *, times: bool) -> AbstractContextManager[None]:
    """Hold `device` for building and evaluating; what `times` nothing waits for nobody, see `device_lock`."""
    return shared(device, tools.notify) if times else shared_if_free(device)


def read_data(dataset: Dataset, spec: EngineSpec, tools: Tools) -> Data:
    """Read `dataset` once and check it against the inputs of the model of `spec`."""
    with tools.step(f"reading {dataset.name}, for the inputs of {spec.model.name}"):
        return open_data(dataset, get_backend(spec.backend).signature(spec.model), spec.model)


def build_side(spec: EngineSpec, backend: Backend, data: Data | None, tools: Tools) -> BuiltEngine:
    """Build `spec` through the cache in its `backend`, which can run here."""
    backend.check(spec)
    return build_engine(spec, backend, data, tools.cache, tools.step)


def open_side(spec: EngineSpec, backend: Backend, built: BuiltEngine, tools: Tools, opened: ExitStack) -> Engine:
    """Open a built engine; closing `opened` closes it."""
    doing = f"opening {spec.id} of {spec.model.name}"
    with tools.step(doing), failing_as(f"{doing} failed"):
        engine = open_built(spec, backend, built)
    opened.callback(engine.close)
    return engine


def open_built(spec: EngineSpec, backend: Backend, built: BuiltEngine) -> Engine:
    """Open a built engine; one of a model that has a state takes whole sequences."""
    engine = backend.open(spec, built.folder)
    return Rollout(engine, spec.model.state) if spec.model.state else engine


def named_axes(engine: Engine, axes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the axes that the user names of outputs, where they are after a sequence was run."""
    if not isinstance(engine, Rollout):
        return dict(axes)
    return {name: axis + 1 if axis else axis for name, axis in axes.items()}


def with_steps(data: Data, reference: Engine) -> Data:
    """Return `data` whose calibration samples are the single steps of a model that has a state."""
    return replace(data, steps=reference.steps) if isinstance(reference, Rollout) else data


def shape_check(check: Check, data: Data, eval_batch_size: int) -> Check:
    """Return `check` with the shapes of its runs in each engine that is built for them.

    Evaluation has batches of `eval_batch_size`, or smaller ones where the mark bounds what an engine is built for.
    """
    names = get_backend(check.reference.backend).signature(check.reference.model).inputs
    bounds = [_largest_batch(spec, names, data) for spec in (check.candidate, check.reference)]
    size = min([check.eval_batch_size or eval_batch_size, *(bound for bound in bounds if bound is not None)])
    timed = check.batch_size if check.latency is None else check.latency.batch_size
    return replace(
        check,
        candidate=shape_spec(check.candidate, names, data, timed, max(timed, size)),
        reference=shape_spec(check.reference, names, data, timed, max(timed, size)),
        eval_batch_size=check.eval_batch_size if size == eval_batch_size else size,
    )


def shape_spec(
    spec: EngineSpec, names: tuple[TensorInfo, ...], data: Data, usual_batch: int, largest_batch: int
) -> EngineSpec:
    """Return `spec` with the shapes of `data` in batches of 1 to `largest_batch`, if its backend builds for shapes.

    `names` are the inputs as `data` names them.
    """
    backend = get_backend(spec.backend)
    if not isinstance(backend, ShapedBackend):
        return spec
    inputs = _inputs(spec)
    own = match_names(names, inputs, "input")
    of_name = {tensor.name: tensor for tensor in inputs}
    found = []
    for name, seen in data.shapes.items():
        axis = data.layout.axes[name]
        sizes = of_name[own[name]].shape
        fixed = None if axis is None or not sizes else sizes[axis]
        batches = (1, usual_batch, largest_batch) if fixed is None else (fixed, fixed, fixed)
        smallest, commonest, largest = (
            _in_batch(shape[1:] if name in data.layout.stepped else shape, batch, axis)
            for shape, batch in zip((seen.smallest, seen.commonest, seen.largest), batches, strict=True)
        )
        found.append(InputShapes(own[name], smallest, commonest, largest, axis if fixed is None else None))
    return replace(spec, shapes=tuple(found))


def _in_batch(sample: tuple[int, ...], batch: int, axis: int | None) -> tuple[int, ...]:
    """Put the size of the batch on the axis that counts samples."""
    return sample if axis is None else (*sample[:axis], batch, *sample[axis:])


def _largest_batch(spec: EngineSpec, names: tuple[TensorInfo, ...], data: Data) -> int | None:
    backend = get_backend(spec.backend)
    if not isinstance(backend, ShapedBackend):
        return None
    own = match_names(names, _inputs(spec), "input")
    return backend.largest_batch(spec, {own[name]: axis for name, axis in data.layout.axes.items()})


def _inputs(spec: EngineSpec) -> tuple[TensorInfo, ...]:
    return get_backend(spec.backend).signature(spec.quantized or spec.model).inputs


_ALL_PCT = 100.0


def prove_float(side: Side, feeds: Feeds, tools: Tools) -> None:
    """Raise `ModelError` when the reference runs kernels that are not float; asked once for each engine.

    `feeds` is one batch under the engine's names.
    """
    spec = side.spec

    def read_back(_: Path) -> dict[str, str]:
        with tools.step(f"reading back what {spec.id} of {spec.model.name} runs"):
            found = side.engine.coverage(feeds)
        if found.pct is not None and found.pct < _ALL_PCT:
            raise ModelError(
                f"the reference {spec.id} of {spec.model.name} does not compute in FP32: its file is quantized or half",
                value=f"{found.pct:.4g} % of {found.unit} ran in float32, not {', '.join(found.float_nodes) or 'all'}",
                allowed="a float32 model as the reference",
                fix="give the float32 model as the model; the quantized one goes to quantized='model_int8.onnx'",
            )
        return {"provider": found.provider}

    tools.cache.obtain(
        "proof", f"float kernels of {spec.id} of {spec.model.name}", side.backend.ingredients(spec), read_back
    )
