"""Valid inputs of a model: drawn from its signature, or real samples with a few elements replaced.

A failing example shrinks towards the base with one element that matters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds, get_exporter
from pytest_quant.backends.onnx_files import read_signature, read_table_rows
from pytest_quant.data import Layout, find_layout, open_data
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import Dataset, Model, Signature, TensorInfo

Source: TypeAlias = str | Path | Model | Signature | Engine
"""A source of the inputs: an ONNX file, a `Model`, an open engine, or a `Signature`."""

Elements: TypeAlias = Mapping[str, Sequence[st.SearchStrategy[Any]]]
"""By input name, strategies for single values; those of samples are one for each element, or one for all."""

_MAX_SIZE = 4


def inputs(
    model: Source,
    data: object | None = None,
    *,
    batch_size: int | tuple[int, int] = (1, _MAX_SIZE),
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    scale: float = 1.0,
) -> st.SearchStrategy[Feeds]:
    """Draw inputs of one run: a dict of arrays by input name, as an engine's ``run`` takes it.

    With `data`, a batch is made of the first 256 real samples, with up to four elements of each input replaced by drawn
    values. It shrinks to the first sample alone. Without `data`, the elements of an array are equal, but for up to four
    that are replaced; they shrink to zeros and to size 1 on every free axis. NaN and infinity are never drawn.

    Parameters
    ----------
    model : the path of an ONNX file (relative to the calling file, else to the working directory), a `Model`, a
        `Signature` or an open engine. It is read when the first example is drawn.
    data : what a ``quant_data`` fixture returns: a `Dataset`, arrays, or an iterable of ``(inputs, label)``.
    batch_size : samples in a run, or the smallest and largest number of them; not read where the model fixes it.
    sizes : size, or smallest and largest size, by the name of a free axis: ``{"height": (32, 64)}``; 1 to 4 for others.
        Axes of one name have one size in a run. With `data`, samples keep their own sizes.
    bounds : smallest and largest value by input name: ``{"ids": (0, 30521)}``.
    scale : for floats, half-width of the range of values relative to that of the data; 2 extends the range by half its
        width at either end. Without data, values lie between ``-scale`` and ``scale``.

    Notes
    -----
    Integers of 16 bits and more lie within the embedding table that the graph indexes with them, else within the
    range of the data; where neither is known, drawing raises `UsageError` and asks for `bounds`.

    Raises
    ------
    UsageError : while drawing, the model does not have a name in `bounds` or `sizes`.
    """
    if isinstance(model, (str, Path)):
        local = Path(sys._getframe(1).f_code.co_filename).parent / model  # noqa: SLF001 - relative to the caller
        model = local if local.is_file() else Path(model)
    source, named_sizes, named_bounds = model, dict(sizes or {}), dict(bounds or {})

    def strategy() -> st.SearchStrategy[Feeds]:
        signature, layout, rows, read = read_source(source)
        axes = {tensor.name: _axes(tensor) for tensor in signature.inputs}
        free = dict.fromkeys(axis for each in axes.values() for axis in each if isinstance(axis, str))
        _check_names("input", named_bounds, axes)
        _check_names("free axis", named_sizes, free)
        samples: list[Feeds] = []
        elements: dict[str, list[st.SearchStrategy[Any]]] = {}
        if data is not None:
            samples, layout = _read_samples(data, signature, read)
        for tensor in signature.inputs:
            values = _columns([sample[tensor.name] for sample in samples], tensor) if samples else [None]
            extent = named_bounds.get(tensor.name) or rows.get(tensor.name)
            elements[tensor.name] = [_element(tensor, each, extent, scale) for each in values]
        if samples:
            return _draw_samples(elements, samples, layout, _range(layout.fixed_batch_size or batch_size))
        counting = {axes[name][axis]: batch_size for name, axis in layout.axes.items() if axis is not None}
        ranges: dict[int | str, tuple[int, int]]
        ranges = {axis: _range((named_sizes | counting).get(axis, (1, _MAX_SIZE))) for axis in free}
        return _draw_elements(signature.inputs, axes, elements, ranges)

    return st.deferred(strategy)


def read_source(source: Source) -> tuple[Signature, Layout, Mapping[str, tuple[int, int]], Model | None]:
    """Return inputs and outputs of a model, its batch axes, the rows of embedding tables by input name, and the model.

    Raises
    ------
    ModelError : the file is missing or broken.
    DataError : the ``batch_axes`` of the `Model` do not fit it.
    UsageError : `source` is none of the allowed types.
    """
    given = Model.from_onnx(source) if isinstance(source, (str, Path)) else source
    model = given if isinstance(given, Model) else getattr(getattr(given, "spec", None), "model", None)
    rows: dict[str, tuple[int, int]] = {}
    if isinstance(source, Signature):
        signature = source
    elif model is None:
        raise UsageError(
            "inputs are drawn for a model",
            value=type(source).__name__,
            allowed="the path of an ONNX file, a Model, a Signature, or an engine such as the fixture quant_engine",
        )
    elif model.path is None:
        signature = get_exporter().signature(model)
    else:
        signature = read_signature(model.path)
        rows = {name: (0, count - 1) for name, count in read_table_rows(model.path).items()}
    ranks = {tensor.name: 1 if tensor.shape is None else len(tensor.shape) for tensor in signature.inputs}
    batch_axes = {} if model is None else {name: axis for name, axis in model.batch_axes if name in ranks}
    return signature, find_layout(signature, batch_axes, ranks, where="the model"), rows, model


def _axes(tensor: TensorInfo) -> tuple[int | str, ...]:
    """Return sizes and names of axes; unnamed free axes get unique names, except leading ones, which share one."""
    names = tensor.symbols or ("",) * len(tensor.shape or ())
    return tuple(
        size if size is not None else names[axis] or (f"{tensor.name}[{axis}]" if axis else "batch")
        for axis, size in enumerate(tensor.shape or ())
    )


def _check_names(what: str, given: Mapping[str, object], names: Mapping[str, object]) -> None:
    for name in given:
        if name not in names:
            raise UsageError(f"the model has no {what} '{name}'", allowed=nearest(name, names))


def _range(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _columns(arrays: Sequence[NDArray[Any]], tensor: TensorInfo) -> list[NDArray[Any]]:
    """Return the values of each element of vectors of floats, which have units of their own; of others all together."""
    if np.dtype(tensor.dtype).kind == "f" and arrays[0].ndim == 1 and len({array.shape for array in arrays}) == 1:
        return list(np.stack(arrays).T)
    return [np.concatenate([array.ravel() for array in arrays])]


def _element(
    tensor: TensorInfo, samples: NDArray[Any] | None, extent: tuple[float, float] | None, scale: float
) -> st.SearchStrategy[Any]:
    """Return a strategy for single values of an input.

    `extent` is its smallest and largest value, where the caller or an embedding table tells; else the flat values of
    real `samples` do.

    Raises
    ------
    UsageError : it is not known which integers are valid.
    """
    dtype = np.dtype(tensor.dtype)
    if dtype.kind in "Ob":
        return st.text(max_size=8) if dtype.kind == "O" else st.booleans()
    is_float = dtype.kind == "f"
    limits = np.finfo(dtype) if is_float else np.iinfo(dtype)
    low, high = np.asarray(limits.min).item(), np.asarray(limits.max).item()
    if extent is not None:
        low, high = extent
    elif is_float:
        first, last = (-1.0, 1.0) if samples is None else (float(samples.min()), float(samples.max()))
        # Halved before they are added, because the sum of two large numbers is infinite.
        middle, half_width = first / 2 + last / 2, scale * (last / 2 - first / 2)
        low, high = max(low, middle - half_width), min(high, middle + half_width)
    elif samples is not None:
        low, high = samples.min(), samples.max()
    elif tensor.dtype not in ("int8", "uint8"):
        # Those two are quantities such as pixels; wider integers are ids, and not every id is valid.
        raise UsageError(
            f"which values input '{tensor.name}' takes is not known",
            value=f"{tensor.dtype}, and the graph shows no embedding table that it indexes",
            allowed="real samples, or bounds",
            fix=f"give data=..., or bounds={{'{tensor.name}': (0, 1)}}",
        )
    if not is_float:
        return st.integers(int(low), int(high))
    width = {2: 16, 4: 32}.get(dtype.itemsize, 64)
    return st.floats(float(dtype.type(low)), float(dtype.type(high)), width=width)  # type: ignore[arg-type]  # one of three


@st.composite
def _replace_elements(draw: st.DrawFn, elements: Sequence[st.SearchStrategy[Any]], array: NDArray[Any]) -> NDArray[Any]:
    """Draw a copy of `array` with up to four elements replaced; none when shrunk.

    An image has too many elements to draw each.
    """
    array = np.array(array)
    positions = st.lists(st.integers(0, array.size - 1), max_size=4, unique=True)
    for position in draw(positions) if array.size else ():
        array.reshape(-1)[position] = draw(elements[position % len(elements)])
    return array


@st.composite
def _draw_elements(
    draw: st.DrawFn,
    tensors: Sequence[TensorInfo],
    axes: Mapping[str, Sequence[int | str]],
    elements: Elements,
    ranges: Mapping[int | str, tuple[int, int]],
) -> Feeds:
    """Draw arrays whose elements are equal but for a few; they shrink to the value that is nearest to zero."""
    sizes = {axis: draw(st.integers(*ends)) for axis, ends in ranges.items()}
    feeds: Feeds = {}
    for tensor in tensors:
        shape = [sizes.get(axis, axis) for axis in axes[tensor.name]]
        values = elements[tensor.name]
        feeds[tensor.name] = draw(_replace_elements(values, np.full(shape, draw(values[0]), tensor.dtype)))  # type: ignore[arg-type]
    return feeds


def _read_samples(data: object, signature: Signature, model: Model | None) -> tuple[list[Feeds], Layout]:
    """Return the first 256 samples of `data`, without a batch axis, and the batch axes of the model.

    Raises
    ------
    DataError : the data is not usable or does not fit the model.
    """
    opened = open_data(Dataset.from_fixture(data), signature, model)
    axes = opened.layout.axes
    rows = [
        {
            name: np.array(array if axes[name] is None else np.take(array, 0, axes[name]))
            for name, array in batch.feeds.items()
        }
        for batch in islice(opened.batches(1), 256)
    ]
    return rows, opened.layout


@st.composite
def _draw_samples(
    draw: st.DrawFn, elements: Elements, rows: Sequence[Feeds], layout: Layout, counts: tuple[int, int]
) -> Feeds:
    """Draw a list of samples of one shape, from which hypothesis can remove those that do not matter.

    All inputs of a sample stay together but for single elements, as ids and their mask must; text is never replaced.
    """
    by_shape: dict[tuple[tuple[int, ...], ...], list[Feeds]] = {}
    for row in rows:
        by_shape.setdefault(tuple(array.shape for array in row.values()), []).append(row)
    alike = draw(st.sampled_from(list(by_shape.values())))
    samples = [
        {
            name: array if array.dtype.kind == "O" else draw(_replace_elements(elements[name], array))
            for name, array in row.items()
        }
        for row in draw(st.lists(st.sampled_from(alike), min_size=counts[0], max_size=counts[1]))
    ]
    return layout.arrange(
        {
            name: samples[0][name] if axis is None else np.stack([sample[name] for sample in samples])
            for name, axis in layout.axes.items()
        }
    )
