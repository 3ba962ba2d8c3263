"""Valid inputs of a model: drawn from its signature, or real samples with a few elements replaced.

A failing example shrinks towards the base with one element that matters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

Sizes = Mapping[str, int | tuple[int, int]]
"""By the name of a free axis: its size, or its smallest and largest size."""

MAX_SAMPLES = 256
"""Number of samples that are held, the first ones of the evaluation set."""

_BATCH = "batch"
"""The common name of leading free axes without a name in the graph."""


Bounds = Mapping[str, tuple[float, float]]
"""Smallest and largest value by input name."""

_MAX_REPLACED = 4
_NARROW_INTEGERS = ("int8", "uint8")
"""Integers that are quantities such as pixels; wider ones are ids, and not every id is valid."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input of a model.

    Attributes
    ----------
    axes : a size, or the name of a free axis, for each axis; axes of one name have the same size in a run.
        ``None`` when the rank is unknown.
    table_rows : number of rows of the embedding table that the values index; ``None`` where none is detected.
    """

    name: str
    dtype: str
    axes: tuple[int | str, ...] | None
    table_rows: int | None = None

    @property
    def drawn_dtype(self) -> np.dtype[Any]:
        """The dtype that values are drawn in: numpy has none for bfloat16."""
        return np.dtype({"bfloat16": "float32", "str": "object"}.get(self.dtype, self.dtype))


def read_ports(source: Source) -> tuple[Signature, tuple[Port, ...], Layout, Model | None]:
    """Return the inputs of a model and their batch axes; sizes of embedding tables are read from an ONNX file only.

    Raises
    ------
    ModelError : the file is missing or broken.
    DataError : the ``batch_axes`` of the `Model` do not fit it.
    UsageError : `source` is none of the allowed types.
    """
    model: Model | None = None
    rows: Mapping[str, int] = {}
    if isinstance(source, Signature):
        signature = source
    else:
        given = Model.from_onnx(source) if isinstance(source, (str, Path)) else source
        model = given if isinstance(given, Model) else getattr(getattr(given, "spec", None), "model", None)
        if model is None:
            raise UsageError(
                "inputs are drawn for a model",
                value=type(source).__name__,
                allowed="the path of an ONNX file, a Model, a Signature, or an engine such as the fixture quant_engine",
            )
        if model.path is None:
            signature = get_exporter().signature(model)
        else:
            signature, rows = read_signature(model.path), read_table_rows(model.path)
    ports = tuple(Port(tensor.name, tensor.dtype, _axes(tensor), rows.get(tensor.name)) for tensor in signature.inputs)
    ranks = {port.name: 1 if port.axes is None else len(port.axes) for port in ports}
    batch_axes = {} if model is None else {name: axis for name, axis in model.batch_axes if name in ranks}
    return signature, ports, find_layout(signature, batch_axes, ranks, where="the model"), model


def _axes(tensor: TensorInfo) -> tuple[int | str, ...] | None:
    """Return sizes and names of axes; unnamed free axes get unique names, except leading ones, which share one."""
    if tensor.shape is None:
        return None
    names = tensor.symbols or ("",) * len(tensor.shape)
    return tuple(
        size if size is not None else names[axis] or (f"{tensor.name}[{axis}]" if axis else _BATCH)
        for axis, size in enumerate(tensor.shape)
    )


def inputs(
    model: Source,
    data: object | None = None,
    *,
    batch_size: int | tuple[int, int] | None = None,
    max_size: int = 4,
    sizes: Sizes | None = None,
    bounds: Bounds | None = None,
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
    batch_size : samples in a run, or the smallest and largest number of them; 1 to `max_size` by default, and the
        model's batch size where it is fixed.
    max_size : largest size of a free axis that `sizes` does not name.
    sizes : size, or smallest and largest size, by the name of a free axis: ``{"height": (32, 64)}``. Axes of one
        name have one size in a run. With `data`, samples keep their own sizes.
    bounds : smallest and largest value by input name: ``{"ids": (0, 30521)}``.
    scale : for floats, half-width of the range of values relative to that of the data; 2 extends the range by half its
        width at either end. Without data, values lie between ``-scale`` and ``scale``.

    Notes
    -----
    Integers of 16 bits and more lie within the embedding table that the graph indexes with them, else within the
    range of the data; where neither is known, drawing raises `UsageError` and asks for `bounds`.

    Raises
    ------
    UsageError : an argument is out of its range; while drawing, the model does not have a name in `bounds` or `sizes`.
    """
    if isinstance(model, (str, Path)):
        local = Path(sys._getframe(1).f_code.co_filename).parent / model  # noqa: SLF001 - relative to the caller
        model = local if local.is_file() else Path(model)
    if max_size < 1:
        raise UsageError("a free axis has at least size 1", value=f"max_size={max_size}", fix="max_size=4")
    if not 0 <= scale < float("inf"):
        raise UsageError("scale must be a finite number from 0 on", value=repr(scale), fix="scale=1.0")
    source, named_sizes, named_bounds = model, dict(sizes or {}), dict(bounds or {})

    def strategy() -> st.SearchStrategy[Feeds]:
        signature, ports, layout, read_model = read_ports(source)
        axes = [axis for port in ports for axis in port.axes or () if isinstance(axis, str)]
        _check_names("input", named_bounds, [port.name for port in ports])
        _check_names("free axis", named_sizes, axes)
        if data is None:
            batch_axes = [
                port.axes[axis] for port in ports if port.axes and (axis := layout.axes[port.name]) is not None
            ]
            batch = {} if batch_size is None else dict.fromkeys(map(str, batch_axes), batch_size)
            ranges = {
                axis: _range(f"size of axis '{axis}'", (named_sizes | batch).get(axis, (1, max_size)))
                for axis in dict.fromkeys(axes)
            }
            elements = {port.name: [_elements(port, None, named_bounds, scale)] for port in ports}
            return _without_samples(ports, elements, ranges)
        rows, layout = _read_samples(data, signature, read_model)
        elements = {
            port.name: [_elements(port, values, named_bounds, scale) for values in _columns(rows, port)]
            for port in ports
        }
        counts = _range("batch_size", layout.fixed_batch_size or batch_size or (1, max_size))
        return _around_samples(elements, rows, layout, counts)

    return st.deferred(strategy)


