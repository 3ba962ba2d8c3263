"""Implicit INT8 of TensorRT 10 around one build: its calibrator is set before, and its ranges are kept after.

TensorRT prints an exception inside a callback and goes on with the samples it had, so it is kept here and raised
after the build; and a build whose calibrator gave no batch has invented its ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds, fitting_batches
from pytest_quant.backends.cuda import Blocks, DeviceMemory, block_of, free_blocks
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.errors import BuildError, DataError, QuantError
from pytest_quant.spec import Signature

if TYPE_CHECKING:
    import tensorrt


ALGORITHMS = {"entropy": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
"""Calibration method and TensorRT's class for it."""


def make_calibrator(
    trt: Any, method: str, batches: Iterator[Feeds], device: DeviceMemory, batch_size: int, earlier: bytes | None = None
) -> Any:
    """Return a calibrator; keep a reference to it until the build has ended, and then `settle` it.

    Parameters
    ----------
    trt : the module ``tensorrt``, version 10.
    method : a key of `ALGORITHMS`.
    batches : the batches that TensorRT asks for one by one.
    device : copies them; its primary context must be current.
    batch_size : samples in every batch.
    earlier : ranges of an earlier calibration, which TensorRT may read; then no batch is read.
    """
    base: Any = getattr(trt, ALGORITHMS[method])

    class Calibrator(base):  # type: ignore[misc]
        """Gives each batch as one address for each input, and keeps what happened: nobody else hears of it."""

        def __init__(self) -> None:
            # Without this call of the binding's own constructor the first callback crashes the process.
            base.__init__(self)
            self.stream = device.new_stream()
            self.earlier = earlier
            self.batches = 0
            self.has_read_earlier = self.was_asked = False
            self.ranges: bytes | None = None
            self.error: BaseException | None = None
            self.blocks: Blocks = {}

        def get_batch_size(self) -> int:
            return batch_size

        def get_batch(self, names: list[str]) -> list[int] | None:
            self.was_asked = True
            try:
                feeds = next(batches, None)
                if feeds is None:
                    return None
                addresses = [_copied(device, self, name, feeds[name]) for name in names]
                device.wait(self.stream)
            except BaseException as error:
                self.error = self.error or error
                return None
            self.batches += 1
            return addresses

        def read_calibration_cache(self) -> bytes | None:
            self.has_read_earlier = earlier is not None
            self.ranges = earlier
            return earlier

        def write_calibration_cache(self, ranges: Any) -> None:
            # A view into memory of TensorRT's own, gone after this call.
            self.ranges = bytes(ranges)

    return Calibrator()


def settle(calibrator: Any) -> bytes:
    """Return the ranges, after the build.

    Raises
    ------
    BuildError : no batch was read and no ranges were reused; or TensorRT passed over those that it was given, or
        wrote none.
    Exception : whatever a callback raised.
    """
    if calibrator.error is not None:
        raise calibrator.error
    if calibrator.has_read_earlier and calibrator.was_asked:
        head = calibrator.earlier[:64].partition(b"\n")[0]
        raise BuildError(
            "TensorRT does not take the ranges that were calibrated before, and would build with ranges of its own",
            value=f"they begin with {head.decode(errors='replace')!r}",
            allowed="those of this version and method",
            fix="pytest-quant cache clear --kind calibration, and the next run calibrates anew",
        )
    if not calibrator.batches and not calibrator.has_read_earlier:
        raise BuildError(
            "no batch was read: TensorRT asked its calibrator for none, and would build with ranges of its own",
            fix="check that the model has float layers that INT8 can replace; the build log lies beside the engine",
        )
    if calibrator.ranges is None:
        raise BuildError("TensorRT calibrated and wrote no ranges", value=f"{calibrator.batches} batches read")
    return bytes(calibrator.ranges)


def release(calibrator: Any, device: DeviceMemory) -> None:
    """Give back the device memory that the batches lay in, and the stream that brought them."""
    free_blocks(calibrator.blocks, device)
    device.end_stream(calibrator.stream)


