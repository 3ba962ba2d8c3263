"""The examination as a reader sees it."""

from __future__ import annotations

from pytest_quant.doctor.examine import describe
from pytest_quant.doctor.probe import BackendState, Examination, Library, Problem

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
    """Version and device of one that runs, reason and fix of one that does not, and the count."""
    text = describe(FOUND)
    assert "ort      ok       1.31.1   cpu\n    offers fp32, int8 static\n" in text
    assert (
        'trt      missing  -        -\n    tensorrt is not installed\n    fix: pip install "pytest-quant[trt]"\n'
        in text
    )
    assert text.endswith("1 of 3 backends can run here")


def test_libraries_and_problems_are_listed() -> None:
    """A version that does not fit is marked, a problem stands out with its fix."""
    text = describe(FOUND)
    assert "onnx     >=1.17  1.1 (does not fit)  ort" in text
    assert "! two wheels\n    fix: pip uninstall one" in text


def test_foreign_text_cannot_act_on_the_terminal() -> None:
    """Messages of runtimes come escaped."""
    assert "\x1b" not in describe(FOUND)
