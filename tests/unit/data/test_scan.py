"""Digests follow contents and nothing else; data that changes between two passes is caught; a few samples of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.data.scan import even_indices
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset, Signature, TensorInfo
from tests.unit.data.samples import Samples, numbers, opened, streamed

N = 12


def signature(name: str = "x", dtype: str = "float32", shape: tuple[int | None, ...] = (None, None)) -> Signature:
    """One input."""
    return Signature((TensorInfo(name, dtype, shape),), ())


@given(index=st.integers(0, N - 1), column=st.integers(0, 2), calibration=st.sampled_from([None, 3]))
def test_any_changed_number_changes_one_digest(index: int, column: int, calibration: int | None) -> None:
    """The digest of the set that holds the sample changes, and only that one; a label belongs to the evaluation."""
    labels = np.arange(N)
    before = opened(numbers(N), labels, calibration)
    changed = numbers(N)
    changed[index, column] = np.nextafter(changed[index, column], np.float32(np.inf))
    after = opened(changed, labels, calibration)
    relabelled = opened(numbers(N), np.where(labels == index, -1, labels), calibration)
    is_calibration = calibration is not None and index in even_indices(N, calibration)
    assert (before.digest != after.digest) == (before.digest != relabelled.digest) == (not is_calibration)
    assert (before.calibration_digest != after.calibration_digest) == is_calibration
    assert before.calibration_digest == relabelled.calibration_digest


@given(order=st.permutations(range(5)))
def test_the_order_of_samples_counts(order: list[int]) -> None:
    """Outputs are kept by position."""
    same = order == sorted(order)
    assert (opened(numbers(5)).digest == opened(numbers(5)[order]).digest) == same


def test_name_dtype_and_shape_count() -> None:
    """The same bytes as something else are something else."""
    zeros = np.zeros((4, 6), np.float32)
    digests = {
        opened(zeros, signature=signature()).digest,
        opened(zeros, signature=signature(name="y")).digest,
        opened(zeros.view(np.int32), signature=signature(dtype="int32")).digest,
        opened(zeros.reshape(4, 2, 3), signature=signature(shape=(None, 2, 3))).digest,
        opened(zeros.reshape(8, 3), signature=signature()).digest,
        opened(zeros, np.zeros(4, int), signature=signature()).digest,
        opened(zeros, np.zeros(4), signature=signature()).digest,
    }
    assert len(digests) == 7


def test_the_form_does_not_count() -> None:
    """Arrays in any order of memory and an iterable of the same samples share what was computed from them."""
    assert opened(Samples(20).values, np.arange(20) % 10).digest == streamed(Samples(20)).digest
    assert opened(np.asfortranarray(numbers(20))).digest == opened(numbers(20)).digest
    assert opened(Samples(20).values).digest == streamed(list(Samples(20).values)).digest


def test_large_data_is_read_in_pieces_with_the_same_result() -> None:
    """A set of several blocks has the digest of the same samples one by one."""
    values = np.random.default_rng(0).standard_normal((5, 300_000)).astype(np.float32)
    assert opened(values, signature=signature()).digest == streamed(list(values), signature=signature()).digest


class Changing:
    """Samples that `change` alters in every pass but the first."""

    def __init__(self, n: int, change: Callable[[list[Any]], object]) -> None:
        self._n, self._change, self._passes = n, change, 0

    def __iter__(self) -> Iterator[Any]:
        """Start a pass."""
        samples = list(zip(numbers(self._n), range(self._n), strict=True))
        if self._passes:
            self._change(samples)
        self._passes += 1
        return iter(samples)


@given(n=st.integers(1, 30), data=st.data(), batch_size=st.integers(1, 8))
def test_a_changed_sample_is_named(n: int, data: st.DataObject, batch_size: int) -> None:
    """The first sample that differs, by its index in the data."""
    index = data.draw(st.integers(0, n - 1))

    def change(samples: list[Any]) -> None:
        for later in range(index, n):
            samples[later] = (samples[later][0] + np.float32(1), later)

    opened = streamed(Changing(n, change))
    with pytest.raises(DataError, match=f"sample {index} differs between two passes") as raised:
        list(opened.batches(batch_size))
    assert "shuffl" in str(raised.value.fix)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda samples: samples.__setitem__(2, (samples[2][0], 99)), "sample 2 differs"),
        (lambda samples: samples.reverse(), "sample 0 differs"),
        (lambda samples: samples.pop(), "ended after 9 samples, the first had 10"),
        (lambda samples: samples.clear(), "ended after 0 samples"),
        (lambda samples: samples.append(samples[0]), "goes on after 10 samples"),
        (lambda samples: samples.__setitem__(4, (samples[4][0], None)), "sample 4 differs"),
    ],
    ids=["label", "order", "shorter", "empty", "longer", "unlabelled"],
)
def test_every_kind_of_change_is_caught(change: Callable[[list[Any]], object], message: str) -> None:
    """Labels, order and length count as much as inputs."""
    data = streamed(Changing(10, change))
    with pytest.raises(DataError, match=message):
        list(data.batches(3))


def test_a_change_in_a_calibration_sample_is_caught() -> None:
    """Samples that are passed over count too, in both sets."""

    def change(samples: list[Any]) -> None:
        samples[0] = (samples[0][0] + np.float32(1), 0)

    with pytest.raises(DataError, match="sample 0 differs"):
        list(streamed(Changing(20, change), 3).batches(3))
    with pytest.raises(DataError, match="sample 0 differs"):
        list(streamed(Changing(20, change), 3).calibration(3))
    of_its_own = streamed(list(numbers(5, seed=1)), Changing(10, lambda samples: samples.reverse()))
    with pytest.raises(DataError, match="quant_data, calibration: sample 0 differs"):
        list(of_its_own.calibration(1))


_SIGNATURE = Signature((TensorInfo("x", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 2)),))


class Stream:
    """Ten samples that are made anew in each pass; counts the passes."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Sample i holds the number i and has the label i."""
        self.passes += 1
        for i in range(10):
            yield np.full(3, i, np.float32), i


def test_a_few_samples_are_spaced_evenly_with_their_labels() -> None:
    """The first, the last and those between: round(i * 9 / 3)."""
    inputs = np.repeat(np.arange(10, dtype=np.float32)[:, None], 3, axis=1)
    data = open_data(Dataset.from_arrays(inputs, np.arange(10)), _SIGNATURE).some(4)
    (batch,) = data.batches(8)
    assert batch.feeds["x"][:, 0].tolist() == [0, 3, 6, 9]
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 3, 6, 9]
    assert data.n == 4


def test_a_few_samples_of_a_stream_are_read_once() -> None:
    """However often they are used; a stream of images is slow to read."""
    stream = Stream()
    data = open_data(Dataset.from_iterable(stream), _SIGNATURE).some(3)
    passes = stream.passes
    result = [[batch.feeds["x"][:, 0].tolist() for batch in data.batches(2)] for _ in range(3)]
    labels = [batch.labels for batch in data.batches(8)]
    assert result == [[[0, 4], [9]]] * 3
    assert [label.tolist() for label in labels if label is not None] == [[0, 4, 9]]
    assert stream.passes == passes
