"""Energy counters of CPU packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment.rapl import RaplReading, read_rapl, spent_mj

RANGE_UJ = 262_143_328_850


def package(root: Path, name: str, energy_uj: int) -> None:
    """Write one zone as the kernel shows it."""
    folder = root / name
    folder.mkdir()
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")


def test_packages_are_read_and_their_parts_are_not(tmp_path: Path) -> None:
    """A core zone is a part of its package and would count twice."""
    package(tmp_path, "intel-rapl:0", 5)
    package(tmp_path, "intel-rapl:1", 7)
    package(tmp_path, "intel-rapl:0:0", 3)
    assert read_rapl(tmp_path) == RaplReading((5, 7), (RANGE_UJ, RANGE_UJ))


def test_no_packages_is_not_measured(tmp_path: Path) -> None:
    """A machine without counters gives nothing, not 0."""
    assert read_rapl(tmp_path) is None


def test_a_counter_that_cannot_be_read_is_not_measured(tmp_path: Path) -> None:
    """A folder in the place of the file stands for a file that only root may read."""
    package(tmp_path, "intel-rapl:0", 5)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()
    assert read_rapl(tmp_path) is None


@given(st.lists(st.tuples(st.integers(0, RANGE_UJ - 1), st.integers(0, RANGE_UJ - 1)), min_size=1, max_size=4))
def test_counters_that_start_again_are_followed(pairs: list[tuple[int, int]]) -> None:
    """Whatever the counter showed at first, what was spent comes out, in thousandths of its unit."""
    start = RaplReading(tuple(first for first, _ in pairs), (RANGE_UJ,) * len(pairs))
    end = RaplReading(tuple((first + spent) % RANGE_UJ for first, spent in pairs), (RANGE_UJ,) * len(pairs))
    assert spent_mj(start, end) == pytest.approx(sum(spent for _, spent in pairs) / 1e3)
