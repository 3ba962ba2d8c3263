"""Callbacks of a calibrator, made by a fake builder that swallows what ours raises as the real one does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu.implicit import Ledger, make_calibrator, read_samples, release, write_samples
from pytest_quant.errors import BuildError, DataError
from pytest_quant.spec import Signature, TensorInfo
from tests.support.fake_tensorrt import HostMemory, drive, make

METHODS = ("entropy", "minmax")


def batches(count: int) -> Iterator[Feeds]:
    """Doubles in Fortran's order, which TensorRT would misread as they are, beside whole numbers."""
    for index in range(count):
        values = np.random.default_rng(index).normal(size=(2, 3))
        yield {"x": np.asfortranarray(values), "ids": np.arange(2, dtype=np.int64) + index}


def calibrate(
    feeds: Iterator[Feeds], method: str = "entropy", cache: bytes | None = None
) -> tuple[Ledger, list[tuple[int, NDArray[Any]]], HostMemory]:
    """Run one calibration and return its ledger, what lay on the device, and the device."""
    device = HostMemory()
    seen: list[tuple[int, NDArray[Any]]] = []

    def read(name: str, address: int) -> None:
        if name == "x":
            array = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (2, 3))
            seen.append((address, array.copy()))

    with device.current():
        calibrator, ledger = make_calibrator(make(device), method, feeds, device, 2, cache)
        assert calibrator.get_batch_size() == 2
        drive(calibrator, ["ids", "x"], read)
    return ledger, seen, device


@pytest.mark.parametrize("method", METHODS)
def test_fake_builder_reads_every_batch_as_float32_rows(method: str) -> None:
    """What lies on the device is each batch once, in C order and float32, in the order of the names asked for."""
    ledger, seen, _ = calibrate(batches(5), method)
    assert ledger.batches == 5
    for (_, found), wanted in zip(seen, batches(5), strict=True):
        np.testing.assert_array_equal(found, wanted["x"].astype(np.float32))


def test_fake_builder_finds_one_buffer_for_each_input_and_none_is_left() -> None:
    """Two inputs need two blocks, however many batches there are."""
    ledger, seen, device = calibrate(batches(4))
    assert len({address for address, _ in seen}) == 1
    assert device.cuda.held()["blocks"] == 2
    with device.current():
        release(ledger, device)
    assert device.cuda.held() == {}


def test_fake_builder_hands_ranges_over_as_bytes() -> None:
    """What TensorRT gives is a view into its own memory, gone after the callback."""
    ledger, _, _ = calibrate(batches(1))
    assert ledger.settle() == b"TRT-101300-EntropyCalibration2\nx: 3c010a14\n"
    assert type(ledger.cache) is bytes


def test_fake_builder_with_known_ranges_reads_no_batch() -> None:
    """That is no error then, and the ranges are those given."""
    known = b"TRT-101300-EntropyCalibration2\nx: 3c000000\n"
    ledger, _, _ = calibrate(batches(3), cache=known)
    assert (ledger.batches, ledger.settle()) == (0, known)


@pytest.mark.parametrize("header", [b"TRT-8203-EntropyCalibration2", b"TRT-101300-MinMaxCalibration", b""])
def test_fake_builder_that_passes_over_the_ranges_is_an_error(header: bytes) -> None:
    """Of another version or method it takes none and says so in its log only; it would go on with ranges of its own."""
    ledger, _, _ = calibrate(iter(()), cache=header + b"\nx: 3c000000\n")
    with pytest.raises(BuildError, match="does not take the ranges") as caught:
        ledger.settle()
    assert repr(header.decode()) in str(caught.value)


def test_fake_builder_swallows_an_exception_and_we_raise_it() -> None:
    """Else the engine would have the ranges of the batches before it."""

    def broken() -> Iterator[Feeds]:
        yield from batches(2)
        raise ValueError("the third image is truncated")

    ledger, _, _ = calibrate(broken())
    assert ledger.batches == 2
    with pytest.raises(ValueError, match="third image is truncated"):
        ledger.settle()


def test_fake_builder_without_a_batch_is_an_error() -> None:
    """TensorRT builds on with ranges of its own."""
    ledger, _, _ = calibrate(iter(()))
    with pytest.raises(BuildError, match="no batch was read"):
        ledger.settle()


def test_fake_builder_that_never_asks_is_an_error() -> None:
    """A network with no layer for INT8 does that."""
    with pytest.raises(BuildError, match="no batch was read"):
        Ledger(stream=0).settle()


def test_fake_builder_that_writes_no_ranges_is_an_error() -> None:
    """There would be nothing to keep under the key."""
    with pytest.raises(BuildError, match="wrote no ranges"):
        Ledger(stream=0, batches=4).settle()


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
