"""Batches hold every sample once, in order; calibration samples lie apart; memory does not grow with the data."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.data import Data, open_data
from pytest_quant.data.scan import even_indices, split_indices
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset, Signature, TensorInfo
from tests.unit.data.samples import RAGGED, TWO, Samples, all_inputs, numbers, opened, streamed

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


def test_text_is_not_cut() -> None:
    """Strings of different lengths keep theirs in one batch, whose last sample is repeated where they are too few."""
    signature = Signature((TensorInfo("text", "object", (None,)),), ())
    data = streamed([np.array("ab"), np.array("abcdef")], signature=signature)
    assert data.first(3)["text"].tolist() == ["ab", "abcdef", "abcdef"]


@given(n=st.integers(1, 5000), k=st.integers(1, 5000))
def test_evenly_spaced_indices_are_different_and_in_range(n: int, k: int) -> None:
    """For k <= n: k different indices in order, the first and the last among them."""
    k = min(k, n)
    indices = even_indices(n, k)
    assert len(set(indices)) == k
    assert indices == sorted(indices)
    assert indices[0] == 0
    assert indices[-1] == (n - 1 if k > 1 else 0)


@given(n=st.integers(2, 60), k=st.integers(1, 59), stream=st.booleans())
def test_a_count_takes_its_samples_out_of_the_evaluation(n: int, k: int, stream: bool) -> None:
    """Together the two sets are the data, each sample in one of them."""
    k = min(k, n - 1)
    data = streamed(Samples(n), k) if stream else opened(numbers(n), np.arange(n), k)
    indices = even_indices(n, k)
    rest = sorted(set(range(n)) - set(indices))
    assert (data.n, data.n_calibration) == (n - k, k)
    np.testing.assert_array_equal(np.concatenate([feeds["x"] for feeds in data.calibration(4)]), numbers(n)[indices])
    np.testing.assert_array_equal(all_inputs(data, 4), numbers(n)[rest])


@pytest.mark.parametrize(("share", "n", "count"), [(0.1, 100, 10), (0.001, 100, 1), (0.25, 10, 2), (0.99, 100, 99)])
def test_a_share_is_rounded_and_at_least_one(share: float, n: int, count: int) -> None:
    """``max(1, round(share * n))``: 2.5 rounds to 2."""
    assert opened(numbers(n), calibration=share).n_calibration == count


@pytest.mark.parametrize(("calibration", "n"), [(10, 10), (11, 10), (1, 1), (0.5, 1), (0.99, 10)])
def test_something_must_be_left_to_evaluate(calibration: float, n: int) -> None:
    """Taking every sample is an error that tells both numbers."""
    with pytest.raises(DataError, match="no sample is left") as raised:
        opened(numbers(n), calibration=calibration)
    assert f"of {n} samples" in str(raised.value)


def test_without_calibration_there_is_none() -> None:
    """The digest is empty, and there are no batches."""
    data = opened(numbers(5))
    assert (data.n_calibration, data.calibration_digest, data.notes) == (0, "", ())
    assert list(data.calibration(1)) == []


def test_data_of_its_own() -> None:
    """Arrays or an iterable of the same form; all other samples are evaluated."""
    own = numbers(4, seed=1)
    for data in (opened(numbers(5), None, own), streamed(Samples(5), list(own))):
        assert (data.n, data.n_calibration) == (5, 4)
        np.testing.assert_array_equal(np.concatenate([feeds["x"] for feeds in data.calibration(3)]), own)


@given(n=st.integers(1, 30), samples=st.integers(1, 40))
def test_a_cap_takes_evenly_spaced_samples(n: int, samples: int) -> None:
    """At most so many, spread over the whole calibration set."""
    own = numbers(n, seed=1)
    data = opened(numbers(2), None, own)
    capped = np.concatenate([feeds["x"] for feeds in data.calibration(4, samples)])
    np.testing.assert_array_equal(capped, own[even_indices(n, min(samples, n))])


@given(n=st.integers(2, 200), k=st.integers(1, 20), stream=st.booleans())
@settings(max_examples=40)
def test_some_samples_and_others_between_them_have_none_in_common(n: int, k: int, stream: bool) -> None:
    """At most `k`, half of a small set, and up to four times as many others; with their labels' place in the set."""
    data = streamed(Samples(n)) if stream else opened(numbers(n), np.arange(n))
    parts = data.split(k)
    ours, others = split_indices(n, k)
    for part, indices in zip(parts, (ours, others), strict=True):
        np.testing.assert_array_equal(all_inputs(part, 4), numbers(n)[indices])
        assert (part.n, [*part.input_hashes]) == (len(indices), [data.input_hashes[index] for index in indices])
    assert not {*ours} & {*others}
    assert 1 <= len(ours) <= max(k, (n + 1) // 2)
    assert len(ours) + len(others) == min(n, 5 * k)


def test_a_fixed_batch_size_is_kept_in_calibration() -> None:
    """A model of batch 4 gets full batches of 4 whatever is asked, the last filled up with its last sample."""
    signature = Signature((TensorInfo("x", "float32", (4, 3)),), ())
    own = numbers(6, seed=1)
    first, last = opened(numbers(2), None, own, signature).calibration(1)
    np.testing.assert_array_equal(first["x"], own[:4])
    np.testing.assert_array_equal(last["x"], own[[4, 5, 5, 5]])


def test_common_samples_are_a_note_up_to_a_tenth_and_an_error_above() -> None:
    """One of ten is a tenth; the same input under another label is the same sample to a calibrator."""
    data = opened(numbers(5), np.arange(5), np.concatenate([numbers(9, seed=1), numbers(5)[:1]]))
    assert "1 of 10 calibration samples" in data.notes[0]
    assert "(10.0 %)" in data.notes[0]
    with pytest.raises(DataError, match="2 of 10 calibration samples"):
        opened(numbers(5), None, np.concatenate([numbers(8, seed=1), numbers(5)[:2]]))


def test_duplicates_within_the_data_are_found_across_a_split() -> None:
    """A split by index does not hide equal contents."""
    inputs = np.repeat(numbers(20), 2, axis=0)
    with pytest.raises(DataError, match="4 of 4 calibration samples"):
        opened(inputs, np.arange(40), calibration=4)


SIGNATURE = Signature((TensorInfo("x", "float32", (None, 5000)),), ())
SAMPLE_BYTES = 20_000


class Made:
    """Samples that are made when asked for and held by nobody."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Start a pass."""
        for index in range(self._n):
            yield np.full(5000, index, np.float32), index % 10


def peak_bytes(dataset: Dataset) -> int:
    """The most memory held at once while opening and reading everything once.

    The collector of cycles stands still, since it empties Python's lists of freed objects at times of its own.
    """
    gc.disable()
    tracemalloc.start()
    try:
        data = open_data(dataset, SIGNATURE)
        for batch in data.batches(4):
            assert batch.n
        if data.n_calibration:
            for feeds in data.calibration(4):
                assert feeds
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize(("calibration", "bytes_a_sample"), [(None, 8 + 8), (0.1, 8 + 8 + 8 + 8 + 2)])
def test_ten_times_the_data_needs_no_more_memory(calibration: float | None, bytes_a_sample: int) -> None:
    """At most 1.1 times the peak, beside hashes: 16 bytes a sample, and with a split two more sets and the masks."""
    # A first long pass fills Python's own lists of freed tuples, which hold up to 2000 of each length.
    peak_bytes(Dataset.from_iterable(Made(1600), calibration))
    small, large = (peak_bytes(Dataset.from_iterable(Made(n), calibration)) for n in (160, 1600))
    assert small < 100 * SAMPLE_BYTES
    assert large <= 1.1 * small + bytes_a_sample * 1600 * 1.125


@given(st.integers(1, 64), st.lists(st.integers(0, 2_000_000), min_size=3, max_size=3))
def test_a_batch_is_no_larger_than_memory_is_to_hold(batch_size: int, kilobytes: list[int]) -> None:
    """It has as many samples as fit into 32 MB, with outputs and the largest tensor; one at least, not more than asked.

    Of the evaluation it is not larger than the set either, and not smaller than what is timed.
    """
    of_one = 1000 * sum(kilobytes)
    inputs, inside, outputs = (1000 * each for each in kilobytes)
    data = replace(opened(numbers(5)), sample_bytes=inputs, tensor_bytes=inside)
    fitting = data.fit_batch_size(batch_size, outputs)
    assert 1 <= fitting <= batch_size
    assert fitting == 1 or fitting * of_one <= 32e6
    assert fitting == batch_size or (fitting + 1) * of_one > 32e6
    for timed in (1, 3, 9):
        assert data.find_evaluation_size(timed, outputs) == min(5, max(data.fit_batch_size(32, outputs), timed))


def test_the_largest_sample_counts() -> None:
    """Of all inputs together, whichever pass has it: evaluation or calibration."""
    two = [{"ids": np.zeros((k,), np.int64), "mask": np.ones((k,), bool)} for k in (2, 5, 3)]
    own = [{"ids": np.zeros((7,), np.int64), "mask": np.ones((7,), bool)}]
    assert streamed(two, signature=TWO).sample_bytes == 5 * (8 + 1)
    assert streamed(two, own, signature=TWO).sample_bytes == 7 * (8 + 1)


@given(
    picked=st.lists(st.integers(0, 9), min_size=2, max_size=60), form=FORMS, calibration=st.booleans(),
    fewer=st.integers(1, 60),
)  # fmt: skip
def test_samples_with_equal_inputs_are_no_different_ones(
    picked: list[int], form: str, calibration: bool, fewer: int
) -> None:
    """Whatever their labels are; numpy counts them. Of a part of the data it is that part's own number."""
    inputs, labels = numbers(10)[picked], np.arange(len(picked))
    given = numbers(5, seed=1) if calibration else None
    pairs = [(sample, int(label)) for sample, label in zip(inputs, labels, strict=True)]
    data = opened(inputs, labels, given) if form == "arrays" else streamed(pairs, given)
    for part in (data, data.some(fewer)):
        assert part.n_different == len(np.unique(all_inputs(part, 7), axis=0))
    note = f"{len(picked)} samples, {data.n_different} of them different"
    assert [each for each in data.notes if each.endswith(note)] == list(data.notes)
    assert bool(data.notes) is (data.n_different < len(picked))


def test_samples_that_were_taken_for_calibration_are_not_counted() -> None:
    """The first of three different pictures calibrates; of the other two there are four copies each."""
    inputs = np.concatenate([numbers(1), *([numbers(2, seed=2)] * 4)])
    data = opened(inputs, None, 1)
    assert (data.n, data.n_different) == (8, 2)
