"""Versions wanted and found."""

from __future__ import annotations

from pytest_quant.doctor.probe import Library, compare, find_libraries

REQUIREMENTS = [
    "numpy>=1.26",
    "onnxruntime>=1.28; extra == 'ort'",
    "onnx>=1.17; extra == 'ort'",
    "onnx>=1.17; extra == 'openvino'",
    "pytest-quant[ort]; extra == 'trt'",
    "tensorrt>=10.1; extra == 'trt'",
    "ruff>=0.12; extra == 'dev'",
]
FOUND = {"numpy": "2.4.6", "onnxruntime": "1.20.0", "onnx": "1.18.0rc1", "ruff": "0.13"}


def test_versions_are_compared() -> None:
    """Fitting, too old and absent; a pre-release counts, and what only developers need is left out."""
    assert compare(REQUIREMENTS, ["openvino", "ort", "trt"], lambda name: FOUND.get(name, "")) == (
        Library("numpy", (), ">=1.26", "2.4.6", fits=True),
        Library("onnx", ("openvino", "ort"), ">=1.17", "1.18.0rc1", fits=True),
        Library("onnxruntime", ("ort",), ">=1.28", "1.20.0", fits=False),
        Library("tensorrt", ("trt",), ">=10.1", "", fits=False),
    )


def test_our_own_metadata_is_read() -> None:
    """Core and runtimes are listed, developers' tools are not."""
    names = {library.name for library in find_libraries()}
    assert {"numpy", "onnxruntime", "openvino", "torch"} <= names
    assert not names & {"ruff", "pytest-quant"}
