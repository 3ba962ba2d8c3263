"""Bad data is a clear error before anything is measured."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data import open_data
from pytest_quant.errors import DataError, UsageError
from pytest_quant.spec import Dataset, Signature, TensorInfo
from tests.unit.data.samples import ONE, TWO, Samples, numbers, opened, streamed

IDS = np.zeros((4, 3), np.int64)
MASK = np.ones((4, 3), bool)


@given(index=st.integers(0, 29), column=st.integers(0, 2), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_nan_and_infinity_are_named_with_their_sample(index: int, column: int, bad: float) -> None:
    """Input and index are told, in both forms and in calibration data."""
    values = numbers(30)
    values[index, column] = bad
    for where, inputs, calibration in (("", values, None), (", calibration", numbers(3, seed=1), values)):
        words = f"quant_data{where}, input 'x': sample {index} holds NaN or infinity"
        with pytest.raises(DataError, match=words) as raised:
            opened(inputs, None, calibration)
        assert raised.value.value == str(np.float32(bad))
    with pytest.raises(DataError, match=f"input 'x': sample {index} holds NaN or infinity"):
        streamed(list(values))


@pytest.mark.parametrize(
    ("inputs", "signature", "what", "value", "allowed"),
    [
        (numbers(4).astype(np.float64), ONE, "dtype", "float64", "float32"),
        (np.ones((4, 3), np.int64), ONE, "dtype", "int64", "float32"),
        (numbers(4).astype(np.dtype(">f4")), ONE, "dtype", ">f4 (bytes swapped)", "float32"),
        (numbers(4)[0], ONE, "0 dimensions", "a sample of shape ()", "(3,)"),
        (numbers(4)[:, None], ONE, "2 dimensions", "a sample of shape (1, 3)", "(3,)"),
        (numbers(4)[:, :2], ONE, "shape is not the model's", "a sample of shape (2,)", "(3,)"),
        (np.float32(1), ONE, "no array of samples", "1.0", "first axis counts samples"),
        ({"y": numbers(4)}, ONE, "no input 'y'", "inputs y", "known: x"),
        ({}, ONE, "input 'x' is missing", "inputs ", "all of x"),
        ({"ids": IDS}, TWO, "input 'mask' is missing", "inputs ids", "all of ids, mask"),
        ({"ids": IDS, "maks": MASK}, TWO, "no input 'maks'", "inputs ids, maks", "did you mean 'mask'?"),
        (IDS, TWO, "2 inputs", "ndarray", "ids, mask"),
        ({"ids": IDS, "mask": MASK[:3]}, TWO, "number of samples", "input 'ids': 4, input 'mask': 3", "same length"),
        ([[1.0], [1.0, 2.0]], ONE, "cannot be turned into an array", "list", "numpy array"),
        (numbers(0), ONE, "holds no sample", None, "at least one"),
        (numbers(4), Signature((), ()), "the model has 0 inputs", "ndarray", "a dict by input name"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(inputs: Any, signature: Signature, what: str, value: str | None, allowed: str) -> None:
    """What is wrong, the value, what is allowed and the next step are all there."""
    with pytest.raises(DataError) as raised:
        opened(inputs, signature=signature)
    error = raised.value
    assert what in error.what
    assert "quant_data" in error.what
    assert error.value is None if value is None else value in str(error.value)
    assert allowed in str(error.allowed)
    assert error.fix


def test_inputs_without_a_batch_axis_are_named() -> None:
    """The samples of a graph network are whole inputs: the message says how to say so, and the data then fits."""
    graph = Signature(
        (
            TensorInfo("feat", "float32", (None, 3)),
            TensorInfo("to", "int64", (None,)),
            TensorInfo("x", "float32", (None, 3)),
        ),
        (),
    )
    samples = [
        {"feat": numbers(n), "to": np.arange(n), "x": numbers(1, seed=n)[0]} for n in (4, 5, 6)
    ]  # fmt: skip
    with pytest.raises(DataError, match="input 'feat': a sample has 2 dimensions and the model takes 1") as raised:
        streamed(samples, signature=graph)
    assert str(raised.value.fix).endswith("batch_axes={'feat': None}")
    axes = {"feat": None, "to": None}
    assert open_data(Dataset.from_iterable(samples, batch_axes=axes), graph).n == 3


def test_free_dimensions_take_any_size_and_unknown_ranks_any_shape() -> None:
    """Only what the model fixes is checked."""
    free = Signature((TensorInfo("x", "float32", (None, None, 2)),), ())
    assert opened(np.zeros((3, 7, 2), np.float32), signature=free).n == 3
    unknown = Signature((TensorInfo("x", "float32", None),), ())
    assert opened(np.zeros((3, 7, 2, 1), np.float32), signature=unknown).n == 3
    with pytest.raises(DataError) as raised:
        opened(np.zeros((3, 7, 3), np.float32), signature=free)
    assert raised.value.allowed == "(?, 2)"


def test_a_generator_is_refused_before_it_is_read() -> None:
    """It could not be read twice; nothing of it is used up. A number, or an array without axes, cannot be iterated."""
    for number in (3, np.array(3.0)):
        with pytest.raises(DataError, match="cannot be iterated"):
            streamed(number)
    samples = iter(Samples(3))
    with pytest.raises(DataError, match="only once"):
        streamed(samples)
    assert len(list(samples)) == 3
    with pytest.raises(DataError, match=r"calibration.*only once"):
        streamed(Samples(3), (row for row in numbers(2)))


def test_a_dataset_is_no_calibration_data() -> None:
    """Whose samples are meant is not guessed: its arrays are to be given."""
    whole = Dataset.from_arrays(numbers(3))
    with pytest.raises(UsageError, match=r"(?s)calibration is a Dataset.*give its arrays"):
        Dataset.from_arrays(numbers(3), calibration=whole)
    with pytest.raises(UsageError, match="calibration is a Dataset"):
        Dataset.from_iterable(list(numbers(3)), calibration=whole)


def test_a_graph_that_tells_no_rank_leaves_it_to_the_data() -> None:
    """Samples (3,) in a batch (n, 3) have the axes 0 and 1."""
    anything = Signature((TensorInfo("x", "float32", None),), ())
    for axis in (0, 1):
        data = open_data(Dataset.from_iterable(list(numbers(4)), batch_axes={"x": axis}), anything)
        assert data.first(4)["x"].shape == ((4, 3), (3, 4))[axis]


def test_the_inputs_that_a_text_proposes_are_taken() -> None:
    """A dict with the keys that it writes, each with the array that was given under another name."""
    with pytest.raises(DataError, match="has no input 'maks'") as raised:
        opened({"ids": IDS, "maks": MASK}, signature=TWO)
    proposed = (raised.value.fix or "").partition("; ")[0]
    assert proposed == "give {'ids': ..., 'mask': ...}"
    names = ast.literal_eval(proposed.removeprefix("give "))
    assert opened(dict(zip(names, (IDS, MASK), strict=True)), signature=TWO).n == 4


class Again:
    """Written as the text about samples that can be read only once says."""

    def __iter__(self) -> Iterator[np.ndarray]:
        yield from numbers(4)


def test_samples_that_can_be_read_again_are_taken() -> None:
    """After both steps that the text names: a class whose ``__iter__`` yields, or a list."""
    with pytest.raises(DataError, match="only once") as raised:
        open_data(Dataset.from_iterable(iter(numbers(4))), ONE)
    for step in ("def __iter__(self): yield ...", "list(...)"):
        assert step in (raised.value.fix or "")
    for samples in (Again(), list(iter(numbers(4)))):
        assert open_data(Dataset.from_iterable(samples), ONE).n == 4
