"""Calibration samples: which, how many, and apart from the evaluated ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data.scan import evenly_spaced
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature, TensorInfo
from tests.unit.data.samples import RAGGED, Samples, all_inputs, numbers, opened, streamed


@given(n=st.integers(1, 5000), k=st.integers(1, 5000))
def test_evenly_spaced_indices_are_different_and_in_range(n: int, k: int) -> None:
    """For k <= n: k different indices in order, the first and the last among them."""
    k = min(k, n)
    indices = evenly_spaced(n, k)
    assert len(set(indices)) == k
    assert indices == sorted(indices)
    assert indices[0] == 0
    assert indices[-1] == (n - 1 if k > 1 else 0)


@given(n=st.integers(2, 60), k=st.integers(1, 59), stream=st.booleans())
def test_a_count_takes_its_samples_out_of_the_evaluation(n: int, k: int, stream: bool) -> None:
    """Together the two sets are the data, each sample in one of them."""
    k = min(k, n - 1)
    data = streamed(Samples(n), k) if stream else opened(numbers(n), np.arange(n), k)
    indices = evenly_spaced(n, k)
    rest = sorted(set(range(n)) - set(indices))
    assert (data.n, data.n_calibration, data.calibration_indices) == (n - k, k, tuple(indices))
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
    """The digest is empty, and asking for batches is an error that says what to write."""
    data = opened(numbers(5))
    assert (data.n_calibration, data.calibration_digest, data.notes) == (0, "", ())
    with pytest.raises(DataError, match="no calibration samples") as raised:
        data.calibration(1)
    assert raised.value.fix is not None
    assert "calibration=100" in raised.value.fix


def test_data_of_its_own() -> None:
    """Arrays or an iterable of the same form; all other samples are evaluated."""
    own = numbers(4, seed=1)
    for data in (opened(numbers(5), None, own), streamed(Samples(5), list(own))):
        assert (data.n, data.n_calibration, data.calibration_indices) == (5, 4, ())
        np.testing.assert_array_equal(np.concatenate([feeds["x"] for feeds in data.calibration(3)]), own)


@given(n=st.integers(1, 30), samples=st.integers(1, 40))
def test_a_cap_takes_evenly_spaced_samples(n: int, samples: int) -> None:
    """At most so many, spread over the whole calibration set."""
    own = numbers(n, seed=1)
    data = opened(numbers(2), None, own)
    capped = np.concatenate([feeds["x"] for feeds in data.calibration(4, samples)])
    np.testing.assert_array_equal(capped, own[evenly_spaced(n, min(samples, n))])


def test_ragged_samples_are_passed_on_as_they_are() -> None:
    """Batches of different shapes keep their shapes."""
    own = [np.ones(length, np.float32) for length in (2, 2, 3, 2)]
    data = streamed([np.zeros(1, np.float32)], own, RAGGED)
    assert [feeds["x"].shape for feeds in data.calibration(8)] == [(3, 2), (1, 3)]


def test_a_fixed_batch_size_is_kept_in_calibration() -> None:
    """A model of batch 4 gets full batches of 4 whatever is asked, the last filled up with its last sample."""
    signature = Signature((TensorInfo("x", "float32", (4, 3)),), ())
    own = numbers(6, seed=1)
    first, last = opened(numbers(2), None, own, signature).calibration(1)
    np.testing.assert_array_equal(first["x"], own[:4])
    np.testing.assert_array_equal(last["x"], own[[4, 5, 5, 5]])


def test_few_common_samples_are_a_note() -> None:
    """One of ten is 10 %, not above it: counted and told."""
    own = np.concatenate([numbers(9, seed=1), numbers(5)[:1]])
    data = opened(numbers(5), None, own)
    assert "1 of 10 calibration samples" in data.notes[0]
    assert "(10.0 %)" in data.notes[0]


def test_many_common_samples_are_an_error() -> None:
    """Two of ten are above 10 %."""
    own = np.concatenate([numbers(8, seed=1), numbers(5)[:2]])
    with pytest.raises(DataError, match="2 of 10 calibration samples"):
        opened(numbers(5), None, own)


def test_the_same_set_twice_is_an_error() -> None:
    """Calibrating with the evaluation set is caught, labels or none, arrays or not."""
    for labels in (None, np.arange(5)):
        with pytest.raises(DataError, match="5 of 5 calibration samples"):
            opened(numbers(5), labels, numbers(5))
    with pytest.raises(DataError, match="5 of 5 calibration samples"):
        streamed(Samples(5), Samples(5))


def test_duplicates_within_the_data_are_found_across_a_split() -> None:
    """A split by index does not hide equal contents."""
    inputs = np.repeat(numbers(20), 2, axis=0)
    with pytest.raises(DataError, match="4 of 4 calibration samples"):
        opened(inputs, calibration=4)


def test_overlap_looks_at_inputs_only() -> None:
    """The same input under another label is the same sample to a calibrator."""
    inputs = numbers(12)
    inputs[1] = inputs[0]
    with pytest.raises(DataError, match="1 of 2"):
        opened(inputs, np.arange(12), calibration=2)