def _check_names(what: str, given: Mapping[str, object], names: list[str]) -> None:
    for name in given:
        if name not in names:
            raise UsageError(f"the model has no {what} '{name}'", allowed=nearest(name, dict.fromkeys(names)))


def _range(what: str, size: int | tuple[int, int]) -> tuple[int, int]:
    low, high = (size, size) if isinstance(size, int) else size
    if not 1 <= low <= high:
        raise UsageError(f"{what} is no range", value=repr(size), allowed="at least 1, the smaller first")
    return low, high


def _columns(rows: Sequence[Feeds], port: Port) -> list[NDArray[Any]]:
    """Return the values of each element of vectors of floats, which have units of their own; of others all together."""
    arrays = [row[port.name] for row in rows]
    if port.drawn_dtype.kind == "f" and arrays[0].ndim == 1 and len({array.shape for array in arrays}) == 1:
        return list(np.stack(arrays).T)
    return [np.concatenate([array.ravel() for array in arrays])]


def _elements(port: Port, samples: NDArray[Any] | None, bounds: Bounds, scale: float) -> st.SearchStrategy[Any]:
    """Return a strategy for single values of an input.

    The caller's bounds take precedence, then the embedding table for integers, then the flat values of real `samples`.

    Raises
    ------
    UsageError : the bounds are no range of that dtype, or it is not known which integers are valid.
    """
    dtype = port.drawn_dtype
    if dtype.kind in "Ob":
        return st.text(max_size=8) if dtype.kind == "O" else st.booleans()
    is_float = dtype.kind == "f"
    limits = np.finfo(dtype) if is_float else np.iinfo(dtype)
    low, high = np.asarray(limits.min).item(), np.asarray(limits.max).item()
    if port.name in bounds:
        first, last = bounds[port.name]
        if not low <= first <= last <= high:
            raise UsageError(
                f"bounds of input '{port.name}' are no range of {port.dtype}",
                value=repr(bounds[port.name]),
                allowed=f"(smallest, largest) within {low} and {high}",
            )
        low, high = first, last
    elif is_float:
        first, last = (-1.0, 1.0) if samples is None else (float(samples.min()), float(samples.max()))
        # Halved before they are added, because the sum of two large numbers is infinite.
        middle, half_width = first / 2 + last / 2, scale * (last / 2 - first / 2)
        low, high = max(low, middle - half_width), min(high, middle + half_width)
    elif port.table_rows is not None:
        low, high = 0, port.table_rows - 1
    elif samples is not None:
        low, high = samples.min(), samples.max()
    elif port.dtype not in _NARROW_INTEGERS:
        raise UsageError(
            f"which values input '{port.name}' takes is not known",
            value=f"{port.dtype}, and the graph shows no embedding table that it indexes",
            allowed="real samples, or bounds",
            fix=f"give data=..., or bounds={{'{port.name}': (0, 1)}}",
        )
    if not is_float:
        return st.integers(int(low), int(high))
    width = {2: 16, 4: 32}.get(dtype.itemsize, 64)
    return st.floats(float(dtype.type(low)), float(dtype.type(high)), width=width)  # type: ignore[arg-type]  # one of three


