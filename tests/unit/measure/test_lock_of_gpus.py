"""Locks of cards and their instances between real processes, and builds that hold one alone.

A stub of the driver's library plays the cards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_quant.measure import lock
from pytest_quant.measure.build import BuiltEngine, build_engine
from pytest_quant.measure.lock import FOLDER_VARIABLE, DeviceLocks
from pytest_quant.spec import EngineSpec, Model
from tests.support.measuring import quiet_tools
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, uuid_of
from tests.unit.measure.holders import can_have, go_on, line, start
from tests.unit.measure.played import PlayedBackend, inputs

SMALL, LARGE = uuid_of(16, "MIG"), uuid_of(17, "MIG")


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only, and a short wait before anything is told."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    monkeypatch.setattr(lock, "_WAIT_S", 0.2)


def test_the_lock_is_that_of_the_card(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number it has in a process; instances of one card share its clocks and power, and so its lock."""
    parts = (StubInstance(SMALL), StubInstance(LARGE, gpu_instance=2))
    third = StubInstance(uuid_of(18, "MIG"))

    def file(visible: str, device: str = "cuda:0") -> Path:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return lock._lock(device)[1]

    nvml_stub.play(StubCard(), StubCard())
    first, second = uuid_of(0), uuid_of(1)
    assert file(f"{first},{second}", "cuda:1") == file(f"{second},{first}") != file(first)
    nvml_stub.play(StubCard(mig=1, instances=parts), StubCard(mig=1, instances=(third,)))
    assert file(SMALL) == file(LARGE) != file(third.uuid)


def test_two_that_share_a_card_and_want_it_alone_take_turns(nvml_stub: NvmlStub) -> None:
    """Neither waits for the other to give back what both share; afterwards each shares it again."""
    texts: list[str] = []
    nvml_stub.play(StubCard())
    process = start("alone within share", "cuda:0")
    assert line(process) == "shares"
    locks = DeviceLocks(texts.append)
    with locks.shared("cuda:0"):
        go_on(process)
        assert line(process).startswith("waiting for cuda:0: another process uses it")
        with locks.hold_alone("cuda:0"):
            assert not can_have("cuda:0", "shared")
        assert not can_have("cuda:0", "exclusive")
    said = process.communicate()[0].splitlines()
    assert said[0] == "alone"
    assert said[-1] == "shares again"
    assert can_have("cuda:0", "exclusive")


class Tuning(PlayedBackend):
    """A backend that notes in each build whether another process could use its device."""

    device = "cuda:0"

    def __init__(self, *, tunes: bool) -> None:
        super().__init__(lambda _precision, feeds: {"y": feeds["x"]}, inputs(x=(None, 2)))
        self._tunes = tunes
        self.undisturbed: list[bool] = []

    def tunes(self, spec: EngineSpec) -> bool:  # noqa: ARG002
        """Whether builds choose kernels by their time."""
        return self._tunes

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Note whether the device is shared with other builds, and build."""
        self.undisturbed.append(not can_have("cuda:0", "shared"))
        super().build(spec, calibration, folder)


@pytest.fixture
def build(tmp_path: Path, nvml_stub: NvmlStub) -> Callable[[Tuning, bool], BuiltEngine]:
    """Build an engine on a device that is shared, as a check does that times or does not."""
    nvml_stub.play(StubCard())

    def built(backend: Tuning, times: bool) -> BuiltEngine:
        tools = quiet_tools(tmp_path)
        spec = EngineSpec("played", "int8", "weight-only", Model("net"))
        with tools.locks.shared("cuda:0", waits=times):
            engine = build_engine(spec, backend, None, tools)
            assert can_have("cuda:0", "shared")
        return engine

    return built


@pytest.mark.parametrize("times", [True, False])
def test_a_build_that_chooses_kernels_by_time_has_the_card_alone(
    build: Callable[[Tuning, bool], BuiltEngine], times: bool
) -> None:
    """Also in a run that times nothing: the engine stays for those that do. From the cache it needs nobody's leave."""
    backend = Tuning(tunes=True)
    assert build(backend, times).status == "built"
    assert backend.undisturbed == [True]
    assert build(backend, times).status == "hit"
    assert backend.undisturbed == [True]


def test_another_build_shares_the_card(build: Callable[[Tuning, bool], BuiltEngine]) -> None:
    """One that only writes a file, or is simulated."""
    backend = Tuning(tunes=False)
    assert build(backend, True).status == "built"
    assert backend.undisturbed == [False]
