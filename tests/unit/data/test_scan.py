"""Digests follow contents and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.spec import Signature, TensorInfo
from tests.unit.data.samples import Samples, numbers, opened, streamed

N = 12


def signature(name: str = "x", dtype: str = "float32", shape: tuple[int | None, ...] = (None, None)) -> Signature:
    """One input."""
    return Signature((TensorInfo(name, dtype, shape),), ())


@given(index=st.integers(0, N - 1), column=st.integers(0, 2), calibration=st.sampled_from([None, 3]))
def test_any_changed_number_changes_one_digest(index: int, column: int, calibration: int | None) -> None:
    """The digest of the set that holds the sample changes, and only that one."""
    before = opened(numbers(N), calibration=calibration)
    changed = numbers(N)
    changed[index, column] = np.nextafter(changed[index, column], np.float32(np.inf))
    after = opened(changed, calibration=calibration)
    is_calibration = index in before.calibration_indices
    assert (before.digest != after.digest) == (not is_calibration)
    assert (before.calibration_digest != after.calibration_digest) == is_calibration


@given(index=st.integers(0, N - 1))
def test_any_changed_label_changes_the_evaluation_digest(index: int) -> None:
    """Labels belong to the evaluation, and not to the calibration."""
    labels = np.arange(N)
    before = opened(numbers(N), labels, 3)
    labels[index] += 1
    after = opened(numbers(N), labels, 3)
    assert before.calibration_digest == after.calibration_digest
    assert (before.digest != after.digest) == (index not in before.calibration_indices)


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


def test_which_input_holds_what_counts() -> None:
    """Two inputs that change places are other data."""
    two = Signature((TensorInfo("a", "float32", (None, 3)), TensorInfo("b", "float32", (None, 3))), ())
    left, right = numbers(4), numbers(4, seed=1)
    assert (
        opened({"a": left, "b": right}, signature=two).digest != opened({"a": right, "b": left}, signature=two).digest
    )


def test_memory_layout_does_not_count() -> None:
    """Equal numbers in another order of memory are equal data."""
    values: NDArray[np.float32] = numbers(6)
    assert opened(values).digest == opened(np.asfortranarray(values)).digest
    assert opened(values).digest == opened(np.repeat(values, 2, axis=0)[::2]).digest


def test_the_width_of_labels_does_not_count() -> None:
    """Equal labels in a smaller type are equal data."""
    labels = np.arange(5)
    assert opened(numbers(5), labels.astype(np.uint8)).digest == opened(numbers(5), labels).digest


def test_the_form_does_not_count() -> None:
    """Arrays and an iterable of the same samples share what was computed from them."""
    assert opened(Samples(20).values, np.arange(20) % 10).digest == streamed(Samples(20)).digest
    assert opened(Samples(20).values).digest == streamed(list(Samples(20).values)).digest


def test_large_data_is_read_in_pieces_with_the_same_result() -> None:
    """A set of several blocks has the digest of the same samples one by one."""
    values = np.random.default_rng(0).standard_normal((5, 300_000)).astype(np.float32)
    assert opened(values, signature=signature()).digest == streamed(list(values), signature=signature()).digest
