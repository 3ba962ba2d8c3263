"""A model of one step, run over sequences by hand: states, steps, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.readback import LayerTime
from pytest_quant.errors import DataError, ModelError
from pytest_quant.measure.rollout import Rollout
from pytest_quant.result import Coverage
from pytest_quant.spec import Signature, TensorInfo
from tests.unit.measure.played import Played, played

STEP = Signature(
    (
        TensorInfo("x", "float32", (None, 2), ("n", "")),
        TensorInfo("h", "float64", (None, 2), ("n", "")),
        TensorInfo("rate", "float32", ()),
    ),
    (TensorInfo("y", "float32", (None, 2)), TensorInfo("h_out", "float64", (None, 2)), TensorInfo("t", "float32", ())),
)
STATE = (("h_out", "h"),)
RATE = np.array(3.0, np.float32)


def total(feeds: Any) -> Any:
    """Return three times the sum of all steps so far, the sum, and the rate."""
    assert set(feeds) == {"x", "h", "rate"}
    summed = feeds["h"] + feeds["x"]
    return {"y": (feeds["rate"] * summed).astype(np.float32), "h_out": summed, "t": feeds["rate"]}


def rolled(signature: Signature = STEP, state: tuple[tuple[str, str], ...] = STATE) -> tuple[Played, Rollout]:
    """Return an engine of one step, and it over sequences."""
    own, engine = played(total, signature)
    return own, Rollout(engine, state)


SEQUENCES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
"""Four steps of three samples."""


def test_what_a_step_gives_goes_into_the_next() -> None:
    """Sums of all steps so far; steps stand behind the samples, and in front where there are none."""
    own, engine = rolled()
    result = engine.run({"x": SEQUENCES, "rate": RATE})
    sums = np.moveaxis(SEQUENCES.cumsum(axis=0), 0, 1)
    np.testing.assert_array_equal(result["y"], 3 * sums)
    np.testing.assert_array_equal(result["h_out"], sums)
    assert result["h_out"].dtype == np.float64
    assert result["t"].tolist() == [3.0] * 4
    assert own.runs == [3] * 4


def test_a_start_that_is_given_takes_the_place_of_zeros() -> None:
    """For each sample its own."""
    start = np.array([[10.0, 0.0], [20.0, 0.0], [30.0, 0.0]])
    _, engine = rolled()
    result = engine.run({"x": SEQUENCES, "rate": RATE, "h": start})
    np.testing.assert_array_equal(result["h_out"], np.moveaxis(SEQUENCES.cumsum(axis=0), 0, 1) + start[:, None])


def test_every_step_of_every_batch_is_calibrated_on() -> None:
    """With the states as they are in that step."""
    _, engine = rolled()
    steps = list(engine.steps(iter([{"x": SEQUENCES, "rate": RATE}, {"x": SEQUENCES[:2] + 100, "rate": RATE}])))
    assert len(steps) == 6
    before = np.concatenate([np.zeros((1, 3, 2)), SEQUENCES.cumsum(axis=0)[:3]])
    for place in range(4):
        np.testing.assert_array_equal(steps[place]["x"], SEQUENCES[place])
        np.testing.assert_array_equal(steps[place]["h"], before[place])
    np.testing.assert_array_equal(steps[4]["h"], np.zeros((3, 2)))
    np.testing.assert_array_equal(steps[5]["h"], SEQUENCES[0] + 100)


def test_a_step_that_branches_is_read_back_on_several_sequences() -> None:
    """The engine of the step gets the first step of each."""
    own, _ = played(total, STEP)
    own.branches = True
    seen: list[float] = []

    def counted(batches: Sequence[Feeds]) -> Coverage:
        seen.extend(each["x"].item(0) for each in batches)
        return Coverage(None, "nodes", (), "played")

    own._coverage_over = counted  # type: ignore[method-assign]
    engine = Rollout(own, STATE)
    assert engine.branches
    engine.coverage({"x": SEQUENCES, "rate": RATE}, {"x": SEQUENCES + 7, "rate": RATE})
    assert seen == [0.0, 7.0]


def test_what_is_timed_and_read_back_is_the_first_step() -> None:
    """One run of one step, from zeros; the reader is told."""
    own, engine = rolled()
    feeds = {"x": SEQUENCES, "rate": RATE}
    result: Any = engine.prepare(feeds)()
    np.testing.assert_array_equal(result["h_out"], SEQUENCES[0])
    assert own.runs == [3]
    assert engine.coverage(feeds).provider == "{'x': (3, 2), 'rate': (), 'h': (3, 2)}"
    assert engine.device_times(feeds) is None
    assert engine.prepare_events(feeds) is None
    shapes: list[tuple[int, ...]] = []

    def clocked(given: Any) -> Callable[[], float]:
        shapes.append(given["x"].shape)
        return lambda: 0.5

    own.prepare_events = clocked  # type: ignore[method-assign, assignment]
    call = engine.prepare_events(feeds)
    assert call is not None
    assert (call(), shapes) == (0.5, [SEQUENCES[0].shape])

    def layers(given: Any) -> tuple[LayerTime, ...]:
        shapes.append(given["x"].shape)
        return ()

    own.layer_times = layers  # type: ignore[method-assign, assignment]
    assert (engine.layer_times(feeds), shapes) == ((), [SEQUENCES[0].shape] * 2)
    assert engine.notes == ("a note", "what is timed and read back is one step of a sequence")


@pytest.mark.parametrize(
    ("feeds", "value"),
    [
        ({"x": SEQUENCES[0], "rate": RATE}, "no input leads with steps"),
        ({"x": SEQUENCES[:0], "rate": RATE}, "'x': 0 steps"),
        ({"x": SEQUENCES, "rate": np.ones(3, np.float32)}, "'x': 4 steps, 'rate': 3 steps"),
    ],
)
def test_sequences_that_have_no_one_length(feeds: Any, value: str) -> None:
    """Every input that leads with steps is told."""
    _, engine = rolled()
    with pytest.raises(DataError) as raised:
        engine.run(feeds)
    assert str(raised.value) == (
        f"the sequences of net have no one length\n  got: {value}\n"
        "  allowed: samples (steps, ...), as many steps in each input, and at least one\n"
        "  next: put the steps in front of what the model takes in one step"
    )


def test_an_input_that_varies_with_the_steps_beside_one_that_does_not() -> None:
    """A rate for each step."""
    _, engine = rolled()
    result = engine.run({"x": SEQUENCES, "rate": np.array([1, 2, 3, 4], np.float32)})
    assert result["t"].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            (("h_ut", "h"),),
            "state= names an output that the model does not have\n  got: 'h_ut'\n  allowed: did you mean 'h_out'",
        ),
        ((("h_out", "hh"),), "state= names an input that the model does not have\n  got: 'hh'\n  allowed: "),
    ],
)
def test_a_state_that_the_model_does_not_have(state: tuple[tuple[str, str], ...], message: str) -> None:
    """The nearest name is told."""
    with pytest.raises(ModelError) as raised:
        rolled(state=state)
    assert str(raised.value).startswith(message)


def started(x: TensorInfo, h: TensorInfo, array: np.ndarray) -> np.ndarray:
    """Return the start of state ``h`` of a model with these inputs, of which ``x`` gets two steps of `array`."""
    signature = Signature((x, h), (TensorInfo("h_out", h.dtype, h.shape),))
    _, engine = played(lambda feeds: {"h_out": feeds["h"]}, signature)
    (first, _) = Rollout(engine, (("h_out", "h"),)).steps(iter([{"x": np.stack([array, array])}]))
    return np.asarray(first["h"])


def info(name: str, shape: tuple[int | None, ...] | None) -> TensorInfo:
    """Return a float16 tensor."""
    return TensorInfo(name, "float16", shape)


@pytest.mark.parametrize(
    ("x", "h", "shape"),
    [
        (info("x", (5, 7)), info("h", (4, 6)), (4, 6)),
        (info("x", (None, 7)), info("h", (4, None)), (4, 5)),
        (info("x", (None, 7)), info("h", ()), ()),
        (info("x", (None, 7)), info("h", None), ()),
    ],
)
def test_a_start_has_the_sizes_of_what_it_goes_with(x: TensorInfo, h: TensorInfo, shape: tuple[int, ...]) -> None:
    """Fixed ones, and for a single free one the number of samples."""
    result = started(x, h, np.ones((5, 7)))
    assert (result.shape, result.dtype.name, float(np.sum(result))) == (shape, "float16", 0.0)


@pytest.mark.parametrize(
    ("x", "h"),
    [(info("x", (None, 7)), info("h", (None, 2, None))), (info("x", (5, 7)), info("h", (2, None)))],
)
def test_a_start_whose_size_nothing_tells(x: TensorInfo, h: TensorInfo) -> None:
    """The shape is named, and what to give."""
    with pytest.raises(DataError) as raised:
        started(x, h, np.ones((5, 7)))
    assert str(raised.value) == (
        "the start of state 'h' has an unknown size\n"
        f"  got: shape {h.shape}, whose only free size is the batch\n"
        "  next: give the start as an input of that name, {'h': np.zeros(...)}"
    )
