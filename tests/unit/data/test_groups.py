"""Groups stay with their samples, whatever is taken out of the set; what is no group is a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data import Data, open_data
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset
from tests.unit.data.samples import ONE, numbers


def opened(groups: Any, n: int, calibration: int | None = None) -> Data:
    """Return `n` samples whose label is their index."""
    return open_data(Dataset.from_arrays(numbers(n), np.arange(n), calibration, groups=groups), ONE)


def labels(data: Data) -> list[int]:
    """Return the labels of the evaluation set in order."""
    return [int(label) for batch in data.batches(7) if batch.labels is not None for label in batch.labels]


@given(n=st.integers(3, 40), calibration=st.integers(1, 2), fewer=st.integers(1, 40))
def test_a_group_stays_with_its_sample(n: int, calibration: int, fewer: int) -> None:
    """Calibration takes samples away with their groups, and so does a smaller set for trials."""
    data = opened([f"g{index}" for index in range(n)], n, calibration)
    for part in (data, data.some(fewer)):
        assert part.groups is not None
        assert part.groups.tolist() == [f"g{label}" for label in labels(part)]
        assert len(part.groups) == part.n


@pytest.mark.parametrize(
    "groups",
    [["1", "2", "1"], [1, 2, 1], (1, np.int64(2), 1), np.array([1, 2, 1], np.int32), np.array(["1", "2", "1"])],
)
def test_texts_and_integers_name_groups(groups: Any) -> None:
    """In any form that holds one for each sample."""
    data = opened(groups, 3)
    assert data.groups is not None
    assert data.groups.tolist() == ["1", "2", "1"]


def test_without_groups_there_are_none() -> None:
    """And they are no part of what the data is."""
    assert opened(None, 3).groups is None
    assert opened(None, 3).digest == opened([1, 2, 3], 3).digest


@pytest.mark.parametrize(
    ("groups", "value"),
    [
        (["a", "b"], "2 for 3 samples"),
        ([], "0 for 3 samples"),
        ("day", "0 for 3 samples"),
        (7, "0 for 3 samples"),
        (["a", None, "b"], "None for sample 1"),
        (["a", "b", float("nan")], "nan for sample 2"),
        (np.array([0.0, 1.0, 2.0]), "0.0 for sample 0"),
        (["a", "", "b"], "'' for sample 1"),
        (np.zeros((3, 2), int), "[0, 0] for sample 0"),
    ],
)
def test_what_is_no_group_is_refused(groups: Any, value: str) -> None:
    """The message names the first sample without one, or the two numbers."""
    with pytest.raises(DataError, match="one group for each sample") as caught:
        opened(groups, 3)
    assert caught.value.value == value
