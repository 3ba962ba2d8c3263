"""How many samples are evaluated together: by the bytes of a sample and the size of the set, or as the user says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_quant.data import open_data
from pytest_quant.errors import UsageError
from pytest_quant.measure.batching import OpenEngine, find_batching
from pytest_quant.spec import Dataset, Signature, TensorInfo
from tests.support.measuring import built_of
from tests.unit.measure.played import data_of, inputs, played
from tests.unit.measure.test_batching import FREE, ID, SAMPLES, batching_of

LIMIT = "pytest_quant.data.opening._BATCH_BYTES"


@pytest.mark.parametrize(
    ("of_one", "bound", "expected"),
    [(2, 10**6, 32), (100, 8 + 8 * 100 * 10, 9), (1000, 8000, 1)],
    ids=["small", "large outputs", "an output of all there is"],
)
def test_one_sample_runs_before_any_batch(
    of_one: int, bound: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two floats go in and `of_one` doubles come out: as many samples run together as these bytes leave room for."""
    monkeypatch.setattr(LIMIT, bound)
    engine, batched = batching_of(
        lambda feeds: {"y": np.ones((len(feeds["x"]), of_one))}, batch_size=None, outputs=(None, None)
    )
    assert engine.runs[0] == 1
    assert max(engine.runs) == batched.batch_size == expected == max(1, min(32, bound // (2 * 4 + 8 * of_one)))
    assert batched.output_bytes == 8 * of_one
    assert batched.notes == ()


@pytest.mark.parametrize("of_one", [2, 100])
def test_outputs_that_the_signature_tells_need_no_run(of_one: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of single precision, 4 bytes a number; a runtime that compiles for each batch compiles once."""
    monkeypatch.setattr(LIMIT, 10 * (2 * 4 + 4 * of_one))
    engine, batched = batching_of(
        lambda feeds: {"y": np.ones((len(feeds["x"]), of_one), np.float32)}, batch_size=None, outputs=(None, of_one)
    )
    assert engine.runs[0] == batched.batch_size == 10


def test_no_more_samples_run_than_there_are() -> None:
    """Four samples are never filled up to a batch of 32."""
    engine, batched = batching_of(lambda feeds: {"y": feeds["x"]}, batch_size=None, data=data_of(SAMPLES[:4], FREE))
    assert (max(engine.runs), batched.batch_size) == (4, 4)


def test_larger_samples_than_the_first_are_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of 2 and of 20 words, with 10 scores for each: the batch is that of the longer ones."""
    monkeypatch.setattr(LIMIT, 3 * 20 * (4 + 10 * 4))
    signature = Signature(inputs(x=(None, None)).inputs, (TensorInfo("y", "float32", None),))
    data = open_data(Dataset.from_iterable([np.ones(n, np.float32) for n in (2, 20) * 9]), signature)

    def play(feeds: Any) -> Any:
        return {"y": np.repeat(feeds["x"][:, :, None], 10, axis=2)}

    own, engine = played(play, signature)
    batched = find_batching(OpenEngine(built_of(engine), engine, {"x": "x"}, {}), data, batch_size=None, timed_size=1)
    assert (batched.batch_size, max(own.runs)) == (3, 3)


def test_as_many_run_together_as_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever times batches has memory for them; a dynamic scheme is evaluated in these in any case."""
    monkeypatch.setattr(LIMIT, 1)
    for scheme in ("static", "dynamic"):
        _, batched = batching_of(lambda feeds: {"y": feeds["x"]}, scheme=scheme, batch_size=None, timed_size=4)
        assert batched.batch_size == 4


def test_samples_on_another_axis_are_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """(steps, samples, 2) with one sample: what a metric reads has one shape, however few samples fit."""
    shapes = []
    for bound in (10**6, 1):
        monkeypatch.setattr(LIMIT, bound)
        _, batched = batching_of(
            lambda feeds: {"y": np.stack([feeds["x"]] * 5)}, batch_size=None, outputs=(None, None, 2)
        )
        assert (batched.batch_size > 1, batched.output_axes) == (bound > 1, {"y": 1})
        shapes.append(batched.run({"x": SAMPLES[:1]}, 1)["y"].shape)
    assert shapes == [(1, 5, 2), (1, 5, 2)]


def test_a_batch_that_the_graph_fixes_is_no_other_one() -> None:
    """The text says what to do: without the key it is evaluated, and with the model's own size too."""
    own, engine = played(lambda feeds: {"y": feeds["x"]}, inputs(x=(4, 2)))
    opened = OpenEngine(built_of(engine), engine, {"x": "x"}, {})
    data = data_of(SAMPLES, inputs(x=(4, 2)))
    with pytest.raises(UsageError) as raised:
        find_batching(opened, data, batch_size=8, timed_size=1)
    assert str(raised.value) == (
        f"{ID} of net takes no batches of 8: the model fixes its batch size\n  got: eval_batch_size=8\n  allowed: 4\n"
        "  next: leave eval_batch_size out, or export the model with a free batch axis"
    )
    assert own.runs == []
    for followed in (None, 4):
        assert find_batching(opened, data, batch_size=followed, timed_size=1).batch_size == 4
