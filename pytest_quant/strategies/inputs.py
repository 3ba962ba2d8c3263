"""Valid inputs of a model: drawn from its signature, taken from real samples, or drawn around them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import Feeds
from pytest_quant.data import Layout, open_data
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import Dataset
from pytest_quant.strategies.ports import Port, Ports, Source, read_ports
from pytest_quant.strategies.spans import Bounds, Span, clipped, find_span, is_float, made_array, noised, spiked

MAX_SAMPLES = 256
"""Number of samples that are held, the first ones of the evaluation set."""


Sizes = Mapping[str, int | tuple[int, int]]
"""By the name of a free axis: its size, or its smallest and largest size."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Real samples without a batch axis, and the batch axes of the model."""

    rows: tuple[Feeds, ...]
    layout: Layout

    def together(self, rows: list[Feeds]) -> Feeds:
        """Return `rows` as one batch; inputs without a batch axis get the value of the first sample."""
        return self.layout.arranged(
            {
                name: rows[0][name] if axis is None else np.stack([row[name] for row in rows])
                for name, axis in self.layout.axes.items()
            }
        )

    @property
    def alike(self) -> list[list[int]]:
        """Groups of indices of samples with equal shapes."""
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for index, row in enumerate(self.rows):
            groups.setdefault(tuple(array.shape for array in row.values()), []).append(index)
        return list(groups.values())

    def values(self, name: str) -> NDArray[Any]:
        """Return the values of one input, (n, features) where samples are vectors of one length, else flat.

        Elements of a vector have units of their own; those of a picture or a sequence share one.
        """
        arrays = [row[name] for row in self.rows]
        if len({array.shape for array in arrays}) == 1 and arrays[0].ndim == 1:
            return np.stack(arrays)
        return np.concatenate([array.ravel() for array in arrays])


def read_samples(data: object, ports: Ports) -> Samples:
    """Read the first samples of `data`, which may be any value that a ``quant_data`` fixture may return.

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
    rows = (_row(batch.feeds, opened.layout) for batch in islice(opened.batches(1), MAX_SAMPLES))
    return Samples(tuple(rows), opened.layout)


def _row(feeds: Feeds, layout: Layout) -> Feeds:
    """Return the only sample of a batch, copied; inputs without a batch axis are copied as a whole."""
    return {
        name: np.array(array if layout.axes[name] is None else np.take(array, 0, layout.axes[name]))
        for name, array in feeds.items()
    }


@dataclass(frozen=True, slots=True)
class _Around:
    """A real sample, the samples that it can be mixed with, and the spans of the float inputs."""

    row: Feeds
    others: tuple[Feeds, ...]
    floats: dict[str, tuple[Port, Span]]


@st.composite
def drawn_row(
    draw: st.DrawFn, samples: Samples, alike: list[int], ports: tuple[Port, ...], spans: dict[str, Span | None]
) -> Feeds:
    """Draw a sample from real ones: unchanged, mixed, stretched or with noise, and with a few elements replaced.

    Integers, booleans and text are all those of one sample, as ids and their mask must be; only single elements are
    replaced, and text never. Shrinks to the first real sample.

    Parameters
    ----------
    samples : the real samples.
    alike : indices of samples with equal shapes, from which to draw.
    ports : inputs of the model.
    spans : range of values by input name; ``None`` for text and booleans.
    """
    floats = {port.name: (port, span) for port in ports if is_float_port(port) and (span := spans[port.name])}
    rows = tuple(samples.rows[index] for index in alike)
    row = draw(st.sampled_from(_VARIANTS))(draw, _Around(draw(st.sampled_from(rows)), rows, floats))
    return {
        port.name: row[port.name] if is_text(port) else draw(spiked(port, spans[port.name], row[port.name]))
        for port in ports
    }


def is_text(port: Port) -> bool:
    """Whether the values are text, whose dtype is ``object`` or ``str`` in a signature."""
    return port.dtype in ("object", "str")


def is_float_port(port: Port) -> bool:
    """Whether the values can be scaled."""
    return not is_text(port) and is_float(port)


def _plain(draw: st.DrawFn, around: _Around) -> Feeds:  # noqa: ARG001 - one of the variants
    return around.row


def _mixed(draw: st.DrawFn, around: _Around) -> Feeds:
    other = draw(st.sampled_from(around.others))
    share = draw(st.floats(0.0, 1.0))

    def mix(name: str, port: Port, span: Span) -> NDArray[Any]:
        both = (1 - share) * around.row[name].astype(np.float64) + share * other[name].astype(np.float64)
        return clipped(both, port, span)

    return _with_floats(around, mix)


def _scaled(draw: st.DrawFn, around: _Around) -> Feeds:
    """Stretch the sample about the middle, up to the ends of the span."""
    share = draw(st.floats(0.0, 1.0))

    def stretch(name: str, port: Port, span: Span) -> NDArray[Any]:
        away = around.row[name].astype(np.float64) - span.middle
        farthest = np.max(np.abs(away) / np.where(span.half_width > 0, span.half_width, np.inf), initial=0.0)
        return clipped(span.middle + away * (share / farthest if farthest > 0 else 1.0), port, span)

    return _with_floats(around, stretch)


def _noised(draw: st.DrawFn, around: _Around) -> Feeds:
    return _with_floats(around, lambda name, port, span: draw(noised(port, span, around.row[name])))


def _with_floats(around: _Around, change: Callable[[str, Port, Span], NDArray[Any]]) -> Feeds:
    return around.row | {name: change(name, port, span) for name, (port, span) in around.floats.items()}


_VARIANTS = (_plain, _mixed, _scaled, _noised)


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

    With `data`, a batch is made of the first 256 real samples: unchanged, mixed with another, stretched or with noise,
    and with up to four elements replaced by drawn values. It shrinks to the first sample alone. Without `data`, arrays
    are all zero, all equal or evenly spread, with up to four elements replaced; they shrink to zeros and to size 1 on
    every free axis. NaN and infinity are never drawn.

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
    plan = _Plan(model, data, (1, max_size), {**(sizes or {})}, {**(bounds or {})}, scale, batch_size)
    return st.deferred(lambda: _strategy(plan))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The arguments of `inputs`."""

    model: Source
    data: object | None
    free: tuple[int, int]
    sizes: dict[str, int | tuple[int, int]]
    bounds: dict[str, tuple[float, float]]
    scale: float
    batch_size: int | tuple[int, int] | None


