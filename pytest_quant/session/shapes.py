"""What the inputs of a check will look like, told to the backends that build their engines for it."""

from __future__ import annotations

from dataclasses import replace

from pytest_quant.backends import ShapedBackend, get_backend
from pytest_quant.data import Data
from pytest_quant.session.names import match_names
from pytest_quant.spec import Check, EngineSpec, InputShapes, TensorInfo


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
