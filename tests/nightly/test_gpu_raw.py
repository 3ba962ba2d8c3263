"""What ``python -m tests.gpu`` brings home as it is, on fakes and stubs."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu import process, raw, suites
from tests.gpu.report import Found
from tests.support.fake_tensorrt import HostMemory, make
from tests.support.fake_tensorrt.opened import PLAN, feeds_of
from tests.support.nvml_stub import NvmlStub, StubCard


@given(st.integers(1, 5000), st.lists(st.integers(0, 1000), min_size=2))
def test_the_step_of_a_clock_is_found(step_ns: int, counts: list[int]) -> None:
    """Times are whole numbers of steps: the smallest difference is theirs, a step where two are neighbours."""
    found_ns = round(1e6 * raw.step_of([count * step_ns / 1e6 for count in counts]))
    distinct = sorted(set(counts))
    gaps = [later - sooner for sooner, later in pairwise(distinct)]
    assert found_ns == min(gaps, default=0) * step_ns


def test_fake_inspector_is_asked_without_and_with_a_context_that_has_its_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both texts come home, and nothing is left on the device."""
    device = HostMemory()
    module: Any = make(device, 10)
    monkeypatch.setattr(raw, "open_device", lambda: device)
    plan = tmp_path / "model.engine"
    plan.write_bytes(PLAN)
    texts = raw.inspected(module, plan, feeds_of(3))
    assert sorted(texts) == ["with-context", "without-context"]
    assert all(json.loads(text)["Layers"] for text in texts.values())
    assert not [line for line in module._machine.ended if "outside" in line]
    assert device.cuda.held() == {}


def test_nvml_tells_all_that_it_can_be_asked(nvml_stub: NvmlStub, tmp_path: Path) -> None:
    """Answers and errors by the name of the function, for the machine and for each card."""
    nvml_stub.play(StubCard(), StubCard(), driver="580.65.06")
    said = raw.nvml(tmp_path)
    document = json.loads((tmp_path / "nvml.json").read_text("utf-8"))
    assert document["machine"]["nvmlSystemGetDriverVersion"] == "580.65.06"
    assert len(document["cards"]) == 2
    uuids = {card["nvmlDeviceGetUUID"] for card in document["cards"]}
    assert len(uuids) == 2
    assert f"{len(document['machine'])} answers of the machine" in said


def test_what_one_piece_breaks_no_other_loses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a process of its own: one that dies is failed, with what the others brought."""

    def ended(command: tuple[str, ...], *_: object, **__: object) -> subprocess.CompletedProcess[str]:
        piece = command[-2]
        answer = json.dumps({"state": "ok", "figure": f"{piece} came"})
        died = piece == "ticks"
        return subprocess.CompletedProcess(command, -11 if died else 0, "" if died else answer, "")

    monkeypatch.setattr(process, "run", ended)
    found = suites.raw(40.0, tmp_path / "raw")
    assert found.state == "FAILED"
    assert "inspector: inspector came" in found.figure
    assert "ticks: exit code -11" in found.figure
    assert suites.together([("a", Found("lacking", "x")), ("b", Found("lacking", "y"))]).state == "lacking"


def test_the_run_knows_every_piece() -> None:
    """By name, for it does without the libraries that they want."""
    assert tuple(raw.PIECES) == suites.PIECES


def test_a_piece_that_the_machine_lacks_is_named(tmp_path: Path) -> None:
    """In a process, as the run starts it."""
    command = (sys.executable, "-m", "tests.gpu.raw", "nvml", str(tmp_path / "raw"))
    ended = process.run(command, 60.0)
    assert json.loads(ended.stdout)["state"] in ("lacking", "ok")
    assert (tmp_path / "raw").is_dir()
