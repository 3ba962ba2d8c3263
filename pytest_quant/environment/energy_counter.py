"""The energy counter of a device, of which only differences mean anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_quant.environment.gpu import field, opened_gpu

_POWERCAP = Path("/sys/class/powercap")

Packages = tuple[tuple[int, int], ...]
"""Energy counter of each CPU package in microjoules, and the value after which it restarts from 0."""

Counter = Callable[[], float | None]
"""Returns millijoules from any start, never going back; ``None`` where they cannot be read."""


@contextmanager
def energy_counter(device: str) -> Iterator[Counter | None]:
    """Give the counter of ``cpu`` or ``cuda:0`` while the block runs; ``None`` for a device without one.

    It steps: RAPL about every millisecond, NVML every 20 to 100 ms. A part of a split card (MIG) has the counter of the
    whole card, its neighbours included.
    """
    if device == "cpu":
        yield _of_packages()
        return
    with opened_gpu(device, card=True) as opened:
        if opened is None:
            yield None
        else:
            nvml, card = opened
            yield lambda: field(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, card)


def _of_packages() -> Counter | None:
    last = read_rapl()
    if last is None:
        return None
    total_mj = 0.0

    def read() -> float | None:
        nonlocal last, total_mj
        now = read_rapl()
        if now is None or last is None:
            return None
        # Added up, because a package's counter starts again within the hour.
        total_mj += spent_mj(last, now)
        last = now
        return total_mj

    return read


def read_rapl(root: Path = _POWERCAP) -> Packages | None:
    """Read RAPL's counters of all CPU packages; ``None`` where there are none or they are not readable.

    Most systems let only root read them, and virtual machines have none.
    """
    folders = [folder for folder in sorted(root.glob("intel-rapl:[0-9]*")) if folder.name.count(":") == 1]
    try:
        return (
            tuple((_number(folder / "energy_uj"), _number(folder / "max_energy_range_uj")) for folder in folders)
            or None
        )
    except (OSError, ValueError):
        return None


def _number(file: Path) -> int:
    return int(file.read_text("ascii"))


def spent_mj(before: Packages, after: Packages) -> float:
    """Return the millijoules between two readings of the same packages; a counter may wrap around once."""
    pairs = zip(before, after, strict=True)
    return sum(end - start + (turn if end < start else 0) for (start, _), (end, turn) in pairs) / 1e3
