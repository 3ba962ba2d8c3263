"""Properties that hold for every valid input: functions of engine, reference and one batch that raise otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import hypothesis
import numpy as np
from hypothesis import HealthCheck
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.errors import UsageError
from pytest_quant.measure.engines import match_names
from pytest_quant.metrics.tensor import TensorError
from pytest_quant.strategies.inputs import inputs
from pytest_quant.strategies.ports import read_ports

_SHOWN = 8


def told(what: str, output: str, index: tuple[int, ...], figures: dict[str, object], feeds: Feeds) -> str:
    """Return the message of a property that does not hold.

    Parameters
    ----------
    what : the violation, as the start of a sentence.
    output : name of the output.
    index : of the value in the output; empty for the whole output.
    figures : values to show, by their names and in their order.
    feeds : the batch, which is described with its ranges and first values.
    """
    place = f"output '{output}' at [{', '.join(map(str, index))}]" if index else f"output '{output}'"
    both = ", ".join(f"{name} {value}" for name, value in figures.items())
    return "\n".join([f"{what}: {place}: {both}", *(_line(name, array) for name, array in feeds.items())])


def _line(name: str, array: NDArray[Any]) -> str:
    """Describe an input, ``input 'x' float32 (1, 8): 0 to 2.5, mean 0.3: [0. 0. 2.5 ...]``."""
    first = np.array2string(array.reshape(-1)[:_SHOWN], precision=6, max_line_width=10_000)
    if array.size > _SHOWN:
        first = f"{first[:-1]} ...]"
    text = f"  input '{name}' {array.dtype} {array.shape}"
    if array.size and array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        text += f": {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"
    return f"{text}: {first}"


Row = tuple[int, str, NDArray[Any], NDArray[Any], NDArray[Any]]
"""Index of a sample, name of an output, its values in the batch, its values alone, and the output of the batch."""


def rows_and_alone(engine: Engine, feeds: Feeds) -> Iterator[Row]:
    """Run `feeds` as a batch and sample by sample; nothing is yielded for a batch of one.

    Raises
    ------
    UsageError : no input of the model has a batch axis.
    """
    layout = read_ports(engine).layout
    sizes = [feeds[name].shape[axis] for name, axis in layout.axes.items() if axis is not None]
    if not sizes:
        shapes = ", ".join(f"'{name}' {array.shape}" for name, array in feeds.items())
        raise UsageError("no input has an axis that counts samples", value=shapes, fix="leave batch_invariant out")
    if sizes[0] < 2:
        return
    is_fixed = layout.fixed_batch_size is not None
    whole = engine.run(feeds)
    for sample in range(sizes[0]):
        alone = engine.run(layout.samples(feeds, [sample] * (sizes[0] if is_fixed else 1)))
        for name, array in whole.items():
            single = alone[name]
            axis = _sample_axis(array, single, sizes[0], is_fixed=is_fixed)
            if axis is None:
                yield sample, name, array, single, array
            else:
                row = np.take(array, [sample], axis)
                yield sample, name, row, np.take(single, [0], axis) if is_fixed else single, array


def _sample_axis(whole: NDArray[Any], alone: NDArray[Any], size: int, *, is_fixed: bool) -> int | None:
    """Return the axis along which samples are stacked; ``None`` when the output has none."""
    if is_fixed:
        return next((axis for axis, length in enumerate(whole.shape) if length == size), None)
    if whole.ndim != alone.ndim:
        return None
    grown = [axis for axis, (n, one) in enumerate(zip(whole.shape, alone.shape, strict=True)) if n != one]
    return grown[0] if len(grown) == 1 and whole.shape[grown[0]] == size else None


_FLOATS = "f"


def finite(engine: Engine, reference: Engine, feeds: Feeds) -> None:
    """Check that no output is NaN or infinite where the reference's is finite.

    Parameters
    ----------
    engine, reference : open engines.
    feeds : one batch under the reference's input names.

    Raises
    ------
    AssertionError : a value is not finite.
    """
    for name, theirs, ours in _pairs(engine, reference, feeds):
        if ours.dtype.kind != _FLOATS or theirs.dtype.kind != _FLOATS:
            continue
        wrong = np.isfinite(theirs) & ~np.isfinite(ours)
        if wrong.any():
            at = _index(np.argmax(wrong), wrong)
            figures = {"candidate": ours[at], "reference": theirs[at]}
            raise AssertionError(told("not finite where the reference is", name, at, figures, feeds))


def bounded_error(
    engine: Engine,
    reference: Engine,
    feeds: Feeds,
    *,
    max_abs_error: float | None = None,
    max_range_pct: float | None = None,
    min_sqnr_db: float | None = None,
) -> None:
    """Check that every output lies near the reference's.

    Parameters
    ----------
    engine, reference : open engines.
    feeds : one batch under the reference's input names.
    max_abs_error : largest difference of a value, in the output's unit.
    max_range_pct : the same in percent of the range, largest less smallest value or largest magnitude,
        that the reference's output has on this batch.
    min_sqnr_db : signal to quantization noise of each output on this batch, in dB. It and `max_range_pct` are
        strict where all outputs are near zero.

    Raises
    ------
    AssertionError : an output is farther away.
    UsageError : no limit is given.
    """
    if (max_abs_error, max_range_pct, min_sqnr_db) == (None, None, None):
        raise UsageError(
            "bounded_error was given no limit",
            allowed="max_abs_error, max_range_pct, min_sqnr_db",
            fix="functools.partial(bounded_error, max_range_pct=5)",
        )
    for name, theirs, ours in _pairs(engine, reference, feeds):
        _check_difference(name, theirs, ours, feeds, max_abs_error, max_range_pct)
        error = TensorError()
        error.add(np.atleast_1d(theirs), np.atleast_1d(ours), 0)
        if min_sqnr_db is not None and error.sqnr_db is not None and error.sqnr_db < min_sqnr_db:
            figures = {"SQNR in dB": f"{error.sqnr_db:.4g}", "min_sqnr_db": min_sqnr_db}
            raise AssertionError(told("too much quantization noise", name, (), figures, feeds))


def _check_difference(
    name: str,
    theirs: NDArray[Any],
    ours: NDArray[Any],
    feeds: Feeds,
    max_abs_error: float | None,
    max_range_pct: float | None,
) -> None:
    at, difference = _largest_difference(theirs, ours)
    width = _range(theirs)
    limits = {
        "max_abs_error": max_abs_error,
        "max_range_pct": None if max_range_pct is None else max_range_pct / 100 * width,
    }
    for limit, allowed in limits.items():
        if allowed is not None and difference > allowed:
            figures = {"candidate": ours[at], "reference": theirs[at], "difference": difference, "allowed": allowed}
            raise AssertionError(told(f"{limit} is broken", name, at, figures, feeds))


def batch_invariant(engine: Engine, reference: Engine, feeds: Feeds, *, max_range_pct: float = 1.0) -> None:
    """Check that the output of a sample does not depend on the other samples of its batch.

    Where the model fixes its batch size, a sample alone is a batch of copies of it. Nothing is checked for a batch of
    one.

    Parameters
    ----------
    engine : open engine.
    reference : not used.
    feeds : one batch under the engine's input names.
    max_range_pct : largest difference in percent of the output's range on this batch. The default allows a value to be
        rounded to the next 8-bit step, as sums in another order may be. Schemes that compute ranges at run time, such
        as ``dynamic``, depend on the batch and may need more.

    Raises
    ------
    AssertionError : an output differs by more.
    UsageError : no input of the model has a batch axis.
    """
    del reference
    for sample, name, whole, alone, width_of in rows_and_alone(engine, feeds):
        figures: dict[str, object]
        if whole.shape != alone.shape:
            figures = {"shape in the batch": whole.shape, "alone": alone.shape}
            raise AssertionError(told(f"sample {sample} depends on its batch", name, (), figures, feeds))
        at, difference = _largest_difference(whole, alone)
        allowed = max_range_pct / 100 * _range(width_of)
        if difference > allowed:
            figures = {"in the batch": whole[at], "alone": alone[at], "difference": difference, "allowed": allowed}
            raise AssertionError(told(f"sample {sample} depends on its batch", name, at, figures, feeds))


def deterministic(engine: Engine, reference: Engine, feeds: Feeds) -> None:
    """Check that two runs on one batch give equal outputs; NaN equals NaN.

    Parameters
    ----------
    engine : open engine.
    reference : not used.
    feeds : one batch under the engine's input names.

    Raises
    ------
    AssertionError : a value or a shape differs.
    """
    del reference
    first, second = engine.run(feeds), engine.run(feeds)
    for name, one in first.items():
        other = second[name]
        if one.shape != other.shape:
            figures: dict[str, object] = {"first run": one.shape, "second run": other.shape}
            raise AssertionError(told("two runs differ in shape", name, (), figures, feeds))
        differs = one != other
        if one.dtype.kind == _FLOATS:
            differs &= ~(np.isnan(one) & np.isnan(other))
        if np.any(differs):
            at = _index(np.argmax(differs), one)
            figures = {"first run": one[at], "second run": other[at]}
            raise AssertionError(told("two runs differ", name, at, figures, feeds))


def _pairs(engine: Engine, reference: Engine, feeds: Feeds) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Run both engines and yield the reference's name of each output, the reference's values and the candidate's."""
    theirs = reference.run(feeds)
    ours = _run_as(engine, reference, feeds)
    names = match_names(reference.signature.outputs, engine.signature.outputs, "output")
    for name, array in theirs.items():
        other = ours[names[name]]
        if array.shape != other.shape:
            figures: dict[str, object] = {"candidate": other.shape, "reference": array.shape}
            raise AssertionError(told("another shape than the reference's", name, (), figures, feeds))
        yield name, array, other


