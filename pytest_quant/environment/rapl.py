"""RAPL, the energy counters of processor packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class RaplReading:
    """Energy counter of each CPU package in microjoules, and the value after which it restarts from 0."""

    energy_uj: tuple[int, ...]
    range_uj: tuple[int, ...]


def read_rapl(root: Path = POWERCAP) -> RaplReading | None:
    """Read the counters of all CPU packages; ``None`` where there are none or they are not readable.

    Most systems let only root read them, and virtual machines have none.
    """
    packages = sorted(root.glob("intel-rapl:[0-9]*"))
    packages = [package for package in packages if package.name.count(":") == 1]
    try:
        energy = tuple(_number(package / "energy_uj") for package in packages)
        limits = tuple(_number(package / "max_energy_range_uj") for package in packages)
    except (OSError, ValueError):
        return None
    return RaplReading(energy, limits) if energy else None


def spent_mj(before: RaplReading, after: RaplReading) -> float:
    """Return the millijoules between two readings of the same packages; a counter may wrap around once."""
    turns = zip(before.energy_uj, after.energy_uj, after.range_uj, strict=True)
    return sum(end - start if end >= start else end - start + turn for start, end, turn in turns) / 1e3


def _number(file: Path) -> int:
    return int(file.read_text("ascii"))
