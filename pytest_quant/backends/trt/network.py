"""The network that TensorRT is given: its graph, the shapes that it is built for, and the keys of the cache.

The graph is refused before a build where TensorRT would compute it wrongly, or not say why. Pairs with scales or zero
points that its parser refuses by itself are left to it. Source: onnx-tensorrt, whose importer of QuantizeLinear and
DequantizeLinear takes uint8 zero points with a warning only and then saturates every activation above half of its
range.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from onnx import TensorProto
from onnx.numpy_helper import to_array

from pytest_quant.backends.feeds import Feeds, describe_tensor
from pytest_quant.backends.offer import calibration_ingredients
from pytest_quant.backends.onnx_files import (
    digests_of,
    external_files,
    model_file,
    model_ingredients,
    read_graph,
    read_signature,
)
from pytest_quant.backends.onnx_files.graphs import bodies_of
from pytest_quant.backends.onnx_files.normalize import normalize_model
from pytest_quant.backends.trt.options import QUANTIZER, Range, TrtOptions, options_of, quantizer_spec
from pytest_quant.errors import BuildError, DataError, UsageError, nearest
from pytest_quant.spec import EngineSpec, InputShapes, Shape, Signature, TensorInfo

GRAPH_FILE = "model.onnx"
"""The graph that was built, kept beside the plan: what is simulated is exactly this."""


def write_graph(spec: EngineSpec, calibration: Path | None, folder: Path) -> Path:
    """Write the graph to build and check it, and return its path.

    Parameters
    ----------
    spec : the engine; its model, or the one that arrives quantized, is copied where nothing is quantized here.
    calibration : the folder that `QUANTIZER` filled with ranges, from which Q/DQ pairs are made; it is not read
        where TensorRT's own calibrator finds them. ``None`` where there is no calibration.
    folder : gets ``model.onnx`` and the files of its external data.

    Raises
    ------
    UsageError : `spec` excludes a node that the model does not have.
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime cannot quantize the model, or the graph is one that TensorRT cannot take.
    """
    graph = folder / GRAPH_FILE
    if calibration is not None and not options_of(spec).implicit:
        QUANTIZER.build(quantizer_spec(spec), calibration, folder)
    else:
        _copy(model_file(spec.quantized or spec.model), graph)
    check_graph(graph, ((spec.quantized or spec.model).path or graph).name)
    return graph


def _copy(source: Path, target: Path) -> None:
    """Copy a model with the files that its weights lie in, under the names that it knows them by."""
    shutil.copyfile(source, target)
    for location, file in external_files(read_graph(source), source).items():
        copied = target.parent / location
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)


_INTEGER = re.compile(r"DynamicQuantizeLinear|QLinear\w+|QGemm|QAttention|(Conv|MatMul)Integer\w*")
"""Operators of ONNX Runtime and of the standard that TensorRT does not read."""

_Constants: TypeAlias = Mapping[str, TensorProto]


def check_graph(path: Path, name: str = "") -> None:
    """Refuse the graph in `path` if TensorRT would compute something else, or would not say what to do instead.

    `name` is what the user calls it, by default the file's own.

    Raises
    ------
    BuildError : names the first node, the cause and the fix; and how many more there are.
    ModelError : the file is not a model.
    """
    faults = list(_faults(normalize_model(read_graph(path)).graph, {}, path.parent))
    if not faults:
        return
    node, cause = faults[0]
    more = f"; {len(faults)} nodes have this fault or another" if len(faults) > 1 else ""
    what = f"TensorRT cannot take {name or path.name}: node '{node.name or node.output[0]}' ({node.op_type})"
    fix = "drop quantized= and write scheme='static': backend='trt-rtx' or 'trt' quantizes the float model then"
    raise BuildError(what, value=cause + more, fix=fix)


def _faults(graph: onnx.GraphProto, around: _Constants, folder: Path) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Yield the faults of `graph` and of the graphs inside it, which read the constants `around` them by name.

    `folder` has the files of external data.
    """
    constants = {**around, **{tensor.name: tensor for tensor in graph.initializer}}
    for node in graph.node:
        for body in bodies_of(node):
            yield from _faults(body, constants, folder)
        if _INTEGER.fullmatch(node.op_type):
            yield node, "it reads Q/DQ pairs: no operators on integers, and none that finds ranges while it runs"
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero_point = constants.get(node.input[2]) if len(node.input) > 2 else None
            if wrong := _WRONG.get(_type_of(node, zero_point, constants)):
                yield node, wrong
            elif zero_point is not None and to_array(zero_point, str(folder)).any():
                yield node, _OFF_ZERO


_WRONG: dict[int, str] = {
    TensorProto.UINT8: "its zero point is uint8: TensorRT reads it as int8, and everything above half of the range "
    "saturates",
    TensorProto.INT32: "it is an int32 bias, and TensorRT takes int8 only (QuantizeBias=False leaves biases in float)",
}


_OFF_ZERO = "its zero point is not 0: TensorRT takes ranges around 0 only, as ActivationSymmetric=True of ORT gives"