def _run_as(engine: Engine, reference: Engine, feeds: Feeds) -> Outputs:
    names = match_names(reference.signature.inputs, engine.signature.inputs, "input")
    return engine.run({names[name]: array for name, array in feeds.items()})


def _largest_difference(one: NDArray[Any], other: NDArray[Any]) -> tuple[tuple[int, ...], float]:
    """Return the index of the largest difference of two arrays, and the difference.

    It is infinite where only one value is finite or infinities differ, and for text that differs.
    """
    if one.size == 0:
        return (), 0.0
    if one.dtype.kind not in "biuf":
        apart = np.where(one == other, 0.0, math.inf)
    else:
        a, b = one.astype(np.float64), other.astype(np.float64)
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(both, np.abs(np.where(both, a, 0) - np.where(both, b, 0)), np.where(same, 0.0, math.inf))
    at = _index(np.argmax(apart), apart)
    return at, float(apart[at])


def _index(flat: np.intp, array: NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, array.shape))


def _range(array: NDArray[Any]) -> float:
    """Return the largest less the smallest finite value, or the largest magnitude where that is more."""
    if array.dtype.kind not in "biuf":
        return 0.0
    values = array[np.isfinite(array)].astype(np.float64)
    return max(float(np.ptp(values)), float(np.abs(values).max())) if values.size else 0.0


