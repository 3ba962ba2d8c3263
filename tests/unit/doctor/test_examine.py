"""What goes wrong silently later is told: two wheels, a card that CUDA does not have, versions that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.doctor import examine
from pytest_quant.doctor.examine import (
    Examination,
    Problem,
    describe,
    find_cards,
    find_misfits,
    find_problems,
    runner_line,
)
from pytest_quant.doctor.probe import BackendState
from pytest_quant.environment.machine import fingerprint
from pytest_quant.history.selftests import keep_selftest
from tests.support.nvml_stub import NvmlStub, StubCard, uuid_of
from tests.unit.history.noisy import a_selftest

L4, T4 = StubCard(name="NVIDIA L4"), StubCard(name="NVIDIA T4", capability="7.5", memory_total=16_000_000_000)
DRIVER = "580.65.06"


def problems(
    monkeypatch: pytest.MonkeyPatch, *installed: str, has_gpu: bool = False, memory: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """What is wrong, with its fix, on a machine that has these distributions."""
    monkeypatch.setattr(examine, "installed_version", lambda name: "1" * (name in installed))
    monkeypatch.setattr(examine, "memory_libraries", lambda: memory)
    return [(problem.what, problem.fix) for problem in find_problems(has_gpu=has_gpu)]


def test_each_problem_has_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two wheels that overwrite each other, no package for device memory (no compiler is needed); or none."""
    assert not [problem for problem in find_problems(has_gpu=False) if "overwrite each other" in problem.what]
    assert problems(monkeypatch, "onnxruntime") == []
    ((what, fix),) = problems(monkeypatch, "onnxruntime", "onnxruntime-gpu")
    assert "onnxruntime and onnxruntime-gpu are both installed" in what
    assert fix == 'pip uninstall -y onnxruntime onnxruntime-gpu && pip install "pytest-quant[gpu]"'
    for found in (problems(monkeypatch, has_gpu=True), problems(monkeypatch, "tensorrt")):
        ((what, fix),) = found
        assert ("neither cuda-bindings nor pycuda is installed" in what, fix) == (True, "pip install cuda-bindings")
    assert problems(monkeypatch, "tensorrt", has_gpu=True, memory=("pycuda",)) == []


def test_two_cards_in_the_order_of_cuda(nvml_stub: NvmlStub) -> None:
    """CUDA puts the faster one first, NVML the one with the lower place on the bus."""
    nvml_stub.play(T4, L4, cuda=(uuid_of(1), uuid_of(0)))
    cards, reasons = find_cards()
    assert [(card["cuda"], card["name"], card["memory_mb"], card["driver"]) for card in cards] == [
        ("cuda:0", "NVIDIA L4", 24_000.0, DRIVER),
        ("cuda:1", "NVIDIA T4", 16_000.0, DRIVER),
    ]
    assert reasons == ()


