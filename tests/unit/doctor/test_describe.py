"""The examination as a reader sees it."""

from __future__ import annotations

from dataclasses import replace

from pytest_quant.doctor.describe import describe
from pytest_quant.doctor.examine import Examination, Library, Problem
from pytest_quant.doctor.probe import BackendState

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
        BackendState("trt", "missing", reason="tensorrt is not installed", fix='pip install "pytest-quant[trt]"'),
        BackendState("ort-trt", "broken", reason="bad \x1b[31m name"),
    ),
    (Library("numpy", (), ">=1.26", "2.4.6", fits=True), Library("onnx", ("ort",), ">=1.17", "1.1", fits=False)),
    (Problem("two wheels", "pip uninstall one"),),
)


def test_each_backend_says_what_to_do() -> None:
    """Version and device of one that runs, reason and fix of another, the count; foreign text is escaped."""
    text = describe(FOUND)
    assert "ort      ok       1.31.1   cpu\n    offers fp32, int8 static\n" in text
    assert (
        'trt      missing  -        -\n    tensorrt is not installed\n    fix: pip install "pytest-quant[trt]"\n'
        in text
    )
    assert text.endswith("1 of 3 backends can run here")
    assert "\x1b" not in text


def test_libraries_and_problems_are_listed() -> None:
    """A version that does not fit is marked, a problem stands out with its fix."""
    text = describe(FOUND)
    assert "onnx     >=1.17  1.1 (does not fit)  ort" in text
    assert "! two wheels\n    fix: pip uninstall one" in text


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


def test_the_self_test_is_one_line_of_the_machine() -> None:
    """Absent where no history was asked."""
    assert "runner" not in describe(FOUND)
    lines = describe(replace(FOUND, runner="self-test of 2026-01-01")).splitlines()
    assert [line for line in lines if "self-test" in line] == ["  runner  self-test of 2026-01-01"]