settings = hypothesis.settings(
    deadline=None,
    suppress_health_check=(
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ),
)
"""For tests of engines with ``@given``: the first run of an engine is slow, so that there is no deadline; the fixtures
`quant_engine` and `quant_reference` hold no state that one example could leave to the next; inputs are large."""


class Property(Protocol):
    """A check of one batch, such as `finite`."""

    def __call__(self, engine: Engine, reference: Engine, feeds: Feeds) -> None:
        """Raise `AssertionError` where the property does not hold."""


def check(
    engine: Engine,
    reference: Engine,
    data: object | None = None,
    *,
    properties: Sequence[Property] = (finite, deterministic, batch_invariant),
    max_examples: int = 50,
) -> None:
    """Search for a batch on which one of `properties` does not hold, and shrink it.

    The same batches are drawn each time, so that a test that passed fails only when something changed.

    Parameters
    ----------
    engine, reference : open engines.
    data : real samples to draw around, see `inputs`; or a strategy such as ``inputs(engine, data, scale=2)``; or
        ``None`` for inputs drawn from the signature alone.
    properties : checks of one batch, in their order.
    max_examples : number of batches to draw.

    Raises
    ------
    AssertionError : the message of the property for the smallest failing batch.
    """
    feeds = data if isinstance(data, st.SearchStrategy) else inputs(reference, data)

    @hypothesis.settings(settings, max_examples=max_examples, derandomize=True, report_multiple_bugs=False)
    @hypothesis.given(feeds)
    def every_batch(drawn: Feeds) -> None:
        for holds in properties:
            holds(engine, reference, drawn)

    every_batch()
