"""Callbacks of a calibrator, made by a fake builder that swallows what ours raises as the real one does."""

from __future__ import annotations

import ctypes
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.cuda import free_blocks
from pytest_quant.backends.trt.implicit import (
    make_calibrator,
    set_calibrator,
    settle,
    write_samples,
)
from pytest_quant.errors import BuildError, DataError
from pytest_quant.spec import Signature, TensorInfo
from tests.support.fake_tensorrt import HostMemory, drive, make


def batches(count: int) -> Iterator[Feeds]:
    """Doubles in Fortran's order, which TensorRT would misread as they are, beside whole numbers."""
    for index in range(count):
        values = np.random.default_rng(index).normal(size=(2, 3))
        yield {"x": np.asfortranarray(values), "ids": np.arange(2, dtype=np.int64) + index}


def calibrate(
    feeds: Iterator[Feeds], method: str = "entropy", ranges: bytes | None = None
) -> tuple[Any, list[tuple[int, NDArray[Any]]], HostMemory]:
    """Run one calibration and return the calibrator, what lay on the device, and the device."""
    device = HostMemory()
    seen: list[tuple[int, NDArray[Any]]] = []

    def read(name: str, address: int) -> None:
        if name == "x":
            array = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (2, 3))
            seen.append((address, array.copy()))

    with device.current():
        calibrator = make_calibrator(make(device), method, feeds, device, 2, ranges)
        assert calibrator.get_batch_size() == 2
        drive(calibrator, ["ids", "x"], read)
    return calibrator, seen, device


def test_fake_builder_reads_every_batch_as_float32_rows() -> None:
    """In C order and float32, in the order of the names asked for, from one buffer for each input; none is left."""
    calibrator, seen, device = calibrate(batches(5), "minmax")
    assert calibrator.batches == 5
    for (_, array), wanted in zip(seen, batches(5), strict=True):
        np.testing.assert_array_equal(array, wanted["x"].astype(np.float32))
    assert len({address for address, _ in seen}) == 1
    assert device.cuda.held()["blocks"] == 2
    with device.current():
        free_blocks(calibrator.blocks, device)
        device.end_stream(calibrator.stream)
    assert device.cuda.held() == {}


def test_fake_builder_with_known_ranges_reads_no_batch() -> None:
    """That is no error then, and the ranges are those given."""
    ranges = settle(calibrate(batches(1))[0])
    assert ranges == b"TRT-101300-EntropyCalibration2\nx: 3c010a14\n"
    calibrator, _, _ = calibrate(batches(3), ranges=ranges)
    assert (calibrator.batches, settle(calibrator)) == (0, ranges)


@pytest.mark.parametrize("header", [b"TRT-8203-EntropyCalibration2", b"TRT-101300-MinMaxCalibration", b""])
def test_fake_builder_that_passes_over_the_ranges_is_an_error(header: bytes) -> None:
    """Of another version or method it takes none and says so in its log only; it would go on with ranges of its own."""
    calibrator, _, _ = calibrate(iter(()), ranges=header + b"\nx: 3c000000\n")
    with pytest.raises(BuildError, match="does not take the ranges") as caught:
        settle(calibrator)
    assert repr(header.decode()) in str(caught.value)


def test_fake_builder_swallows_an_exception_and_we_raise_it() -> None:
    """Else the engine would have the ranges of the batches before it."""

    def broken() -> Iterator[Feeds]:
        yield from batches(2)
        raise ValueError("the third image is truncated")

    calibrator, _, _ = calibrate(broken())
    assert calibrator.batches == 2
    with pytest.raises(ValueError, match="third image is truncated"):
        settle(calibrator)


def test_fake_builder_that_found_nothing_is_an_error() -> None:
    """No batch was read, for there is none or TensorRT asked for none; or it wrote no ranges to keep under the key."""
    calibrator, _, _ = calibrate(iter(()))
    with pytest.raises(BuildError, match="no batch was read"):
        settle(calibrator)
    calibrator, _, _ = calibrate(batches(4))
    calibrator.ranges = None
    with pytest.raises(BuildError, match="wrote no ranges"):
        settle(calibrator)