def _copied(device: DeviceMemory, calibrator: Any, name: str, array: NDArray[Any]) -> int:
    """Copy one input to its own buffer, which the next batch uses again; TensorRT reads floats as float32."""
    flat = np.ascontiguousarray(array, dtype=np.float32 if array.dtype.kind == "f" else array.dtype)
    address = block_of(name, flat.nbytes, calibrator.blocks, device)
    device.copy_in(address, flat, calibrator.stream)
    return address


@contextmanager
def calibrating(
    trt: Any,
    config: tensorrt.IBuilderConfig,
    method: str,
    samples: Sequence[Feeds],
    ranges: str,
    profile_for: Callable[[dict[str, tuple[int, ...]]], tensorrt.IOptimizationProfile],
) -> Iterator[None]:
    """Give `config` a calibrator inside the block, and keep its ranges at the end; do nothing without a `method`.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    config : of the builder; it gets the calibrator and the profile to calibrate with.
    method : a key of `ALGORITHMS`, or empty.
    samples : batches of one size to calibrate on.
    ranges : a file, which is read where there are no samples, and else written.
    profile_for : a profile for inputs of exactly these shapes.

    Raises
    ------
    BuildError : a callback failed, read no batch, or found no ranges; TensorRT itself would go on.
    """
    if not method:
        yield
        return
    earlier = None if samples else Path(ranges).read_bytes()
    if samples:
        config.set_calibration_profile(profile_for({key: np.shape(array) for key, array in samples[0].items()}))
    size = len(next(iter(samples[0].values()))) if samples else 1
    device = open_device()
    with device.current():
        calibrator = make_calibrator(trt, method, iter(samples), device, size, earlier)
        config.int8_calibrator = calibrator
        try:
            yield
        finally:
            release(calibrator, device)
    try:
        new_ranges = settle(calibrator)
    except QuantError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise BuildError(f"the calibrator failed after {calibrator.batches} batches: {said}") from error
    if earlier is None:
        Path(ranges).write_bytes(new_ranges)


def samples_of(
    batches: Iterable[Feeds], signature: Signature, model: str, axes: Mapping[str, int | None]
) -> tuple[Feeds, ...]:
    """Return the samples of all batches, in order, in batches of one size, as a calibrator of TensorRT reads them.

    Where the last batch is smaller, all are cut to the size that divides them: what a calibrator finds over the same
    samples does not depend on how many it reads at once.

    Parameters
    ----------
    batches : calibration batches.
    signature : the inputs that the model takes.
    model : name of the model, for errors.
    axes : of each input the axis that counts samples, ``None`` for one that has none; the first where it is not named.

    Raises
    ------
    DataError : there is none, one does not fit the model, or samples have another shape than those of the first.
    """
    whole = [(feeds, _samples_in(feeds, axes)) for feeds in fitting_batches(batches, signature, model)]
    size = gcd(*(count for _, count in whole))
    parts = tuple(
        {name: _samples_from(array, axes.get(name, 0), start, size) for name, array in feeds.items()}
        for feeds, count in whole
        for start in range(0, count, size)
    )
    first, *others = ({name: np.shape(array) for name, array in part.items()} for part in parts)
    for shapes in others:
        if shapes != first:
            raise DataError(
                f"TensorRT's calibrators take samples of one shape, and one of {model} has another",
                value=str(shapes),
                allowed=str(first),
                fix="pad or crop samples that differ in size",
            )
    return parts


def _samples_in(feeds: Feeds, axes: Mapping[str, int | None]) -> int:
    """Return how many samples a batch has, 1 where no input counts them."""
    counted = ((axes.get(name, 0), np.shape(array)) for name, array in feeds.items())
    return next((shape[axis] for axis, shape in counted if axis is not None and axis < len(shape)), 1)


def _samples_from(array: NDArray[Any], axis: int | None, start: int, size: int) -> NDArray[Any]:
    if axis is None or axis >= array.ndim:
        return array
    return np.take(array, range(start, start + size), axis)
