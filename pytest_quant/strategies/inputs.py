"""Valid inputs of a model: drawn from its signature, or real samples with a few elements replaced."""

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
from pytest_quant.strategies.values import Bounds, Port, Span, base_array, find_span, replaced

Source: TypeAlias = str | Path | Model | Signature | Engine
"""A source of the inputs: an ONNX file, a `Model`, an open engine, or a `Signature`."""

Sizes = Mapping[str, int | tuple[int, int]]
"""By the name of a free axis: its size, or its smallest and largest size."""

MAX_SAMPLES = 256
"""Number of samples that are held, the first ones of the evaluation set."""

_BATCH = "batch"
"""The common name of leading free axes without a name in the graph."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All inputs of one model, in its order, and their batch axes."""

    signature: Signature
    ports: tuple[Port, ...]
    layout: Layout
    model: Model | None

    @property
    def batch_axes(self) -> frozenset[str]:
        """Names of the free batch axes; empty when the batch size is fixed."""
        axes_of_inputs = ((port.axes, self.layout.axes[port.name]) for port in self.ports)
        sizes = (axes[axis] for axes, axis in axes_of_inputs if axes is not None and axis is not None)
        return frozenset(size for size in sizes if isinstance(size, str))


def read_ports(source: Source) -> Ports:
    """Return the inputs of a model; sizes of embedding tables are read from an ONNX file only.

    Raises
    ------
    ModelError : the file is missing or broken.
    DataError : the ``batch_axes`` of the `Model` do not fit it.
    UsageError : `source` is none of the allowed types.
    """
    if isinstance(source, Signature):
        return _ports(source, {}, None)
    model = _model(source)
    if model.path is not None:
        return _ports(read_signature(model.path), read_table_rows(model.path), model)
    return _ports(get_exporter().signature(model), {}, model)


def _model(source: object) -> Model:
    if isinstance(source, (str, Path)):
        return Model.from_onnx(source)
    spec = getattr(source, "spec", None)
    model = source if spec is None else spec.model
    if not isinstance(model, Model):
        raise UsageError(
            "inputs are drawn for a model",
            value=type(source).__name__,
            allowed="the path of an ONNX file, a Model, a Signature, or an engine such as the fixture quant_engine",
        )
    return model


def _ports(signature: Signature, table_rows: Mapping[str, int], model: Model | None) -> Ports:
    ports = tuple(
        Port(tensor.name, tensor.dtype, _axes(tensor), table_rows.get(tensor.name)) for tensor in signature.inputs
    )
    ranks = {port.name: 1 if port.axes is None else len(port.axes) for port in ports}
    batch_axes = {} if model is None else {name: axis for name, axis in model.batch_axes if name in ranks}
    return Ports(signature, ports, find_layout(signature, batch_axes, ranks, where="the model"), model)


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
        ports = read_ports(source)
        axes = [axis for port in ports.ports for axis in port.axes or () if isinstance(axis, str)]
        _check_names("input", named_bounds, [port.name for port in ports.ports])
        _check_names("free axis", named_sizes, axes)
        if data is None:
            spans = {port.name: find_span(port, None, named_bounds, scale) for port in ports.ports}
            batch = {} if batch_size is None else dict.fromkeys(ports.batch_axes, batch_size)
            ranges = {
                axis: _range(f"size of axis '{axis}'", (named_sizes | batch).get(axis, (1, max_size)))
                for axis in dict.fromkeys(axes)
            }
            return _without_samples(ports, spans, ranges)
        rows, layout = _read_samples(data, ports)
        spans = {port.name: find_span(port, _values(rows, port.name), named_bounds, scale) for port in ports.ports}
        counts = _range("batch_size", layout.fixed_batch_size or batch_size or (1, max_size))
        return _around_samples(ports.ports, spans, rows, layout, counts)

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


@st.composite
def _without_samples(
    draw: st.DrawFn, ports: Ports, spans: Mapping[str, Span | None], ranges: Mapping[str, tuple[int, int]]
) -> Feeds:
    sizes = {axis: draw(st.integers(*ends)) for axis, ends in ranges.items()}
    feeds: Feeds = {}
    for port in ports.ports:
        if port.axes is None:
            raise UsageError(
                f"the graph does not tell how many axes input '{port.name}' has",
                allowed="real samples, which show it",
                fix="give data=...",
            )
        shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in port.axes)
        span = spans[port.name]
        feeds[port.name] = draw(replaced(port, span, draw(base_array(port, span, shape))))
    return feeds


def _read_samples(data: object, ports: Ports) -> tuple[list[Feeds], Layout]:
    """Return the first samples of `data`, without a batch axis, and the batch axes of the model.

    Raises
    ------
    DataError : the data is not usable or does not fit the model.
    UsageError : the model has a state, so that its samples are sequences and an engine runs single steps.
    """
    if ports.model is not None and ports.model.state:
        raise UsageError(
            "samples of a model with state are sequences, and one run of an engine is one step",
            value=f"state={dict(ports.model.state)}",
            fix="draw steps without data: inputs(model, scale=...)",
        )
    opened = open_data(Dataset.of(data), ports.signature, ports.model)
    axes = opened.layout.axes
    rows = [
        {
            name: np.array(array if axes[name] is None else np.take(array, 0, axes[name]))
            for name, array in batch.feeds.items()
        }
        for batch in islice(opened.batches(1), MAX_SAMPLES)
    ]
    return rows, opened.layout


def _values(rows: Sequence[Feeds], name: str) -> NDArray[Any]:
    """Return the values of one input, (n, features) where samples are vectors of one length, else flat.

    Elements of a vector have units of their own; those of a picture or a sequence share one.
    """
    arrays = [row[name] for row in rows]
    if len({array.shape for array in arrays}) == 1 and arrays[0].ndim == 1:
        return np.stack(arrays)
    return np.concatenate([array.ravel() for array in arrays])


@st.composite
def _around_samples(
    draw: st.DrawFn,
    ports: Sequence[Port],
    spans: Mapping[str, Span | None],
    rows: Sequence[Feeds],
    layout: Layout,
    counts: tuple[int, int],
) -> Feeds:
    """Draw a list of samples of one shape, from which hypothesis can remove those that do not matter.

    Integers and booleans are those of one sample but for single elements, as ids and their mask must be; text is never
    replaced.
    """
    by_shape: dict[tuple[tuple[int, ...], ...], list[Feeds]] = {}
    for row in rows:
        by_shape.setdefault(tuple(array.shape for array in row.values()), []).append(row)
    alike = draw(st.sampled_from(list(by_shape.values())))
    samples = [
        {
            port.name: row[port.name] if port.is_text else draw(replaced(port, spans[port.name], row[port.name]))
            for port in ports
        }
        for row in draw(st.lists(st.sampled_from(alike), min_size=counts[0], max_size=counts[1]))
    ]
    return layout.arranged(
        {
            name: samples[0][name] if axis is None else np.stack([sample[name] for sample in samples])
            for name, axis in layout.axes.items()
        }
    )
