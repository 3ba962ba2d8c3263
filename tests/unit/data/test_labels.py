"""What kind of labels there are, and in which range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import DataError
from tests.unit.data.samples import Samples, numbers, opened, streamed


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        (3, "int"), (True, "int"), (np.int32(3), "int"), (np.uint8(3), "int"), (np.array(3), "int"),
        (np.bool_(True), "int"), (0.5, "float"), (np.float32(0.5), "float"), (np.array(0.5), "float"),
        ([1, 0, 1], "int"), (np.array([0.1, 0.9]), "float"), (None, "none"),
    ],
)  # fmt: skip
def test_the_kind_of_a_label(label: Any, kind: str) -> None:
    """Whatever holds a whole number is an int, bools too; a vector has the kind of its numbers."""
    data = streamed([(row, label) for row in numbers(4)])
    assert data.labels == kind
    (batch,) = data.batches(4)
    if kind == "none":
        assert (batch.labels, data.label_range) == (None, None)
    else:
        assert batch.labels is not None
        assert batch.labels.shape == (4, *np.shape(label))
        assert batch.labels.dtype == (np.int64 if kind == "int" else np.float64)
        np.testing.assert_array_equal(batch.labels[0], label)


@given(labels=st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=20))
def test_the_range_holds_all_labels(labels: list[int]) -> None:
    """Smallest and largest, in both forms."""
    inputs = numbers(len(labels))
    expected = (min(labels), max(labels))
    assert opened(inputs, labels).label_range == expected
    assert streamed(list(zip(inputs, labels, strict=True))).label_range == expected


@given(dtype=st.sampled_from(["u1", "i1", "i4", "?", "f4", "f2"]), n=st.integers(1, 30))
def test_labels_come_as_int64_or_float64(dtype: str, n: int) -> None:
    """Small types would overflow in arithmetic; values stay as they are."""
    labels = (np.arange(n) % 2).astype(dtype)
    for batch in opened(numbers(n), labels).batches(7):
        assert batch.labels is not None
        assert batch.labels.dtype in (np.int64, np.float64)
        np.testing.assert_array_equal(batch.labels, labels[batch.start : batch.start + batch.n])


def test_ints_and_floats_together_are_floats_in_every_batch() -> None:
    """Batches do not differ in dtype."""
    data = streamed(list(zip(numbers(4), [1, 2, 0.5, 3], strict=True)))
    assert data.labels == "float"
    assert [str(batch.labels.dtype) for batch in data.batches(1) if batch.labels is not None] == ["float64"] * 4


def test_some_labels_only_is_an_error() -> None:
    """The first sample that is different is named."""
    samples: list[Any] = list(Samples(5))
    samples[3] = (samples[3][0], None)
    with pytest.raises(DataError, match="some have none") as raised:
        streamed(samples)
    assert "sample 3" in str(raised.value)
    samples = [row for row, _ in Samples(5)]
    samples[2] = (samples[2], 1)
    with pytest.raises(DataError, match="some have none"):
        streamed(samples)


@pytest.mark.parametrize("label", [float("nan"), float("inf")])
def test_labels_are_finite(label: float) -> None:
    """NaN as a label would make every metric NaN."""
    with pytest.raises(DataError, match="NaN"):
        opened(numbers(2), [1.0, label])


def test_labels_need_the_length_of_the_inputs() -> None:
    """Both lengths are told."""
    with pytest.raises(DataError, match="number of samples") as raised:
        opened(numbers(5), [1, 2, 3])
    assert "input 'x': 5, labels: 3" in str(raised.value)
