"""Where outputs hold the samples, and in which batches an engine is evaluated, found by running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_quant.data import Data
from pytest_quant.errors import BuildError, ModelError
from pytest_quant.measure.batching import OpenEngine, find_batching
from pytest_quant.spec import Signature, TensorInfo
from tests.support.measuring import built_of
from tests.unit.measure.played import Played, data_of, inputs, numbers, played

FREE = inputs(x=(None, 2))
SAMPLES = numbers(40)
ID = "played-int8-static"
ID_DYNAMIC = "played-int8-dynamic"


def batching_of(
    play: Callable[[Any], Mapping[str, Any]],
    *,
    signature: Signature = FREE,
    scheme: str = "static",
    batch_axes: Mapping[str, int | None] | None = None,
    batch_size: int | None = 16,
    timed_size: int = 1,
    data: Data | None = None,
    outputs: tuple[int | None, ...] = (None, 2),
    fills: bool = False,
) -> tuple[Played, OpenEngine]:
    """Find the batching of an engine over 40 samples; a graph that fixes its batch size is asked for no other."""
    if signature is not FREE:
        batch_size = None
    own, engine = played(play, Signature(signature.inputs, (TensorInfo("y", "float32", outputs),)), scheme)
    engine.fills = fills
    data = data or data_of(SAMPLES, FREE if signature is FREE else signature)
    names = {name: name for name in data.layout.axes}
    opened = OpenEngine(built_of(engine), engine, names, batch_axes or {})
    return own, find_batching(opened, data, batch_size=batch_size, timed_size=timed_size)


def test_outputs_that_lead_with_the_samples() -> None:
    """Sixteen together, eight of them together and again, and each of the eight alone."""
    engine, batched = batching_of(lambda feeds: {"y": 2 * feeds["x"]})
    assert engine.runs == [16, 8, 8, *[1] * 8]
    assert (batched.output_axes, batched.batch_size, batched.pads) == ({"y": 0}, 16, False)
    assert (batched.notes, batched.itself.relative) == ((), 0.0)


def test_an_engine_that_fills_its_batches_runs_few_of_them() -> None:
    """Sixteen and again, and the first and the last of them alone; both are known by their numbers."""
    engine, batched = batching_of(lambda feeds: {"y": 2 * feeds["x"]}, fills=True)
    assert engine.runs == [16, 16, 1, 1]
    assert (batched.output_axes, batched.batch_size, batched.notes) == ({"y": 0}, 16, ())
    for lost in (0, 15):

        def play(feeds: Any, lost: int = lost) -> Any:
            return {"y": np.where((feeds["x"] == SAMPLES[lost]) & (len(feeds["x"]) == 1), np.nan, feeds["x"])}

        note = batching_of(play, fills=True)[1].mixed
        assert f"for 16 samples together and 2 of them one by one sample {lost} of output 'y' is finite in" in note


def test_an_engine_that_fills_its_batches_depends_on_neighbours() -> None:
    """What is scaled by the largest value of a batch is found whichever sample holds that."""
    for largest in range(16):
        data = data_of(np.insert(numbers(39), largest, 100, axis=0), FREE)
        _, batched = batching_of(lambda feeds: {"y": feeds["x"] / feeds["x"].max()}, fills=True, data=data)
        assert batched.mixed


@pytest.mark.parametrize(("batch_size", "fewer"), [(16, 8), (9, 8), (8, 7), (2, 1)])
def test_fewer_samples_are_run_beside_a_batch(batch_size: int, fewer: int) -> None:
    """Eight at most, and always another number than the batch has, so that its axis can be told."""
    engine, batched = batching_of(lambda feeds: {"y": feeds["x"]}, batch_size=batch_size)
    assert engine.runs[:2] == [batch_size, fewer]
    assert batched.batch_size == batch_size


def test_samples_on_another_axis_are_put_in_front() -> None:
    """The first axis whose size is that of both batches; others keep their order."""
    _, batched = batching_of(
        lambda feeds: {"y": np.zeros((3, 5, 4)) + np.zeros(0).sum(), "z": feeds["x"].T}, batch_size=16
    )
    assert batched.output_axes == {"y": None, "z": 1}
    _, batched = batching_of(lambda feeds: {"z": np.stack([feeds["x"].T] * 3)}, batch_size=16)
    assert batched.output_axes == {"z": 2}
    given = batched.put_samples_first({"z": np.arange(3 * 2 * 4).reshape(3, 2, 4)}, 4)["z"]
    assert given.shape == (4, 3, 2)
    assert given[1].tolist() == [[1, 5], [9, 13], [17, 21]]


def test_an_output_without_an_axis_of_samples_is_run_one_by_one() -> None:
    """The first such output is told with its shape; what the others have is known."""
    engine, batched = batching_of(lambda feeds: {"y": feeds["x"], "z": np.concatenate([feeds["x"]] * 3)})
    why = f"{ID} runs sample by sample: output 'z' has shape (48, 2) for 16 samples, and no axis counts them"
    assert (batched.batch_size, batched.output_axes, batched.notes) == (1, {"y": 0, "z": None}, (why,))
    assert engine.runs == [16, 8, *[1] * 9]
    assert batched.put_samples_first({"y": np.ones((1, 2)), "z": np.ones((3, 2))}, 1)["z"].shape == (1, 3, 2)


def test_an_axis_that_the_user_names() -> None:
    """It wins over the first that fits; ``None`` says that no axis counts samples; what does not fit is refused."""

    def square(feeds: Any) -> Any:
        return {"y": feeds["x"] @ feeds["x"].T}

    assert batching_of(square)[1].output_axes == {"y": 0}
    assert batching_of(square, batch_axes={"y": 1})[1].output_axes == {"y": 1}
    _, batched = batching_of(square, batch_axes={"y": None})
    assert (batched.batch_size, batched.output_axes) == (1, {"y": None})
    with pytest.raises(ModelError) as raised:
        batching_of(square, batch_axes={"y": 2})
    assert str(raised.value) == (
        "batch_axes says that axis 2 of output 'y' counts samples, and it does not\n"
        "  got: shape (16, 16) for a batch of 16, (8, 8) for 8\n  allowed: axis 0 or axis 1"
    )
    with pytest.raises(ModelError) as raised:
        batching_of(lambda _feeds: {"y": np.ones(3)}, batch_axes={"y": 0})
    assert str(raised.value).endswith(
        "got: shape (3,) for a batch of 16, (3,) for 8\n  allowed: None: no axis counts samples"
    )


@pytest.mark.parametrize(
    ("value", "reason"), [("a traceback\n\n  cannot reshape \n\n", "cannot reshape"), (None, "it does not run")]
)
def test_an_engine_that_refuses_a_batch_is_run_one_by_one(value: str | None, reason: str) -> None:
    """The last line of what it says is told."""

    def refuses(feeds: Any) -> Any:
        if len(feeds["x"]) > 1:
            raise BuildError("it does not run", value=value)
        return {"y": feeds["x"]}

    _, batched = batching_of(refuses)
    note = f"{ID} runs sample by sample: a run of 16 samples fails, {reason}"
    assert (batched.batch_size, batched.output_axes, batched.notes) == (1, {"y": 0}, (note,))


def test_batches_of_one_that_are_asked_for_need_no_note() -> None:
    """Nothing was found out; an output of one row is taken for one of the sample."""
    engine, batched = batching_of(lambda feeds: {"y": feeds["x"], "z": feeds["x"][0]}, batch_size=1)
    assert (batched.batch_size, batched.output_axes, batched.notes) == (1, {"y": 0, "z": None}, ())
    assert engine.runs == [1] * 9


def test_rows_that_vary_between_samples_are_no_samples() -> None:
    """One row in the first sample and two in another: no axis of samples, though the first would fit."""

    def rows(feeds: Any) -> Any:
        return {"y": np.ones((1 if feeds["x"][0, 0] < 5 else 2, 3))}

    assert batching_of(rows, batch_size=1)[1].output_axes == {"y": None}
    assert batching_of(lambda _feeds: {"y": np.float32(3.0)}, batch_size=1)[1].output_axes == {"y": None}


@pytest.mark.parametrize(
    ("size", "batch_axes", "axes"),
    [(4, {}, {"y": 0, "z": 1}), (4, {"y": 1}, {"y": 1, "z": 1}), (4, {"y": None}, {"y": None, "z": 1})],
)
def test_a_batch_that_the_graph_fixes(
    size: int, batch_axes: dict[str, int | None], axes: dict[str, int | None]
) -> None:
    """The first axis of that size, unless the user names another; batches are filled up."""

    def play(feeds: Any) -> Any:
        return {"y": feeds["x"] @ feeds["x"].T, "z": feeds["x"].T}

    engine, batched = batching_of(play, signature=inputs(x=(size, 2)), batch_axes=batch_axes)
    assert (batched.output_axes, batched.batch_size, batched.pads, batched.notes) == (axes, 4, True, ())
    assert engine.runs == [4, 4]


@pytest.mark.parametrize(("batch_axes", "output"), [({}, np.ones((3, 2))), ({"y": 1}, np.ones((4, 2)))])
def test_an_output_of_a_fixed_batch_that_has_no_axis_for_it(
    batch_axes: dict[str, int | None], output: np.ndarray
) -> None:
    """It is an error, which says how to tell otherwise."""
    with pytest.raises(ModelError) as raised:
        batching_of(lambda _feeds: {"y": output}, signature=inputs(x=(4, 2)), batch_axes=batch_axes)
    assert str(raised.value) == (
        f"no axis of output 'y' counts samples\n  got: shape {output.shape} for a batch of 4\n  allowed: an axis of 4\n"
        "  next: export the model with a free batch axis, or with batches of 1; "
        "where the output is the same for all samples of a run, say so: batch_axes={'y': None}"
    )


def test_a_model_whose_inputs_have_no_axis_of_samples() -> None:
    """One run for each sample."""
    signature = inputs(x=(2,))
    data = data_of(SAMPLES, signature)
    _, batched = batching_of(lambda feeds: {"y": feeds["x"]}, signature=signature, data=data)
    note = f"{ID} runs sample by sample: no input has an axis for samples"
    assert (batched.batch_size, batched.pads, batched.notes) == (1, True, (note,))
    assert batched.output_axes == {"y": None}


def ranged(feeds: Any) -> Any:
    """Outputs that are rounded by the range of their run, as a dynamic scheme's."""
    largest = np.abs(feeds["x"]).max()
    return {"y": np.rint(feeds["x"] / largest * 127) * largest / 127}


