"""Implicit INT8 of TensorRT 10 around one build: its calibrator is set before, and its ranges are kept after.

TensorRT prints an exception inside a callback and goes on with the samples it had, so it is kept here and raised
after the build; and a build whose calibrator gave no batch has invented its ranges.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.cuda import Blocks, DeviceMemory, block_of, free_blocks
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.feeds import Feeds, check_batches
from pytest_quant.backends.runtime import replace_errors
from pytest_quant.backends.trt.options import Range
from pytest_quant.errors import BuildError, DataError
from pytest_quant.spec import Signature

if TYPE_CHECKING:
    import tensorrt


ALGORITHMS = {"entropy": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
"""Calibration method and TensorRT's class for it."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Calibration samples in a file, which are read in batches of one size, as a calibrator of TensorRT takes them.

    Where the last batch was smaller, all are cut to the size that divides them: what a calibrator finds over the same
    samples does not depend on how many it reads at once.

    Attributes
    ----------
    file : the batches as they were written, one pickle after the other.
    axes : of each input that has one, the axis that counts samples.
    size : samples in each batch that is read.
    """

    file: Path
    axes: Mapping[str, int]
    size: int

    def read(self) -> Iterator[Feeds]:
        """Yield all samples in order; only one written batch is in memory."""
        with self.file.open("rb") as stream:
            while stream.peek(1):
                feeds = pickle.load(stream)  # nosec B301 # noqa: S301 - our own file
                for start in range(0, _count(feeds, self.axes), self.size):
                    yield _part(feeds, self.axes, start, self.size)


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
                addresses = [_copy_input(device, self, name, feeds[name]) for name in names]
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
            fix="check that the model has float layers that INT8 can replace, or drop quantization='implicit'",
        )
    if calibrator.ranges is None:
        raise BuildError("TensorRT calibrated and wrote no ranges", value=f"{calibrator.batches} batches read")
    return bytes(calibrator.ranges)


def _copy_input(device: DeviceMemory, calibrator: Any, name: str, array: NDArray[Any]) -> int:
    """Copy one input to its own buffer, which the next batch uses again; TensorRT reads floats as float32."""
    flat = np.ascontiguousarray(array, dtype=np.float32 if array.dtype.kind == "f" else array.dtype)
    address = block_of(name, flat.nbytes, calibrator.blocks, device)
    device.copy_in(address, flat, calibrator.stream)
    return address


@contextmanager
def set_calibrator(
    trt: Any,
    config: tensorrt.IBuilderConfig,
    method: str,
    samples: Samples | None,
    ranges: str,
    profile_for: Callable[[Mapping[str, Range]], tensorrt.IOptimizationProfile],
    memory: str = "",
) -> Iterator[None]:
    """Give `config` a calibrator inside the block, and keep its ranges at the end; do nothing without a `method`.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    config : of the builder; it gets the calibrator and the profile to calibrate with.
    method : a key of `ALGORITHMS`, or empty.
    samples : those to calibrate on, or ``None``.
    ranges : a file, which is read where there are no samples, and else written.
    profile_for : a profile for inputs of exactly these shapes.
    memory : the library for device memory, see `open_device`.

    Raises
    ------
    BuildError : a callback failed, read no batch, or found no ranges; TensorRT itself would go on.
    """
    if not method:
        yield
        return
    earlier = None if samples else Path(ranges).read_bytes()
    batches = samples.read() if samples else iter(())
    for first in islice(batches, 1):
        config.set_calibration_profile(profile_for({name: (shape,) * 3 for name, shape in _shapes(first).items()}))
        batches = chain([first], batches)
    device = open_device(library=memory)
    with device.current():
        calibrator = make_calibrator(trt, method, batches, device, samples.size if samples else 1, earlier)
        config.int8_calibrator = calibrator
        try:
            yield
        finally:
            free_blocks(calibrator.blocks, device)
            device.end_stream(calibrator.stream)

    def failed_callback(error: Exception) -> BuildError:
        said = f"{type(error).__name__}: {error}"
        return BuildError(f"the calibrator failed after {calibrator.batches} batches: {said}")

    with replace_errors(failed_callback):
        new_ranges = settle(calibrator)
    if earlier is None:
        Path(ranges).write_bytes(new_ranges)


def write_samples(
    batches: Iterable[Feeds], signature: Signature, model: str, axes: Mapping[str, int | None], file: Path
) -> Samples:
    """Write all batches into `file`, one at a time, so that none but the latest is held in memory.

    Parameters
    ----------
    batches : calibration batches.
    signature : the inputs that the model takes.
    model : name of the model, for errors.
    axes : of each input the axis that counts samples, ``None`` for one that has none; the first where it is not named.
    file : the new file.

    Raises
    ------
    DataError : there is none, one does not fit the model, or samples have another shape than those of the first.
    """
    size, first, counting = 0, None, dict[str, int]()
    with file.open("wb") as stream:
        for feeds in check_batches(batches, signature, model):
            given = ((name, axes.get(name, 0), np.ndim(array)) for name, array in feeds.items())
            counting = {name: axis for name, axis, rank in given if axis is not None and axis < rank}
            shapes = _shapes(_part(feeds, counting, 0, 1))
            first = first or shapes
            if shapes != first:
                what = f"TensorRT's calibrators take samples of one shape, and one of {model} has another"
                fix = "pad or crop samples that differ in size"
                raise DataError(what, value=str(shapes), allowed=str(first), fix=fix)
            size = gcd(size, _count(feeds, counting))
            pickle.dump(feeds, stream)
    return Samples(file, counting, size)


def _count(feeds: Feeds, axes: Mapping[str, int]) -> int:
    """Return how many samples a batch has, 1 if no input counts them."""
    return next((np.shape(feeds[name])[axis] for name, axis in axes.items()), 1)


def _part(feeds: Feeds, axes: Mapping[str, int], start: int, size: int) -> Feeds:
    """Return some samples of a batch; an input that does not count them stays whole."""
    some = range(start, start + size)
    return {name: np.take(array, some, axes[name]) if name in axes else array for name, array in feeds.items()}


def _shapes(feeds: Feeds) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(array) for name, array in feeds.items()}