def _type_of(node: onnx.NodeProto, zero_point: TensorProto | None, constants: _Constants) -> int:
    """Return the integer type of a pair: of its zero point, of the constant it reads, else the standard's uint8."""
    if zero_point is not None:
        return zero_point.data_type
    declared = [attribute.i for attribute in node.attribute if attribute.name == "output_dtype" and attribute.i]
    if declared:
        return int(declared[0])
    if node.op_type == "QuantizeLinear":
        return TensorProto.UINT8
    read = constants.get(node.input[0])
    return TensorProto.INT8 if read is None else read.data_type


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
        if len(actual) != len(low) or not all(a <= size <= b for a, size, b in zip(low, actual, high, strict=True)):
            what = f"input '{name}' does not fit the engine"
            fix = _write(name, _wider((low, usual, high), actual, usual, actual))
            return DataError(what, value=str(actual), allowed=f"{low} to {high}, which it was built for", fix=fix)
    return None


def profile_of(spec: EngineSpec, signature: Signature) -> dict[str, Range]:
    """Return smallest, usual and largest of each input with free axes: from the options, else from the data.

    Without either, the leading axis is a batch and no other axis may be free.

    Raises
    ------
    UsageError : the options name an input, a rank or a fixed size that the model does not have; or the size of
        a free axis is not known.
    DataError : the data has shapes that the options rule out.
    """
    options = options_of(spec)
    named = options.shapes or {}
    names = [tensor.name for tensor in signature.inputs]
    for name in named:
        if name not in names:
            fix = "use the model's own input names as keys"
            raise UsageError(f"option 'shapes': the model has no input '{name}'", allowed=nearest(name, names), fix=fix)
    seen = {shapes.name: shapes for shapes in spec.shapes}
    ranges: dict[str, Range] = {}
    for tensor in signature.inputs:
        if tensor.name in named:
            ranges[tensor.name] = _check_shapes(named[tensor.name], tensor)
        elif tensor.free_axes:
            given = seen.get(tensor.name)
            ranges[tensor.name] = _guess_shapes(tensor, options) if given is None else _set_batch(given, options)
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
    options = options_of(spec)
    bounds = [] if options.max_batch is None else [options.max_batch]
    for tensor in signature.inputs:
        axis, named = batch_axes.get(tensor.name), (options.shapes or {}).get(tensor.name)
        if axis is not None and named is not None and axis in tensor.free_axes and axis < len(named[2]):
            bounds.append(named[2][axis])
    return min(bounds, default=None)


def _check_shapes(named: Range, tensor: TensorInfo) -> Range:
    wanted = tensor.shape
    if wanted is None:
        return named
    for shape in named:
        if len(shape) != len(wanted) or any(n not in (None, size) for size, n in zip(shape, wanted, strict=True)):
            what = f"option 'shapes': input '{tensor.name}' of the model has other axes, the batch included"
            fix = "write all axes of the smallest, the usual and the largest shape"
            raise UsageError(what, value=str(shape), allowed=describe_tensor(tensor), fix=fix)
    return named


def _guess_shapes(tensor: TensorInfo, options: TrtOptions) -> Range:
    if tensor.free_axes != (0,):
        axes = ", ".join(str(axis) for axis in tensor.free_axes if axis)
        raise UsageError(
            f"axes {axes} of input '{tensor.name}' are free, and nothing here has their sizes",
            value=describe_tensor(tensor),
            fix="give data, build_engine(data='quant_data'), or write the sizes: "
            f"options={{'shapes': {{'{tensor.name}': [smallest, usual, largest]}}}}",
        )
    rest = tuple(size or 0 for size in (tensor.shape or ())[1:])
    return (1, *rest), (1, *rest), (options.max_batch or _MAX_BATCH, *rest)


def _set_batch(shapes: InputShapes, options: TrtOptions) -> Range:
    """Put the largest batch that the options name in the place of the planned batch."""
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
    what = f"input '{shapes.name}' of the data does not fit the shapes that the engine is to be built for"
    raise DataError(what, value=f"{shapes.smallest} to {shapes.largest}", allowed=f"{low} to {high}", fix=fix)


def _wider(earlier: Range, smallest: Shape, usual: Shape, largest: Shape) -> Range:
    return tuple(map(min, earlier[0], smallest)), usual, tuple(map(max, earlier[2], largest))


def _write(name: str, shapes: Range) -> str:
    return f"write options={{'shapes': {{'{name}': [{', '.join(map(str, shapes))}]}}}}"


RECIPE_VERSION = "6"
"""Raised when the same ingredients would be built into something else."""


_BESIDE_PLAN = ("shapes", "max_batch", "memory", "libraries")
"""Options that decide nothing of the plan beside its profile or the bytes of files, which are named."""


def engine_ingredients(spec: EngineSpec, runtime_version: str) -> dict[str, str]:
    """Return everything but the data that decides the plan, or the ranges that TensorRT finds. Raises `ModelError`."""
    options = options_of(spec)
    shapes = profile_of(spec, read_signature(model_file(spec.quantized or spec.model)))
    builder = {
        "TensorRT": runtime_version,
        "builder recipe": RECIPE_VERSION,
        "backend": spec.backend,
        "profile": json.dumps(shapes, sort_keys=True),
        "plugins": digests_of(options.libraries),
        **{name: str(value) for name, value in asdict(options).items() if name not in _BESIDE_PLAN},
    }
    if spec.scheme == "static" and not options.implicit:
        return builder | QUANTIZER.ingredients(quantizer_spec(spec))
    quantized = {} if spec.quantized is None else model_ingredients("quantized model", spec.quantized)
    ranges = calibration_ingredients(spec) if spec.scheme == "static" else {}
    ours = {"precision": spec.precision, "scheme": str(spec.scheme)}
    return builder | model_ingredients("model", spec.model) | quantized | ours | ranges
