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
from pytest_quant.backends.feeds import match_inputs, match_names
from pytest_quant.errors import UsageError
from pytest_quant.strategies.inputs import inputs, read_source

Property: TypeAlias = Callable[[Engine, Engine, Feeds], None]
"""A check of engine, reference and one batch, such as `finite`, that raises `AssertionError` where it does not hold."""


def finite(engine: Engine, reference: Engine, feeds: Feeds) -> None:
    """Check that no output is NaN or infinite if the reference's is finite.

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
            both = {"candidate": ours, "reference": theirs}
            apart = np.where(np.isfinite(theirs) & ~np.isfinite(ours), math.inf, 0.0)
            _require("not finite, and the reference is", name, both, apart, 0.0, feeds)


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
        fix = "functools.partial(bounded_error, max_range_pct=5)"
        raise UsageError("bounded_error was given no limit", allowed="max_abs_error, max_range_pct", fix=fix)
    for name, theirs, ours in _pairs(engine, reference, feeds):
        both = {"candidate": ours, "reference": theirs}
        of_range = None if max_range_pct is None else max_range_pct / 100 * _range(theirs)
        for limit, allowed in (("max_abs_error", max_abs_error), ("max_range_pct", of_range)):
            if allowed is not None:
                _require(f"{limit} is broken", name, both, _find_distance(ours, theirs), allowed, feeds)


def batch_invariant(engine: Engine, reference: Engine, feeds: Feeds, *, max_range_pct: float = 1.0) -> None:
    """Check that the output of a sample does not depend on the other samples of its batch.

    Nothing is checked for a batch of one, nor where the model fixes its batch size or no input counts samples.

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
    """
    del reference
    layout = read_source(engine)[1]
    count = next((feeds[name].shape[axis] for name, axis in layout.axes.items() if axis is not None), 1)
    if count < 2 or layout.fixed_batch_size is not None:
        return
    whole = engine.run(feeds)
    for sample in range(count):
        alone = engine.run(layout.samples(feeds, [sample]))
        for name, array in whole.items():
            single, part = alone[name], array
            # Samples are stacked along the axis that has grown with the batch; an output may have none.
            grown = [axis for axis, (n, k) in enumerate(zip(array.shape, single.shape, strict=False)) if n != k]
            if array.ndim == single.ndim and len(grown) == 1 and array.shape[grown[0]] == count:
                part = np.take(array, [sample], grown[0])
            both = {"in the batch": part, "alone": single}
            allowed = max_range_pct / 100 * _range(array)
            _require(f"sample {sample} depends on its batch", name, both, _find_distance(part, single), allowed, feeds)


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
        both = {"first run": array, "second run": second[name]}
        _require("two runs differ", name, both, _find_distance(array, second[name]), 0.0, feeds)


def _pairs(engine: Engine, reference: Engine, feeds: Feeds) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Run both engines and yield the reference's name of each output, the reference's values and the candidate's."""
    theirs = reference.run(feeds)
    input_names = match_inputs(reference.signature.inputs, engine.signature.inputs, {})
    ours = engine.run({input_names[name]: array for name, array in feeds.items()})
    output_names = match_names(reference.signature.outputs, engine.signature.outputs, "output")
    for name, array in theirs.items():
        other = ours[output_names[name]]
        if other.shape != array.shape:
            both = {"candidate": other, "reference": array}
            _require("another shape than the reference's", name, both, _find_distance(other, array), 0.0, feeds)
        yield name, array, other


def _find_distance(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Return how far each value is from its counterpart.

    Infinitely where only one is finite, infinities or texts differ, and in all where the shapes do.
    """
    if first.shape != second.shape:
        return np.array(math.inf)
    if first.dtype.kind not in "biuf":
        return np.where(first == second, 0.0, math.inf)
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(a - b), nan=math.inf, posinf=math.inf)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, distance)


def _range(array: NDArray[Any]) -> float:
    """Return the largest less the smallest finite value, or the largest magnitude if that is more."""
    if array.dtype.kind not in "biuf":
        return 0.0
    values = array[np.isfinite(array)].astype(np.float64)
    return max(float(np.ptp(values)), float(np.abs(values).max())) if values.size else 0.0


def _require(
    what: str, output: str, both: Mapping[str, NDArray[Any]], apart: NDArray[Any], allowed: float, feeds: Feeds
) -> None:
    """Raise `AssertionError` where values are farther `apart` than `allowed`, with the place and the inputs."""
    if apart.max(initial=0.0) <= allowed:
        return
    at = tuple(map(int, np.unravel_index(np.argmax(apart), apart.shape)))
    shown = ", ".join(f"{name} {array[at] if at or not array.ndim else array.shape}" for name, array in both.items())
    lines = [f"{what}: output '{output}' at {list(at)}: {shown}, {apart[at]:.6g} apart, {allowed:.6g} allowed"]
    lines += [
        f"  input '{name}' {array.dtype} {array.shape}: {np.array2string(array, threshold=8, edgeitems=2)}"
        for name, array in feeds.items()
    ]
    raise AssertionError("\n".join(lines))


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
