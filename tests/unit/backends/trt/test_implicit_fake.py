"""Callbacks of a calibrator, made by a fake builder that swallows what ours raises as the real one does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.implicit import (
    calibrating,
    make_calibrator,
    read_samples,
    release,
    settle,
    write_samples,
)
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
    feeds: Iterator[Feeds], method: str = "entropy", known: bytes | None = None
) -> tuple[Any, list[tuple[int, NDArray[Any]]], HostMemory]:
    """Run one calibration and return the calibrator, what lay on the device, and the device."""
    device = HostMemory()
    seen: list[tuple[int, NDArray[Any]]] = []

    def read(name: str, address: int) -> None:
        if name == "x":
            array = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (2, 3))
            seen.append((address, array.copy()))

    with device.current():
        calibrator = make_calibrator(make(device), method, feeds, device, 2, known)
        assert calibrator.get_batch_size() == 2
        drive(calibrator, ["ids", "x"], read)
    return calibrator, seen, device


@pytest.mark.parametrize("method", METHODS)
def test_fake_builder_reads_every_batch_as_float32_rows(method: str) -> None:
    """In C order and float32, in the order of the names asked for, from one buffer for each input; none is left."""
    calibrator, seen, device = calibrate(batches(5), method)
    assert calibrator.batches == 5
    for (_, array), wanted in zip(seen, batches(5), strict=True):
        np.testing.assert_array_equal(array, wanted["x"].astype(np.float32))
    assert len({address for address, _ in seen}) == 1
    assert device.cuda.held()["blocks"] == 2
    with device.current():
        release(calibrator, device)
    assert device.cuda.held() == {}


def test_fake_builder_hands_ranges_over_as_bytes() -> None:
    """What TensorRT gives is a view into its own memory, gone after the callback."""
    ranges = settle(calibrate(batches(1))[0])
    assert ranges == b"TRT-101300-EntropyCalibration2\nx: 3c010a14\n"
    assert type(ranges) is bytes


def test_fake_builder_with_known_ranges_reads_no_batch() -> None:
    """That is no error then, and the ranges are those given."""
    known = b"TRT-101300-EntropyCalibration2\nx: 3c000000\n"
    calibrator, _, _ = calibrate(batches(3), known=known)
    assert (calibrator.batches, settle(calibrator)) == (0, known)


@pytest.mark.parametrize("header", [b"TRT-8203-EntropyCalibration2", b"TRT-101300-MinMaxCalibration", b""])
def test_fake_builder_that_passes_over_the_ranges_is_an_error(header: bytes) -> None:
    """Of another version or method it takes none and says so in its log only; it would go on with ranges of its own."""
    calibrator, _, _ = calibrate(iter(()), known=header + b"\nx: 3c000000\n")
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
    monkeypatch.setattr("pytest_quant.backends.trt.implicit.open_device", lambda: device)
    for index in range(3):
        np.savez(tmp_path / f"{index}.npz", names=np.array(["x"]), input0=np.full((2, 5), index, np.float32))
    ranges = tmp_path / "ranges"
    config: Any = SimpleNamespace(profiles=[])
    config.set_calibration_profile = config.profiles.append
    with calibrating(make(device), config, "minmax", str(tmp_path), str(ranges), lambda shapes: shapes):
        drive(config.int8_calibrator, ["x"], lambda *_: None)
    assert config.profiles == [{"x": (2, 5)}]
    assert ranges.read_bytes().startswith(b"TRT-10")
    assert device.cuda.held() == {}
    again: Any = SimpleNamespace()
    with calibrating(make(device), again, "minmax", "", str(ranges), lambda shapes: shapes):
        drive(again.int8_calibrator, ["x"], lambda *_: pytest.fail("a batch was read"))


def test_fake_builder_that_meets_a_broken_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with the samples before it, and we do not."""
    monkeypatch.setattr("pytest_quant.backends.trt.implicit.open_device", HostMemory)
    np.savez(tmp_path / "0.npz", names=np.array(["x"]), input0=np.zeros((1, 5), np.float32))
    (tmp_path / "1.npz").write_bytes(b"PK not a zip")
    ranges = tmp_path / "ranges"
    config: Any = SimpleNamespace(set_calibration_profile=lambda _: None)
    with (
        pytest.raises(BuildError, match="failed after 1 batches: "),
        calibrating(make(HostMemory()), config, "entropy", str(tmp_path), str(ranges), lambda shapes: shapes),
    ):
        drive(config.int8_calibrator, ["x"], lambda *_: None)
    assert not ranges.exists()


def test_version_11_has_no_calibrator() -> None:
    """By the name of the class that is missing."""
    config: Any = SimpleNamespace()
    with (
        pytest.raises(BuildError, match="has no IInt8EntropyCalibrator2"),
        calibrating(make(HostMemory(), 11), config, "entropy", "samples", "", lambda shapes: shapes),
    ):
        pytest.fail("the build began")


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