def test_a_variable_that_leaves_none_is_a_problem(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named with its value, and what to write; one that leaves some puts the others behind them."""
    nvml_stub.play(L4, T4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    cards, reasons = find_cards()
    assert [(card["cuda"], card["uuid"]) for card in cards] == [("cuda:0", uuid_of(1)), ("", uuid_of(0))]
    assert reasons == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    cards, (problem,) = find_cards()
    assert [card["cuda"] for card in cards] == ["", ""]
    assert problem.what.startswith("CUDA_VISIBLE_DEVICES='7' leaves none of")
    assert "UUID" in problem.fix


REQUIREMENTS = [
    "numpy>=1.26",
    "onnxruntime>=1.28; extra == 'ort'",
    "onnx>=1.17; extra == 'ort'",
    "onnx>=1.17; extra == 'openvino'",
    "pytest-quant[ort]; extra == 'trt'",
    "tensorrt>=10.1; extra == 'trt'",
    "pycuda>=2030; extra == 'trt'",
    "pycuda>=2022; extra == 'trt10'",
    "ruff>=0.12; extra == 'dev'",
]
INSTALLED = {"numpy": "2.4.6", "onnxruntime": "1.20.0", "onnx": "1.18.0rc1", "pycuda": "2026.1", "ruff": "0.1"}


def test_a_version_that_does_not_fit_is_a_problem() -> None:
    """Too old for each extra that has it; a pre-release counts, absent is no misfit, nor is what developers need."""
    extras = ["openvino", "ort", "trt", "trt10"]
    assert list(find_misfits(REQUIREMENTS, extras, lambda name: INSTALLED.get(name, ""))) == [
        Problem("onnxruntime 1.20.0 is installed, and onnxruntime>=1.28 is needed", 'pip install "onnxruntime>=1.28"')
    ]


def test_the_newest_self_test_says_what_it_holds(tmp_path: Path) -> None:
    """With its day, the best kind of model and the worst; without one, how to make it, and no history is created."""
    place = str(tmp_path / "history.db")
    assert runner_line(place).endswith("yet: pytest-quant selftest --quick")
    assert list(tmp_path.iterdir()) == []
    keep_selftest(place, a_selftest(identity=fingerprint().identity))
    keep_selftest(place, a_selftest(identity={"cpu": "another"}, measured_at="2026-05-05T00:00:00+00:00"))
    assert runner_line(place).startswith(
        "self-test of 2026-01-01: smallest limit in one launch 2.1 % (compute-bound models) to 4.4 %"
    )


MACHINE = {
    "pytest-quant": "0.1.0",
    "cpu": "EPYC",
    "isa": "avx2",
    "cores": "2",
    "gpus": "none",
    "python": "3.11",
    "os": "Linux",
    "arch": "x86_64",
}
FOUND = Examination(
    MACHINE,
    (
        BackendState("ort", "ok", "1.31.1", "cpu", precisions=("fp32", "int8 static")),
        BackendState(
            "openvino", "missing", reason="openvino is not installed", fix='pip install "pytest-quant[openvino]"'
        ),
        BackendState("trt", "missing", reason="tensorrt is not installed", fix='pip install "pytest-quant[trt]"'),
        BackendState("ort-trt", "broken", reason="bad \x1b[31m name"),
    ),
    (Problem("two wheels", "pip uninstall one"),),
)


def test_what_works_comes_first_and_the_rest_is_a_line_each() -> None:
    """Version and device of one that runs, the reason of each other one, problems; foreign text is escaped."""
    text = describe(replace(FOUND, runner="self-test of 2026-01-01"))
    backends = (
        "\n\nbackend  version  device\nort      1.31.1   cpu\n    offers fp32, int8 static\n"
        "\ncannot run  why\nopenvino    openvino is not installed\ntrt         tensorrt is not installed\n"
        "ort-trt     BROKEN: bad \\x1b[31m name\n\n! two wheels\n    fix: pip uninstall one\n"
    )
    for words in ("\n  runner  self-test of 2026-01-01\n", backends):
        assert words in text
    assert text.endswith("1 of 4 backends can run here; what mends the others: --verbose")
    assert "\x1b" not in text
    assert "runner" not in describe(FOUND)


def test_a_fix_is_for_a_device_that_is_here() -> None:
    """Asked for, and of a backend for GPUs only where there is one: without it no installation helps."""
    text = describe(FOUND, fixes=True)
    assert 'openvino is not installed\n    fix: pip install "pytest-quant[openvino]"\ntrt ' in text
    assert "[trt]" not in text
    assert text.endswith("1 of 4 backends can run here")
    card = {"cuda": "cuda:0", "name": "NVIDIA L4", "sm": "SM89", "memory_mb": 24_000.0, "uuid": "GPU-0"}
    assert 'fix: pip install "pytest-quant[trt]"' in describe(replace(FOUND, cards=(card,)), fixes=True)


def test_cards_are_a_table() -> None:
    """Between the machine and the backends, with what NVML does not tell as a dash."""
    cards = (
        {"cuda": "cuda:0", "name": "NVIDIA L4", "sm": "SM89", "memory_mb": 24_000.0, "uuid": "GPU-0"},
        {"cuda": "", "name": "NVIDIA GB10", "sm": None, "memory_mb": None, "uuid": "GPU-1"},
    )
    lines = describe(replace(FOUND, cards=cards)).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("device"))
    assert [line.split() for line in lines[start : start + 3]] == [
        ["device", "card", "sm", "memory", "uuid"],
        ["cuda:0", "NVIDIA", "L4", "SM89", "24.0", "GB", "GPU-0"],
        ["hidden", "NVIDIA", "GB10", "-", "-", "GPU-1"],
    ]