@st.composite
def _replaced(draw: st.DrawFn, elements: Sequence[st.SearchStrategy[Any]], array: NDArray[Any]) -> NDArray[Any]:
    """Draw a copy of `array` with up to four elements replaced; none when shrunk.

    An image has too many elements to draw each.
    """
    array = np.array(array)
    positions = st.lists(st.integers(0, array.size - 1), max_size=_MAX_REPLACED, unique=True)
    for position in draw(positions) if array.size else ():
        array.reshape(-1)[position] = draw(elements[position % len(elements)])
    return array


@st.composite
def _without_samples(
    draw: st.DrawFn,
    ports: Sequence[Port],
    elements: Mapping[str, Sequence[st.SearchStrategy[Any]]],
    ranges: Mapping[str, tuple[int, int]],
) -> Feeds:
    """Draw arrays whose elements are equal but for a few; they shrink to the value that is nearest to zero."""
    sizes = {axis: draw(st.integers(*ends)) for axis, ends in ranges.items()}
    feeds: Feeds = {}
    for port in ports:
        if port.axes is None:
            raise UsageError(
                f"the graph does not tell how many axes input '{port.name}' has",
                allowed="real samples, which show it",
                fix="give data=...",
            )
        shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in port.axes)
        base = np.full(shape, draw(elements[port.name][0]), port.drawn_dtype)
        array = draw(_replaced(elements[port.name], base))
        feeds[port.name] = array if array.dtype.kind == "O" else array.astype(port.dtype)
    return feeds


def _read_samples(data: object, signature: Signature, model: Model | None) -> tuple[list[Feeds], Layout]:
    """Return the first samples of `data`, without a batch axis, and the batch axes of the model.

    Raises
    ------
    DataError : the data is not usable or does not fit the model.
    UsageError : the model has a state, so that its samples are sequences and an engine runs single steps.
    """
    if model is not None and model.state:
        raise UsageError(
            "samples of a model with state are sequences, and one run of an engine is one step",
            value=f"state={dict(model.state)}",
            fix="draw steps without data: inputs(model, scale=...)",
        )
    opened = open_data(Dataset.of(data), signature, model)
    axes = opened.layout.axes
    rows = [
        {
            name: np.array(array if axes[name] is None else np.take(array, 0, axes[name]))
            for name, array in batch.feeds.items()
        }
        for batch in islice(opened.batches(1), MAX_SAMPLES)
    ]
    return rows, opened.layout


@st.composite
def _around_samples(
    draw: st.DrawFn,
    elements: Mapping[str, Sequence[st.SearchStrategy[Any]]],
    rows: Sequence[Feeds],
    layout: Layout,
    counts: tuple[int, int],
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
            name: array if array.dtype.kind == "O" else draw(_replaced(elements[name], array))
            for name, array in row.items()
        }
        for row in draw(st.lists(st.sampled_from(alike), min_size=counts[0], max_size=counts[1]))
    ]
    return layout.arranged(
        {
            name: samples[0][name] if axis is None else np.stack([sample[name] for sample in samples])
            for name, axis in layout.axes.items()
        }
    )
