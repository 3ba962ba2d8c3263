"""Calibration batches on their way into another process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu.implicit import read_samples, write_samples
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature, TensorInfo

SIGNATURE = Signature(
    (TensorInfo("images/0:x", "float32", (None, 3)), TensorInfo("ids", "int64", (None,))),
    (TensorInfo("y", "float32", (None, 3)),),
)


@given(st.lists(hnp.arrays(np.float32, (2, 3)), min_size=1, max_size=12))
def test_batches_come_back_bit_for_bit_and_in_order(arrays: list[np.ndarray]) -> None:
    """Under the names of the inputs, which may be no names for files."""
    sent: list[Feeds] = [{"images/0:x": array, "ids": np.full(2, index)} for index, array in enumerate(arrays)]
    with TemporaryDirectory() as folder:
        write_samples(sent, Path(folder), SIGNATURE, "m")
        found = list(read_samples(Path(folder)))
    assert len(found) == len(sent)
    for one, other in zip(found, sent, strict=True):
        assert one.keys() == other.keys()
        assert all(one[name].tobytes() == other[name].tobytes() for name in one)
        assert all(one[name].dtype == other[name].dtype for name in one)


def test_a_smaller_last_batch_is_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    """A calibrator tells its batch size once, and dropping samples would be silent."""
    batches: list[Feeds] = [
        {"images/0:x": np.zeros((n, 3), np.float32), "ids": np.zeros(n, np.int64)} for n in (4, 4, 1)
    ]
    with pytest.raises(DataError, match="batch 2 of m has another") as caught:
        write_samples(batches, tmp_path, SIGNATURE, "m")
    assert "batch_size=1" in str(caught.value)


def test_no_batch_is_an_error(tmp_path: Path) -> None:
    """Nothing is calibrated on nothing."""
    with pytest.raises(DataError, match="no batch"):
        write_samples([], tmp_path, SIGNATURE, "m")


def test_a_batch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """Before TensorRT reads past its end."""
    with pytest.raises(DataError, match="wrong dtype"):
        write_samples([{"images/0:x": np.zeros((2, 3)), "ids": np.zeros(2, np.int64)}], tmp_path, SIGNATURE, "m")