def _strategy(plan: _Plan) -> st.SearchStrategy[Feeds]:
    ports = read_ports(plan.model)
    _check_names("input", plan.bounds, [port.name for port in ports.ports])
    axes = [axis for port in ports.ports for axis in port.axes or () if isinstance(axis, str)]
    _check_names("free axis", plan.sizes, axes)
    samples = None if plan.data is None else read_samples(plan.data, ports)
    spans = {port.name: find_span(port, _values(samples, port), plan.bounds, plan.scale) for port in ports.ports}
    ranges = {axis: _range(axis, ports, plan) for axis in dict.fromkeys(axes)}
    if samples is None:
        return _made(ports, spans, ranges)
    return _real(ports, spans, samples, _batch_sizes(samples.layout.fixed_batch_size, plan))


def _batch_sizes(fixed: int | None, plan: _Plan) -> tuple[int, int]:
    """Return the smallest and the largest number of samples of a batch."""
    return _checked("batch_size", fixed or plan.batch_size or plan.free)


def _values(samples: Samples | None, port: Port) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None:
    return None if samples is None else samples.values(port.name)


def _check_names(what: str, given: Mapping[str, object], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"the model has no {what} '{name}'", allowed=nearest(name, dict.fromkeys(known)))


def _range(axis: str, ports: Ports, plan: _Plan) -> tuple[int, int]:
    """Return the smallest and the largest size of a free axis."""
    asked = plan.sizes.get(axis, plan.free)
    if axis in ports.batch_axes and plan.batch_size is not None:
        asked = plan.batch_size
    return _checked(f"size of axis '{axis}'", asked)


def _checked(what: str, asked: int | tuple[int, int]) -> tuple[int, int]:
    low, high = (asked, asked) if isinstance(asked, int) else asked
    if not 1 <= low <= high:
        raise UsageError(f"{what} is no range", value=repr(asked), allowed="at least 1, the smaller first")
    return low, high


@st.composite
def _made(draw: st.DrawFn, ports: Ports, spans: dict[str, Span | None], ranges: dict[str, tuple[int, int]]) -> Feeds:
    drawn = {axis: draw(st.integers(*sizes)) for axis, sizes in ranges.items()}
    return {port.name: draw(made_array(port, spans[port.name], _shape(port, drawn))) for port in ports.ports}


def _shape(port: Port, sizes: dict[str, int]) -> tuple[int, ...]:
    if port.axes is None:
        raise UsageError(
            f"the graph does not tell how many axes input '{port.name}' has",
            allowed="real samples, which show it",
            fix="give data=...",
        )
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in port.axes)


@st.composite
def _real(
    draw: st.DrawFn, ports: Ports, spans: dict[str, Span | None], samples: Samples, sizes: tuple[int, int]
) -> Feeds:
    """Draw a list of samples of one shape, from which hypothesis can remove those that do not matter."""
    alike = draw(st.sampled_from(samples.alike))
    rows = draw(st.lists(drawn_row(samples, alike, ports.ports, spans), min_size=sizes[0], max_size=sizes[1]))
    return samples.together(rows)
