"""Properties find what was planted in an engine, shrink it, and say where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from pytest_quant import Model, UsageError
from pytest_quant import strategies as qst
from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.spec import EngineSpec
from tests.support.models import parsed, samples, select_first

SAMPLES = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)


class Engines:
    """Opens float engines of graphs in ONNX Runtime."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder = folder
        self._opened = opened
        self._count = 0

    def __call__(self, graph: str, opset: int = 17) -> Engine:
        """Open the graph that is spelled in ONNX's text format."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        model = Model.from_onnx(parsed(folder / "model.onnx", graph, opset))
        backend = get_backend("ort")
        spec = EngineSpec("ort", "fp32", None, model)
        backend.build(spec, None, folder)
        engine = backend.open(spec, folder)
        self._opened.callback(engine.close)
        return engine


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    """Open engines, and close them afterwards."""
    with ExitStack() as opened:
        yield Engines(tmp_path, opened)


class Last:
    """A property that remembers the last batch on which it did not hold: the smallest, when the search is over."""

    def __init__(self, holds: qst.Property) -> None:
        self._holds = holds
        self.feeds: Feeds = {}

    def __call__(self, engine: Engine, reference: Engine, feeds: Feeds) -> None:
        """Remember what raises."""
        try:
            self._holds(engine, reference, feeds)
        except AssertionError:
            self.feeds = feeds
            raise


class Seen:
    """A property that always holds, and remembers every batch."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def __call__(self, engine: Engine, reference: Engine, feeds: Feeds) -> None:
        """Remember the bytes."""
        del engine, reference
        self.batches.append(feeds["x"].tobytes())


ROOT = "(float[n, 4] x) => (float[n, 4] y) <float two = {2}> { away = Sub (two, x) y = Sqrt (away) }"
CLIPPED_ROOT = """(float[n, 4] x) => (float[n, 4] y) <float two = {2}>
    { away = Sub (two, x) right = Relu (away) y = Sqrt (right) }"""
SAME = "(float[n, 4] x) => (float[n, 4] y) { y = Identity (x) }"


def test_a_planted_nan_is_found_and_shrunk(engines: Engines) -> None:
    """The root of 2 - x is NaN above 2, far outside the data: the first sample remains, with one element set."""
    result, reference = Last(qst.finite), engines(CLIPPED_ROOT)
    with pytest.raises(AssertionError, match="not finite, and the reference is") as caught:
        qst.check(engines(ROOT), reference, qst.inputs(reference, SAMPLES, scale=8), properties=[result])
    (row,) = result.feeds["x"]
    (element,) = np.flatnonzero(row != SAMPLES[0])
    assert 2 < row[element] <= 3
    first = str(caught.value).splitlines()[0]
    place = f"output 'y' at [0, {element}]"
    assert first.startswith(f"not finite, and the reference is: {place}: candidate nan, reference 0.0")
    assert "input 'x' float32 (1, 4): [[" in str(caught.value)


def test_an_engine_that_depends_on_its_batch_is_found(engines: Engines) -> None:
    """Subtracting the batch's mean needs two samples that differ, and no more."""
    centred = engines(
        """(float[n, 4] x) => (float[n, 4] y)
        { mean = ReduceMean <axes = [0], keepdims = 1> (x) y = Sub (x, mean) }"""
    )
    result = Last(qst.batch_invariant)
    with pytest.raises(AssertionError, match=r"sample \d depends on its batch: output 'y'.*in the batch.*alone"):
        qst.check(centred, engines(SAME), SAMPLES, properties=[result])
    assert result.feeds["x"].shape == (2, 4)


def test_time_first_models_are_split_along_the_axis_that_counts_samples(engines: Engines) -> None:
    """The axis is found by the name that inputs share, in outputs by what grows with the batch."""
    engine = engines(
        """(float[n, 4] x, float[2, n, 4] state, float rate) => (float[2, n, 4] next, float[n, 4] y)
        { next = Add (x, state) y = Mul (x, rate) }"""
    )
    qst.check(engine, engine, properties=[qst.batch_invariant], max_examples=30)


def test_an_engine_that_draws_random_numbers_is_found(engines: Engines) -> None:
    """Two runs over the same batch differ, for the smallest batch there is."""
    noisy = engines("(float[n, 4] x) => (float[n, 4] y) { noise = RandomNormalLike (x) y = Add (x, noise) }")
    result = Last(qst.deterministic)
    with pytest.raises(AssertionError, match=r"two runs differ: output 'y' at \[0, \d\]: first run .*, second run "):
        qst.check(noisy, engines(SAME), properties=[result])
    assert not result.feeds["x"].any()
    assert result.feeds["x"].shape == (1, 4)


@pytest.mark.parametrize(
    ("limit", "holds", "breaks"),
    [("max_abs_error", 0.2501, 0.24), ("max_range_pct", 25.01, 24.9)],
)
def test_an_error_is_bounded_in_the_limit_s_own_unit(engines: Engines, limit: str, holds: float, breaks: float) -> None:
    """The candidate, 1.25 x, is off by a quarter: 0.25 where x is 1, 25 % of the range."""
    off = engines("(float[n, 4] x) => (float[n, 4] y) <float k = {1.25}> { y = Mul (x, k) }")
    right, ones = engines(SAME), {"x": np.ones((2, 4), np.float32)}
    qst.bounded_error(off, right, ones, **{limit: holds})
    with pytest.raises(AssertionError, match=limit):
        qst.bounded_error(off, right, ones, **{limit: breaks})
    with pytest.raises(UsageError, match="was given no limit"):
        qst.bounded_error(off, right, ones)


def test_the_same_batches_are_drawn_each_time(engines: Engines) -> None:
    """Two calls of `check` draw the same."""
    drawn: list[list[bytes]] = []
    same = engines(SAME)
    for _ in range(2):
        seen = Seen()
        drawn.append(seen.batches)
        qst.check(same, same, SAMPLES, properties=[seen])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 20


def test_a_static_int8_engine_keeps_every_property(pytester: pytest.Pytester) -> None:
    """In a marked test, with the plugin's fixtures and hypothesis's own health checks, `given` and `check` alike."""
    select_first(pytester.path / "model.onnx")
    inputs, labels = samples(64)
    np.savez(pytester.path / "data.npz", inputs=inputs, labels=labels)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--quant-no-latency", "-W", "error")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: max_abs_error is broken: output 'y' at *candidate *, reference *"])


TESTS = """
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from pytest_quant import Dataset
from pytest_quant import strategies as qst


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data():
    data = np.load("data.npz")
    return Dataset.from_arrays(data["inputs"], data["labels"], calibration=32)


@pytest.mark.quant(max_drop=20)
def test_all(quant_engine, quant_reference, quant_data):
    near = partial(qst.bounded_error, max_abs_error=1.0)
    properties = [qst.finite, qst.deterministic, qst.batch_invariant, near]
    qst.check(quant_engine, quant_reference, quant_data, properties=properties)


@pytest.mark.quant(max_drop=20)
@qst.settings
@given(feeds=qst.inputs("model.onnx", scale=4))
def test_given(quant_engine, quant_reference, feeds):
    qst.finite(quant_engine, quant_reference, feeds)


@pytest.mark.quant(max_drop=20)
def test_too_strict(quant_engine, quant_reference, quant_data):
    qst.check(quant_engine, quant_reference, quant_data, properties=[partial(qst.bounded_error, max_abs_error=1e-6)])
"""
