"""Callbacks of a calibrator, made by a fake builder that swallows what ours raises as the real one does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu.implicit import Ledger, make_calibrator, release
from pytest_quant.errors import BuildError
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
