"""Batches hold every sample once, in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.data import Data
from pytest_quant.spec import Signature, TensorInfo
from tests.unit.data.samples import RAGGED, Samples, all_inputs, numbers, opened, streamed

FORMS = st.sampled_from(["arrays", "iterable"])


def data_of(form: str, n: int, calibration: int | None = None) -> Data:
    """`n` samples in one form, labelled with their index modulo 10."""
    if form == "arrays":
        return opened(numbers(n), np.arange(n) % 10, calibration)
    return streamed(Samples(n), calibration)


@given(form=FORMS, n=st.integers(1, 40), batch_size=st.integers(1, 50), pad=st.booleans())
def test_every_sample_comes_once_and_in_order(form: str, n: int, batch_size: int, pad: bool) -> None:
    """Inputs, labels, starts and counts add up to the whole set for any batch size."""
    batches = list(data_of(form, n).batches(batch_size, pad))
    np.testing.assert_array_equal(np.concatenate([batch.feeds["x"][: batch.n] for batch in batches]), numbers(n))
    labels = [batch.labels for batch in batches if batch.labels is not None]
    np.testing.assert_array_equal(np.concatenate(labels), np.arange(n) % 10)
    assert [batch.start for batch in batches] == list(range(0, n, batch_size))
    assert sum(batch.n for batch in batches) == n
    assert all(batch.n == batch_size for batch in batches[:-1])


@given(form=FORMS, n=st.integers(2, 40), batch_size=st.integers(1, 50), calibration=st.sampled_from([None, 1]))
def test_padding_repeats_the_last_sample_in_inputs_only(
    form: str, n: int, batch_size: int, calibration: int | None
) -> None:
    """Every padded batch is full, rows behind the real ones are the last real one, labels are real only."""
    for batch in data_of(form, n, calibration).batches(batch_size, pad=True):
        rows = batch.feeds["x"]
        assert rows.shape == (batch_size, 3)
        np.testing.assert_array_equal(rows[batch.n :], np.repeat(rows[batch.n - 1 : batch.n], batch_size - batch.n, 0))
        assert batch.labels is not None
        assert len(batch.labels) == batch.n


@given(n=st.integers(2, 40), k=st.integers(1, 39), batch_size=st.integers(1, 16))
def test_arrays_and_iterables_give_the_same(n: int, k: int, batch_size: int) -> None:
    """The same samples in two forms have the same digests, split and batches."""
    count = min(k, n - 1)
    left, right = data_of("arrays", n, count), data_of("iterable", n, count)
    assert (left.digest, left.calibration_digest, left.n) == (right.digest, right.calibration_digest, right.n)
    for one, other in zip(left.batches(batch_size), right.batches(batch_size), strict=True):
        np.testing.assert_array_equal(one.feeds["x"], other.feeds["x"])
        np.testing.assert_array_equal(one.labels, other.labels)
        assert (one.start, one.n) == (other.start, other.n)


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=30), batch_size=st.integers(1, 5), pad=st.booleans())
def test_samples_of_equal_shapes_share_a_batch(lengths: list[int], batch_size: int, pad: bool) -> None:
    """Ragged samples are never mixed in a batch, none is lost, and each is known by its place in the set."""
    samples = [(np.full(length, i, np.float32), i) for i, length in enumerate(lengths)]
    seen: list[int] = []
    for batch in streamed(samples, signature=RAGGED).batches(batch_size, pad):
        positions = batch.positions or tuple(range(batch.start, batch.start + batch.n))
        assert batch.start == positions[0]
        assert len(batch.feeds["x"]) == (batch_size if pad else batch.n)
        assert batch.labels is not None
        for row, label, position in zip(batch.feeds["x"][: batch.n], batch.labels, positions, strict=True):
            assert len(row) == lengths[position]
            assert int(row[0]) == label == position
        seen += positions
    assert sorted(seen) == list(range(len(lengths)))


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=40), batch_size=st.integers(1, 8))
def test_batches_are_as_few_as_shapes_and_size_allow(lengths: list[int], batch_size: int) -> None:
    """Forty samples of three lengths in any order make no more batches than the same ones sorted by length."""
    samples = [np.zeros(length, np.float32) for length in lengths]
    fewest = sum(-(-lengths.count(length) // batch_size) for length in set(lengths))
    most_waiting = 8 * batch_size
    batches = list(streamed(samples, signature=RAGGED).batches(batch_size))
    assert len(batches) == fewest or len(lengths) > most_waiting


def test_arrays_are_not_copied() -> None:
    """A batch of contiguous arrays is a view of what the user gave."""
    inputs = numbers(10)
    assert all(np.shares_memory(batch.feeds["x"], inputs) for batch in opened(inputs).batches(4))


def test_an_iterable_may_reuse_its_buffer() -> None:
    """Samples that are overwritten by the next one are copied in time, labels too."""

    class Reusing:
        def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
            buffer, label = np.empty(3, np.float32), np.empty((), np.int64)
            for index in range(7):
                buffer[:], label[()] = index, index
                yield buffer, label

    data = streamed(Reusing())
    np.testing.assert_array_equal(all_inputs(data, 3)[:, 0], np.arange(7))
    labels = [batch.labels for batch in data.batches(3) if batch.labels is not None]
    np.testing.assert_array_equal(np.concatenate(labels), np.arange(7))


@pytest.mark.parametrize("form", ["arrays", "iterable"])
def test_the_first_batch_is_full(form: str) -> None:
    """It begins with the first samples, and repeats the last when there are fewer."""
    data = data_of(form, 3)
    np.testing.assert_array_equal(data.first(2)["x"], numbers(3)[:2])
    np.testing.assert_array_equal(data.first(5)["x"], numbers(3)[[0, 1, 2, 2, 2]])


def test_text_is_not_cut() -> None:
    """Strings of different lengths keep theirs in one batch."""
    signature = Signature((TensorInfo("text", "object", (None,)),), ())
    data = streamed([np.array("ab"), np.array("abcdef")], signature=signature)
    assert next(data.batches(2)).feeds["text"].tolist() == ["ab", "abcdef"]