def test_a_dynamic_scheme_is_evaluated_as_it_is_timed() -> None:
    """Whether a few samples show it or not."""
    for play in (ranged, lambda feeds: {"y": feeds["x"]}):
        engine, batched = batching_of(play, scheme="dynamic", timed_size=4)
        note = f"{ID_DYNAMIC} finds its ranges in each run; it is evaluated in batches of 4, as it is timed"
        assert (batched.batch_size, batched.notes) == (4, (note,))
        assert engine.runs == [16, 8, 8]
    assert batching_of(ranged, scheme="dynamic", timed_size=16)[1].notes == ()


def test_an_engine_that_depends_on_its_batch_is_told_with_the_difference() -> None:
    """In percent of the norm of the outputs."""
    _, batched = batching_of(lambda feeds: {"y": feeds["x"] * (1 + 0.01 * (len(feeds["x"]) == 1))}, timed_size=4)
    note = (
        f"outputs of {ID} depend on the batch: for 8 samples together and one by one they differ by 1 %; "
        "it is evaluated in batches of 4, as it is timed"
    )
    assert (batched.batch_size, batched.notes) == (4, (note,))
    _, batched = batching_of(lambda feeds: {"y": feeds["x"] * (1 + 0.01 * (len(feeds["x"]) == 1))}, timed_size=16)
    assert (batched.batch_size, batched.notes) == (16, ())