def test_fake_builder_calibrates_and_the_ranges_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First with batches and a profile of their shape, then from the ranges alone."""
    device = HostMemory()
    asked: list[dict[str, str]] = []

    def open_device(**wanted: str) -> HostMemory:
        asked.append(wanted)
        return device

    monkeypatch.setattr("pytest_quant.backends.trt.implicit.open_device", open_device)
    # A scalar comes first, which has no samples to count; those of x lie along its second axis.
    batches: list[Feeds] = [{"gain": np.float32(2) * np.ones(()), "x": np.full((5, 2), index)} for index in range(3)]
    inputs = (TensorInfo("gain", "float64", ()), TensorInfo("x", "int64", (5, None)))
    axes = {"gain": None, "x": 1}
    samples = write_samples(batches, Signature(inputs, SIGNATURE.outputs), "m", axes, tmp_path / "samples")
    ranges = tmp_path / "ranges"
    config: Any = SimpleNamespace(profiles=[])
    config.set_calibration_profile = config.profiles.append
    with set_calibrator(make(device), config, "minmax", samples, str(ranges), lambda ranges: ranges, "pycuda"):
        assert config.int8_calibrator.get_batch_size() == 2
        drive(config.int8_calibrator, ["gain", "x"], lambda *_: None)
        assert config.int8_calibrator.batches == 3
    assert config.profiles == [{"gain": ((),) * 3, "x": ((5, 2),) * 3}]
    assert asked == [{"library": "pycuda"}]
    assert ranges.read_bytes().startswith(b"TRT-10")
    assert device.cuda.held() == {}
    again: Any = SimpleNamespace()
    with set_calibrator(make(device), again, "minmax", None, str(ranges), lambda ranges: ranges):
        drive(again.int8_calibrator, ["x"], lambda *_: pytest.fail("a batch was read"))


SIGNATURE = Signature(
    (
        TensorInfo("x", "float32", (3, None)),
        TensorInfo("ids", "int64", (None,)),
        TensorInfo("scales", "float32", (4,)),
    ),
    (TensorInfo("y", "float32", (None, 3)),),
)
AXES: dict[str, int | None] = {"x": 1, "scales": None}
SCALES = np.arange(4, dtype=np.float32)
REST: Feeds = {"ids": np.zeros(4096, np.int64), "scales": SCALES}


@pytest.mark.parametrize(
    ("sizes", "wanted"), [((4, 4, 1), (1,) * 9), ((32, 32, 24), (8,) * 11), ((4, 2, 4), (2,) * 5), ((3, 3), (3, 3))]
)
def test_a_smaller_last_batch_makes_all_of_them_smaller(
    tmp_path: Path, sizes: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    """A calibrator tells its batch size once: as large as divides all of them. No sample is dropped or seen twice.

    They are cut along the axis that counts samples, which need not be the first; an input without one stays whole.
    """
    rng = np.random.default_rng(0)
    batches: list[Feeds] = [
        {"x": rng.normal(size=(3, n)).astype(np.float32), "ids": rng.integers(0, 9, n), "scales": SCALES} for n in sizes
    ]
    samples = list(write_samples(batches, SIGNATURE, "m", AXES, tmp_path / "samples").read())
    assert tuple(len(feeds["ids"]) for feeds in samples) == wanted
    for name, axis in (("x", 1), ("ids", 0)):
        whole = np.concatenate([feeds[name] for feeds in batches], axis)
        np.testing.assert_array_equal(np.concatenate([feeds[name] for feeds in samples], axis), whole)
    assert all(np.array_equal(feeds["scales"], SCALES) for feeds in samples)


def test_calibration_samples_are_held_once(tmp_path: Path) -> None:
    """One batch at a time, by the process that writes them and by the one that builds: 32 of them take as much as 2."""
    peaks = []
    for count in (2, 32):
        tracemalloc.start()
        batches = ({"x": np.full((3, 4096), index, np.float32), **REST} for index in range(count))
        samples = write_samples(batches, SIGNATURE, "m", AXES, tmp_path / str(count))
        assert sum(feeds["x"].shape[1] for feeds in samples.read()) == 4096 * count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_samples_that_no_calibrator_takes_are_an_error(tmp_path: Path) -> None:
    """There is one shape for all that it reads; nothing is calibrated on nothing, and none reads past an end."""
    free = Signature((TensorInfo("x", "float32", (None, None)),), SIGNATURE.outputs)
    for shapes, kind, said in (
        ([(2, 3), (2, 3), (2, 5)], np.float32, "one of m has another(.|\\n)*pad or crop"),
        ([], np.float32, "no batch"),
        ([(2, 3)], np.float64, "wrong dtype"),
    ):
        with pytest.raises(DataError, match=said):
            write_samples([{"x": np.zeros(shape, kind)} for shape in shapes], free, "m", {}, tmp_path / "samples")
