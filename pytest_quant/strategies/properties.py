"""Properties that hold for every valid input: functions of engine, reference and one batch that raise otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import hypothesis
import numpy as np
from hypothesis import HealthCheck
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds
from pytest_quant.errors import UsageError
from pytest_quant.measure.engines import match_names
from pytest_quant.strategies.inputs import inputs, read_ports

_SHOWN = 8

Property: TypeAlias = Callable[[Engine, Engine, Feeds], None]
"""A check of engine, reference and one batch, such as `finite`, that raises `AssertionError` where it does not hold."""


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
        if ours.dtype.kind == theirs.dtype.kind == "f":
            wrong = np.isfinite(theirs) & ~np.isfinite(ours)
            if wrong.any():
                at = _index(np.argmax(wrong), wrong)
                figures = {"candidate": ours[at], "reference": theirs[at]}
                raise AssertionError(_message("not finite where the reference is", name, at, figures, feeds))


def bounded_error(
    engine: Engine,
    reference: Engine,
    feeds: Feeds,
    *,
    max_abs_error: float | None = None,
    max_range_pct: float | None = None,
) -> None:
    """Check that every output lies near the reference's.

    Parameters
    ----------
    engine, reference : open engines.
    feeds : one batch under the reference's input names.
    max_abs_error : largest difference of a value, in the output's unit.
    max_range_pct : the same in percent of the range, largest less smallest value or largest magnitude,
        that the reference's output has on this batch. It is strict where all outputs are near zero.

    Raises
    ------
    AssertionError : an output is farther away.
    UsageError : no limit is given.
    """
    if max_abs_error is None and max_range_pct is None:
        raise UsageError(
            "bounded_error was given no limit",
            allowed="max_abs_error, max_range_pct",
            fix="functools.partial(bounded_error, max_range_pct=5)",
        )
    for name, theirs, ours in _pairs(engine, reference, feeds):
        both = {"candidate": ours, "reference": theirs}
        if max_abs_error is not None:
            _require_near("max_abs_error is broken", name, both, max_abs_error, feeds)
        if max_range_pct is not None:
            _require_near("max_range_pct is broken", name, both, max_range_pct / 100 * _range(theirs), feeds)


def batch_invariant(engine: Engine, reference: Engine, feeds: Feeds, *, max_range_pct: float = 1.0) -> None:
    """Check that the output of a sample does not depend on the other samples of its batch.

    Nothing is checked for a batch of one, nor where the model fixes its batch size.

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
    layout = read_ports(engine)[2]
    sizes = [feeds[name].shape[axis] for name, axis in layout.axes.items() if axis is not None]
    if not sizes:
        shapes = ", ".join(f"'{name}' {array.shape}" for name, array in feeds.items())
        raise UsageError("no input has an axis that counts samples", value=shapes, fix="leave batch_invariant out")
    if sizes[0] < 2 or layout.fixed_batch_size is not None:
        return
    whole = engine.run(feeds)
    for sample in range(sizes[0]):
        alone = engine.run(layout.samples(feeds, [sample]))
        for name, array in whole.items():
            single, part = alone[name], array
            # Samples are stacked along the axis that has grown with the batch; an output may have none.
            grown = [axis for axis, (n, k) in enumerate(zip(array.shape, single.shape, strict=False)) if n != k]
            if array.ndim == single.ndim and len(grown) == 1 and array.shape[grown[0]] == sizes[0]:
                part = np.take(array, [sample], grown[0])
            both = {"in the batch": part, "alone": single}
            allowed = max_range_pct / 100 * _range(array)
            _require_near(f"sample {sample} depends on its batch", name, both, allowed, feeds)


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
    for name, array in first.items():
        _require_near("two runs differ", name, {"first run": array, "second run": second[name]}, 0.0, feeds)


def _pairs(engine: Engine, reference: Engine, feeds: Feeds) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Run both engines and yield the reference's name of each output, the reference's values and the candidate's."""
    theirs = reference.run(feeds)
    input_names = match_names(reference.signature.inputs, engine.signature.inputs, "input")
    ours = engine.run({input_names[name]: array for name, array in feeds.items()})
    output_names = match_names(reference.signature.outputs, engine.signature.outputs, "output")
    for name, array in theirs.items():
        other = ours[output_names[name]]
        if other.shape != array.shape:
            shapes = {"candidate": other.shape, "reference": array.shape}
            raise AssertionError(_message("another shape than the reference's", name, (), shapes, feeds))
        yield name, array, other


def _require_near(what: str, output: str, both: Mapping[str, NDArray[Any]], allowed: float, feeds: Feeds) -> None:
    """Raise `AssertionError` unless two arrays have one shape and values that differ by at most `allowed`."""
    first, second = both.values()
    if first.shape != second.shape:
        raise AssertionError(_message(what, output, (), {name: array.shape for name, array in both.items()}, feeds))
    at, difference = _largest_difference(first, second)
    if difference > allowed:
        figures: dict[str, object] = {name: array[at] for name, array in both.items()}
        figures |= {"difference": difference, "allowed": allowed}
        raise AssertionError(_message(what, output, at, figures, feeds))


def _largest_difference(first: NDArray[Any], second: NDArray[Any]) -> tuple[tuple[int, ...], float]:
    """Return the index of the largest difference of two arrays, and the difference.

    It is infinite where only one value is finite or infinities differ, and for text that differs.
    """
    if first.size == 0:
        return (), 0.0
    if first.dtype.kind not in "biuf":
        apart = np.where(first == second, 0.0, math.inf)
    else:
        a, b = first.astype(np.float64), second.astype(np.float64)
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


def _message(what: str, output: str, index: tuple[int, ...], figures: Mapping[str, object], feeds: Feeds) -> str:
    """Return the message of a property that does not hold, with ranges and first values of the batch."""
    place = f"output '{output}' at [{', '.join(map(str, index))}]" if index else f"output '{output}'"
    shown = ", ".join(f"{name} {value}" for name, value in figures.items())
    lines = [f"{what}: {place}: {shown}"]
    for name, array in feeds.items():
        text = f"  input '{name}' {array.dtype} {array.shape}"
        if array.size and array.dtype.kind in "iuf":
            text += f", {array.min():.6g} to {array.max():.6g}"
        more = " ..." if array.size > _SHOWN else ""
        lines.append(f"{text}: {', '.join(map(str, array.reshape(-1)[:_SHOWN].tolist()))}{more}")
    return "\n".join(lines)


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
