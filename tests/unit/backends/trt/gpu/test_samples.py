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
from pytest_quant.backends.trt.gpu.samples import read_samples, write_samples
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
        write_samples(sent, Path(folder), SIGNATURE, "m", {})
        found = list(read_samples(Path(folder)))
    assert len(found) == len(sent)
    for one, other in zip(found, sent, strict=True):
        assert one.keys() == other.keys()
        assert all(one[name].tobytes() == other[name].tobytes() for name in one)
        assert all(one[name].dtype == other[name].dtype for name in one)


@pytest.mark.parametrize(
    ("sizes", "wanted"), [((4, 4, 1), (1,) * 9), ((32, 32, 24), (8,) * 11), ((4, 2, 4), (2,) * 5), ((3, 3), (3, 3))]
)
def test_a_smaller_last_batch_makes_all_of_them_smaller(
    tmp_path: Path, sizes: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    """A calibrator tells its batch size once: as large as divides all of them. No sample is dropped or seen twice."""
    rng = np.random.default_rng(0)
    batches: list[Feeds] = [
        {"images/0:x": rng.normal(size=(n, 3)).astype(np.float32), "ids": rng.integers(0, 9, n)} for n in sizes
    ]
    write_samples(batches, tmp_path, SIGNATURE, "m", {})
    found = list(read_samples(tmp_path))
    assert tuple(len(feeds["ids"]) for feeds in found) == wanted
    for name in ("images/0:x", "ids"):
        whole = np.concatenate([feeds[name] for feeds in batches])
        np.testing.assert_array_equal(np.concatenate([feeds[name] for feeds in found]), whole)


def test_an_input_without_an_axis_of_samples_is_not_cut(tmp_path: Path) -> None:
    """It is the same for a full batch and for a smaller one."""
    signature = Signature((*SIGNATURE.inputs, TensorInfo("scales", "float32", (4,))), SIGNATURE.outputs)
    scales = np.arange(4, dtype=np.float32)
    batches: list[Feeds] = [
        {"images/0:x": np.ones((n, 3), np.float32), "ids": np.arange(n), "scales": scales} for n in (4, 2)
    ]
    write_samples(batches, tmp_path, signature, "m", {"scales": None})
    for feeds in read_samples(tmp_path):
        assert len(feeds["ids"]) == 2
        np.testing.assert_array_equal(feeds["scales"], scales)


def test_samples_are_cut_along_the_axis_that_counts_them(tmp_path: Path) -> None:
    """It need not be the first."""
    signature = Signature((TensorInfo("x", "float32", (2, None)),), SIGNATURE.outputs)
    whole = np.arange(12, dtype=np.float32).reshape(2, 6)
    write_samples([{"x": whole[:, :4]}, {"x": whole[:, 4:]}], tmp_path, signature, "m", {"x": 1})
    found = [feeds["x"] for feeds in read_samples(tmp_path)]
    assert [array.shape for array in found] == [(2, 2)] * 3
    np.testing.assert_array_equal(np.concatenate(found, axis=1), whole)


def test_samples_of_another_size_are_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    """There is one shape for all that a calibrator reads."""
    signature = Signature((TensorInfo("x", "float32", (None, None)),), SIGNATURE.outputs)
    batches: list[Feeds] = [{"x": np.zeros((2, width), np.float32)} for width in (3, 3, 5)]
    with pytest.raises(DataError, match="batch 2 of m has another") as caught:
        write_samples(batches, tmp_path, signature, "m", {"scales": None})
    assert "pad or crop" in str(caught.value)


def test_no_batch_is_an_error(tmp_path: Path) -> None:
    """Nothing is calibrated on nothing."""
    with pytest.raises(DataError, match="no batch"):
        write_samples([], tmp_path, SIGNATURE, "m", {})


def test_a_batch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """Before TensorRT reads past its end."""
    with pytest.raises(DataError, match="wrong dtype"):
        write_samples([{"images/0:x": np.zeros((2, 3)), "ids": np.zeros(2, np.int64)}], tmp_path, SIGNATURE, "m", {})
