"""Real samples, and samples drawn around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import Feeds
from pytest_quant.data import Layout, open_data
from pytest_quant.errors import UsageError
from pytest_quant.spec import Dataset
from pytest_quant.strategies.ports import Port, Ports
from pytest_quant.strategies.spans import Span, clipped, is_float, noised, spiked

MAX_SAMPLES = 256
"""Number of samples that are held, the first ones of the evaluation set."""


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
