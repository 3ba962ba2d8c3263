"""What is no ONNX is not looked into; what is quantized in one is told by the tests of whole checks."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.measure.float_reference import refuse_quantized
from pytest_quant.spec import EngineSpec, Model


def test_a_file_of_another_format_is_its_backends_matter(tmp_path: Path) -> None:
    """Nothing is said about what cannot be read; a third party's backend may read files of its own."""
    (tmp_path / "net.own").write_bytes(b"not ONNX")
    for model in (Model("net", path=tmp_path / "net.own"), Model("net", path=tmp_path / "none"), Model("net")):
        refuse_quantized(EngineSpec("played", "fp32", None, model))
