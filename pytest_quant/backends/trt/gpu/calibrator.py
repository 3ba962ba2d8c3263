"""A calibrator for TensorRT 10's implicit INT8: what TensorRT asks of it, and what it hides when something goes wrong.

TensorRT prints an exception inside a callback and goes on with the samples it had, so it is kept here and raised
after the build; and a build whose calibrator gave no batch has invented its ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.gpu.device import DeviceMemory
from pytest_quant.errors import BuildError

ALGORITHMS = {"entropy": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
"""Calibration method and TensorRT's class for it."""


@dataclass(slots=True)
class Ledger:
    """What happened inside the callbacks: the only way to hear of it.

    Attributes
    ----------
    batches : given to TensorRT.
    cache : ranges that were read from an earlier calibration or written by this one; ``None`` before.
    error : the first exception.
    """

    batches: int = 0
    cache: bytes | None = None
    reused: bool = False
    error: BaseException | None = None
    addresses: dict[str, tuple[int, int]] = field(default_factory=dict)

    def settle(self) -> bytes:
        """Return the ranges, after the build.

        Raises
        ------
        BuildError : no batch was read and no ranges were reused; or TensorRT wrote no ranges.
        Exception : whatever a callback raised.
        """
        if self.error is not None:
            raise self.error
        if not self.batches and not self.reused:
            raise BuildError(
                "no batch was read: TensorRT asked its calibrator for none, and would build with ranges of its own",
                fix="check that the model has float layers that INT8 can replace; the build log lies beside the engine",
            )
        if self.cache is None:
            raise BuildError("TensorRT calibrated and wrote no ranges", value=f"{self.batches} batches read")
        return self.cache


def make_calibrator(
    trt: Any, method: str, batches: Iterator[Feeds], device: DeviceMemory, batch_size: int, cache: bytes | None = None
) -> tuple[Any, Ledger]:
    """Return a calibrator and its `Ledger`. Keep a reference to the calibrator until the build has ended.

    Parameters
    ----------
    method : a key of `ALGORITHMS`.
    cache : ranges of an earlier calibration; then no batch is read.
    """
    ledger = Ledger()
    base: Any = getattr(trt, ALGORITHMS[method])
    stream = device.new_stream()

    class Calibrator(base):  # type: ignore[misc]
        """Gives each batch as one address for each input."""

        def __init__(self) -> None:
            # Without this call of the binding's own constructor the first callback crashes the process.
            base.__init__(self)

        def get_batch_size(self) -> int:
            return batch_size

        def get_batch(self, names: list[str]) -> list[int] | None:
            try:
                feeds = next(batches, None)
                if feeds is None:
                    return None
                addresses = [_copied(device, ledger, name, feeds, stream) for name in names]
                device.wait(stream)
            except BaseException as error:
                ledger.error = ledger.error or error
                return None
            ledger.batches += 1
            return addresses

        def read_calibration_cache(self) -> bytes | None:
            ledger.reused = cache is not None
            ledger.cache = cache
            return cache

        def write_calibration_cache(self, found: Any) -> None:
            ledger.cache = bytes(found)

    return Calibrator(), ledger


def release(ledger: Ledger, device: DeviceMemory) -> None:
    """Free the device memory that the batches lay in."""
    while ledger.addresses:
        device.free(ledger.addresses.popitem()[1][0])


def _copied(device: DeviceMemory, ledger: Ledger, name: str, feeds: Feeds, stream: int) -> int:
    """Copy one input to its own buffer, which the next batch uses again; TensorRT reads floats as float32."""
    array = feeds[name]
    flat = np.ascontiguousarray(array, dtype=np.float32 if array.dtype.kind == "f" else array.dtype)
    address, size = ledger.addresses.get(name, (0, 0))
    if flat.nbytes > size:
        if size:
            device.free(address)
        address = device.allocate(flat.nbytes)
        ledger.addresses[name] = (address, flat.nbytes)
    device.copy_in(address, flat, stream)
    return address
