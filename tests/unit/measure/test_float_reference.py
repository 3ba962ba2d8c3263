"""What is quantized in an ONNX file is named before anything is built; what is no ONNX is not looked into."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pytest_quant.errors import ModelError
from pytest_quant.measure.float_reference import refuse_quantized
from pytest_quant.spec import EngineSpec, Model


def test_a_file_of_another_format_is_its_backends_matter(tmp_path: Path) -> None:
    """Nothing is said about what cannot be read; a third party's backend may read files of its own."""
    (tmp_path / "net.own").write_bytes(b"not ONNX")
    for model in (Model("net", path=tmp_path / "net.own"), Model("net", path=tmp_path / "none"), Model("net")):
        refuse_quantized(EngineSpec("played", "fp32", None, model))


def test_a_node_that_rounds_is_named(tmp_path: Path) -> None:
    """The float graph passes, and the same with a pair of Q and DQ is refused as the reference."""
    graph = '<ir_version: 8, opset_import: ["" : 17]> net (float[n, 4] x) => (float[n, 4] y)'
    scale = "<float s = {0.5}, int8 z = {0}>"
    texts = {
        "float": f"{graph} {{ y = Relu (x) }}",
        "pair": f"{graph} {scale} {{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}",
    }
    specs = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        specs[name] = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
    refuse_quantized(specs["float"])
    with pytest.raises(ModelError, match="it is quantized already") as raised:
        refuse_quantized(specs["pair"])
    assert "QuantizeLinear" in str(raised.value)
