"""The shapes that an engine is built for, TensorRT's optimization profile, and the keys of the cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

import numpy as np

from pytest_quant.backends.feeds import Feeds, spelled
from pytest_quant.backends.offer import calibration_ingredients
from pytest_quant.backends.onnx_files import digests_of, model_file, model_ingredients, read_signature
from pytest_quant.backends.trt.options import QUANTIZER, Range, TrtOptions, parse_options, quantizer_spec
from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.spec import EngineSpec, InputShapes, Shape, Signature, TensorInfo

_MAX_BATCH = 64
"""Largest batch of an engine that neither the data nor the options bound."""


def shape_notes(shapes: Mapping[str, Range]) -> tuple[str, ...]:
    """Say what an engine was built for, a line for each input with free axes."""
    return tuple(
        f"built for {low} to {high} of '{name}', usually {usual}" for name, (low, usual, high) in shapes.items()
    )


def shape_misfit(shapes: Mapping[str, Range], feeds: Feeds) -> DataError | None:
    """Return the error for `feeds` that an engine built for `shapes` does not take; ``None`` when it takes them."""
    for name, (low, usual, high) in shapes.items():
        actual = np.shape(feeds[name])
        if not _within(actual, low, high):
            return DataError(
                f"input '{name}' does not fit the engine",
                value=str(actual),
                allowed=f"{low} to {high}, which it was built for",
                fix=_write(name, _wider((low, usual, high), actual, usual, actual)),
            )
    return None


def profile_of(spec: EngineSpec, signature: Signature) -> dict[str, Range]:
    """Return smallest, usual and largest of each input with free axes: those in the options, else those of the data.

    Without either, the leading axis is a batch and no other axis may be free.

    Raises
    ------
    UsageError : the options name an input, a rank or a fixed size that the model does not have; or the size of
        a free axis is not known.
    DataError : the data has shapes that the options rule out.
    """
    options = parse_options(spec.backend, spec.options)
    named = options.shapes or {}
    _check_names(named, signature)
    seen = {shapes.name: shapes for shapes in spec.shapes}
    ranges: dict[str, Range] = {}
    for tensor in signature.inputs:
        if tensor.name in named:
            ranges[tensor.name] = _checked_shapes(named[tensor.name], tensor)
        elif tensor.free_axes:
            given = seen.get(tensor.name)
            ranges[tensor.name] = _guessed(tensor, options) if given is None else _with_batch(given, options)
    for shapes in spec.shapes:
        if shapes.name in ranges:
            _check_data(shapes, ranges[shapes.name], options)
    return ranges


def largest_batch(spec: EngineSpec, signature: Signature, batch_axes: Mapping[str, int | None]) -> int | None:
    """Return the largest batch that the options of `spec` allow, in samples.

    Parameters
    ----------
    spec : its options `max_batch` and `shapes` are read.
    signature : the inputs of the engine; an entry of `shapes` bounds the batch only where the batch axis is free.
    batch_axes : by the name of an input the axis that counts samples; ``None``, or no entry, where none does.

    Returns
    -------
    The smallest of the bounds; ``None`` where the options set none.
    """
    options = parse_options(spec.backend, spec.options)
    bounds = [] if options.max_batch is None else [options.max_batch]
    for tensor in signature.inputs:
        axis, named = batch_axes.get(tensor.name), (options.shapes or {}).get(tensor.name)
        if axis is not None and named is not None and axis in tensor.free_axes and axis < len(named[2]):
            bounds.append(named[2][axis])
    return min(bounds, default=None)


def _check_names(named: Iterable[str], signature: Signature) -> None:
    names = [tensor.name for tensor in signature.inputs]
    for name in named:
        if name not in names:
            raise UsageError(
                f"option 'shapes': the model has no input '{name}'",
                allowed=nearest(name, names),
                fix="use the model's own input names as keys",
            )


def _checked_shapes(named: Range, tensor: TensorInfo) -> Range:
    wanted = tensor.shape
    if wanted is None:
        return named
    for shape in named:
        if len(shape) != len(wanted) or any(n not in (None, size) for size, n in zip(shape, wanted, strict=True)):
            raise UsageError(
                f"option 'shapes': input '{tensor.name}' of the model has other axes, the batch included",
                value=str(shape),
                allowed=spelled(tensor),
                fix="write all axes of the smallest, the usual and the largest shape",
            )
    return named


def _guessed(tensor: TensorInfo, options: TrtOptions) -> Range:
    if tensor.free_axes != (0,):
        axes = ", ".join(str(axis) for axis in tensor.free_axes if axis)
        raise UsageError(
            f"axes {axes} of input '{tensor.name}' are free, and nothing here has their sizes",
            value=spelled(tensor),
            fix="give data, build_engine(data='quant_data'), or write the sizes: "
            f"options={{'shapes': {{'{tensor.name}': [smallest, usual, largest]}}}}",
        )
    rest = tuple(size or 0 for size in (tensor.shape or ())[1:])
    return (1, *rest), (1, *rest), (options.max_batch or _MAX_BATCH, *rest)


def _with_batch(shapes: InputShapes, options: TrtOptions) -> Range:
    """Put the largest batch that the options name in the place of the one that is planned."""
    axis, largest = shapes.batch_axis, shapes.largest
    if axis is not None and options.max_batch is not None:
        largest = (*largest[:axis], options.max_batch, *largest[axis + 1 :])
    return shapes.smallest, shapes.usual, largest


def _check_data(shapes: InputShapes, allowed: Range, options: TrtOptions) -> None:
    low, _, high = allowed
    outside = [
        axis
        for axis in range(len(shapes.smallest))
        if not low[axis] <= shapes.smallest[axis] <= shapes.largest[axis] <= high[axis]
    ]
    if not outside:
        return
    if outside == [shapes.batch_axis] and options.max_batch is not None:
        fix = f"write options={{'max_batch': {shapes.largest[outside[0]]}}}, or smaller batches"
    else:
        fix = _write(shapes.name, _wider(allowed, shapes.smallest, shapes.usual, shapes.largest))
    raise DataError(
        f"input '{shapes.name}' of the data does not fit the shapes that the engine is to be built for",
        value=f"{shapes.smallest} to {shapes.largest}",
        allowed=f"{low} to {high}",
        fix=fix,
    )


def _within(shape: Shape, low: Shape, high: Shape) -> bool:
    return len(shape) == len(low) and all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True))


def _wider(earlier: Range, smallest: Shape, usual: Shape, largest: Shape) -> Range:
    return tuple(map(min, earlier[0], smallest)), usual, tuple(map(max, earlier[2], largest))


def _write(name: str, shapes: Range) -> str:
    return f"write options={{'shapes': {{'{name}': [{', '.join(map(str, shapes))}]}}}}"


RECIPE_VERSION = "6"
"""Raised when the same ingredients would be built into something else."""


_BESIDE_PLAN = ("shapes", "max_batch", "memory", "libraries")
"""Options that decide nothing of the plan beside its profile or the bytes of files, which are named."""


def engine_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides the plan. Raises `ModelError`."""
    if spec.scheme == "static":
        return _builder(spec, runtime_version) | QUANTIZER.ingredients(quantizer_spec(spec))
    return _as_it_is(spec, runtime_version)


def implicit_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides a plan whose ranges TensorRT finds. Raises `ModelError`."""
    return _as_it_is(spec, runtime_version) | calibration_ingredients(spec)


def _as_it_is(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return what decides the plan of a graph that nothing here quantizes."""
    quantized = {} if spec.quantized is None else model_ingredients("quantized model", spec.quantized)
    ours = {"precision": spec.precision, "scheme": str(spec.scheme)}
    return _builder(spec, runtime_version) | model_ingredients("model", spec.model) | quantized | ours


def _builder(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    options = parse_options(spec.backend, spec.options)
    builder = {name: str(value) for name, value in asdict(options).items() if name not in _BESIDE_PLAN}
    shapes = profile_of(spec, read_signature(model_file(spec.quantized or spec.model)))
    return {
        "TensorRT": runtime_version,
        "builder recipe": RECIPE_VERSION,
        "backend": spec.backend,
        "profile": json.dumps(shapes, sort_keys=True),
        "plugins": digests_of(options.libraries),
        **builder,
    }