@pytest.mark.parametrize(("share", "noted"), [(0.99, False), (1.01, True)])
def test_what_rounding_explains_is_no_dependence(share: float, noted: bool) -> None:
    """A relative difference of 2^-10."""

    def play(feeds: Any) -> Any:
        return {"y": feeds["x"].astype(np.float64) * (1 + share * 2.0**-10 * (len(feeds["x"]) == 1))}

    assert bool(batching_of(play)[1].notes) is noted


def test_shapes_that_depend_on_the_batch() -> None:
    """Sequences that are cut at the longest of their run, for example: samples alone are of other lengths."""

    def longest(feeds: Any) -> Any:
        return {"y": np.ones((len(feeds["x"]), 1 + int(feeds["x"].max()) // 4))}

    _, batched = batching_of(lambda feeds: longest(feeds))
    assert batched.notes[0].startswith(f"outputs of {ID} depend on the batch: for 8 samples together and one by one")
    assert "shapes of output 'y' differ" in batched.notes[0]


@pytest.mark.parametrize("together", [True, False])
def test_what_is_finite_in_one_batch_only_is_named(together: bool) -> None:
    """A sample that is not a number alone, or with others: its shape is the same."""

    def play(feeds: Any) -> Any:
        lost = (feeds["x"] == SAMPLES[5]) & ((len(feeds["x"]) > 1) is together)
        return {"y": np.where(lost, np.nan, feeds["x"])}

    _, batched = batching_of(play)
    how = "together and one by one sample 5 of output 'y' is finite in only one run; it is evaluated"
    assert f"for 8 samples {how}" in batched.notes[0]
    assert batched.mixed == batched.notes[0]


def test_whole_numbers_and_texts_that_depend_on_the_batch_are_named() -> None:
    """By the first sample that differs."""
    for values in (np.arange(8), np.array([f"text {number}" for number in range(8)], object)):

        def play(feeds: Any, values: Any = values) -> Any:
            return {"y": values[: len(feeds["x"])]}

        _, batched = batching_of(play, batch_size=8)
        assert "one by one sample 1 of output 'y' differs; it" in batched.notes[0]


def test_zeros_that_depend_on_the_batch_are_named() -> None:
    """No share of them is a percentage."""
    _, batched = batching_of(lambda feeds: {"y": feeds["x"] * (len(feeds["x"]) == 1)})
    assert "one by one output 'y' is 0 everywhere, then not; it" in batched.notes[0]


class Remembering:
    """Adds a share of what it gave last, as a recurrent network that nobody resets."""

    def __init__(self, share: float) -> None:
        self._share, self._last = share, 0.0

    def __call__(self, feeds: Any) -> Any:
        """Give the samples and a share of their mean last time."""
        outputs = feeds["x"].astype(np.float64) + self._share * self._last
        self._last = float(outputs.mean())
        return {"y": outputs}


FIXED = {"signature": inputs(x=(4, 2))}


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, FIXED])
def test_an_engine_that_keeps_state_is_known(options: dict[str, Any]) -> None:
    """From chance, which does not come back in the same order; a server that was restarted once is neither."""
    _, batched = batching_of(Remembering(0.3), **options)
    assert batched.itself.keeps_state
    assert batched.itself.words.startswith(f"{ID} keeps state, so that the order of the samples decides its outputs")
    rng = np.random.default_rng(0)
    calls = iter([0.0] + [1.0] * 99)

    def by_chance(feeds: Any) -> Any:
        return {"y": feeds["x"] + rng.normal(size=feeds["x"].shape)}

    def once(feeds: Any) -> Any:
        return {"y": feeds["x"] + next(calls)}

    for play in (by_chance, once):
        assert not batching_of(play, **options)[1].itself.keeps_state


def test_rounding_is_no_state() -> None:
    """Nor is it looked for, which takes runs: threads add up in any order."""
    engine, batched = batching_of(Remembering(1e-8))
    assert 0.0 < batched.itself.relative < 1e-6
    assert not batched.itself.keeps_state
    assert engine.runs == [16, 8, 8, *[1] * 8]


def test_an_engine_that_differs_from_itself() -> None:
    """The relative difference of two runs over one batch; what it explains is no dependence on the batch."""
    calls = iter(range(1000))

    def play(feeds: Any) -> Any:
        return {"y": feeds["x"].astype(np.float64) * (1.0 + 0.01 * (next(calls) % 3))}

    _, batched = batching_of(play)
    assert batched.itself.relative == pytest.approx(0.01 / 1.01, rel=0.02)
    assert batched.notes == ()
    for options in ({"batch_size": 1}, {"signature": inputs(x=(4, 2))}):
        assert batching_of(play, **options)[1].itself.relative > 0.009


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.5], 0.1),
        ([np.nan, 4.0], [np.nan, 4.0], 0.0),
        ([np.nan, np.nan], [np.nan, np.nan], 0.0),
        ([np.nan, 4.0], [3.0, 4.0], np.inf),
        ([np.inf, 4.0], [np.inf, 5.0], 0.25),
        ([0.0, 0.0], [0.0, 1.0], np.inf),
        ([3, 4], [3, 5], np.inf),
        ([3, 4], [3, 4], 0.0),
        ([3.0, 4.0], [3.0, 4.0, 5.0], np.inf),
    ],
)
def test_two_runs_differ_by_their_norm(first: list[float], second: list[float], expected: float) -> None:
    """Of what is finite; whole numbers, shapes and what is not finite are equal or not at all."""
    outputs = iter([[first]] + [[second]] * 20)
    _, batched = batching_of(lambda _feeds: {"y": np.array(next(outputs))}, batch_size=1)
    assert batched.itself.relative == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "top1"),
    [
        ([[3.0, 4.0], [9.0, 1.0]], [[5.0, 4.0], [8.0, 1.0]], 50.0),
        ([[3.0, 4.0], [9.0, 1.0]], [[3.0, 4.5], [9.0, 1.0]], 0.0),
        ([[3.0], [4.0]], [[3.0], [4.5]], None),
        ([[3, 4], [9, 1]], [[3, 6], [9, 1]], None),
    ],
)
def test_two_runs_differ_in_classes(first: list[Any], second: list[Any], top1: float | None) -> None:
    """The classes are those of the largest score of each sample, as in the metric."""
    runs = iter([np.array(first)] + [np.array(second)] * 10)
    _, batched = batching_of(lambda _feeds: {"y": next(runs)}, signature=inputs(x=(2, 2)))
    assert (batched.itself.n, batched.itself.top1_pct) == (2, top1)


def test_an_output_that_is_not_by_sample_is_an_error() -> None:
    """With the shape, the axis, and how to say otherwise."""
    _, batched = batching_of(lambda feeds: {"y": feeds["x"]})
    for array, axis in ((np.ones((3, 2)), 0), (np.ones((2, 3)), 0), (np.ones(4), 1)):
        moved = replace(batched, output_axes={"y": axis})
        with pytest.raises(ModelError) as raised:
            moved.put_samples_first({"y": array}, 4)
        assert str(raised.value) == (
            f"output 'y' does not hold one value for each sample\n  got: shape {array.shape} for a batch of 4\n"
            f"  allowed: 4 on axis {axis}\n"
            "  next: name the axis that counts samples, batch_axes={'y': 0}, or None when no axis does"
        )
