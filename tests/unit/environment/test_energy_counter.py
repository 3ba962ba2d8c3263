"""Energy counters of devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment import energy_counter as module
from pytest_quant.environment.energy_counter import energy_counter, read_rapl, spent_mj
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, each, error, uuid_of


def test_packages_are_added_up_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In millijoules; a counter that starts again more than once is followed, and one that falls silent is no 0."""
    readings = [((energy, 10_000), (5 * energy, 50_000)) for energy in (0, 9000, 8000, 7000)]
    monkeypatch.setattr(module, "read_rapl", lambda: readings.pop(0) if readings else None)
    with energy_counter("cpu") as counter:
        assert counter is not None
        assert [counter() for _ in range(4)] == [54.0, 108.0, 162.0, None]


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_a_device_without_a_counter_has_none(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no package can be read, and where the device is neither a processor nor a GPU."""
    monkeypatch.setattr(module, "read_rapl", lambda: None)
    with energy_counter(device) as counter:
        assert counter is None


def test_a_gpu_has_the_counter_of_its_card(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the card that the environment leaves to CUDA, as often as it is read; NVML is opened once."""
    nvml_stub.play(StubCard(energy_mj=5), StubCard(energy_mj=each(7_000_000, 7_000_900)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert [counter() for _ in range(3)] == [7_000_000.0, 7_000_900.0, 7_000_900.0]
    with energy_counter("cuda:1") as counter:
        assert counter is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    nvml_stub.play(StubCard(energy_mj=55, mig=1, instances=(StubInstance(uuid_of(9, "MIG")),)))
    with energy_counter("cuda:0") as counter:
        assert counter is not None
        assert counter() == 55.0


@pytest.mark.parametrize("energy_mj", [None, error(999)])
def test_a_gpu_that_does_not_count_is_no_zero(energy_mj: str | None, nvml_stub: NvmlStub) -> None:
    """Virtual devices and cards before Volta have no counter."""
    nvml_stub.play(StubCard(energy_mj=energy_mj))
    with energy_counter("cuda:0") as counter:
        assert counter is None or counter() is None


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
    assert read_rapl(tmp_path) == ((5, RANGE_UJ), (7, RANGE_UJ))


def test_a_counter_that_cannot_be_read_is_not_measured(tmp_path: Path) -> None:
    """No package at all; and a folder in the place of the file, for a file that only root may read."""
    assert read_rapl(tmp_path) is None
    package(tmp_path, "intel-rapl:0", 5)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()
    assert read_rapl(tmp_path) is None


@given(st.lists(st.tuples(st.integers(0, RANGE_UJ - 1), st.integers(0, RANGE_UJ - 1)), min_size=1, max_size=4))
def test_counters_that_start_again_are_followed(pairs: list[tuple[int, int]]) -> None:
    """Whatever the counter showed at first, what was spent comes out, in thousandths of its unit."""
    start = tuple((first, RANGE_UJ) for first, _ in pairs)
    end = tuple(((first + spent) % RANGE_UJ, RANGE_UJ) for first, spent in pairs)
    assert spent_mj(start, end) == pytest.approx(sum(spent for _, spent in pairs) / 1e3)
