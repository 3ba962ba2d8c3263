"""Data that changes between two passes is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import DataError
from tests.unit.data.samples import all_inputs, numbers, streamed


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


def test_calibration_data_of_its_own_is_watched_too() -> None:
    """Its name tells that it is the calibration data."""
    data = streamed(list(numbers(5, seed=1)), Changing(10, lambda samples: samples.reverse()))
    with pytest.raises(DataError, match="quant_data, calibration: sample 0 differs"):
        list(data.calibration(1))


def test_what_stays_the_same_passes_every_time() -> None:
    """Many passes over stable data give the same samples."""
    data = streamed(Changing(10, lambda _: None), 2)
    for _ in range(3):
        np.testing.assert_array_equal(all_inputs(data, 4), numbers(10)[1:9])
        assert sum(len(feeds["x"]) for feeds in data.calibration(4)) == 2
