"""What is quantized in an ONNX file is named before anything is built; what is no ONNX is not looked into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from pytest_quant.errors import ModelError
from pytest_quant.measure.reference import refuse_quantized
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model
from tests.unit.measure.test_pipeline import Bench, bench

__all__ = ["bench"]


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


def test_a_reference_that_cannot_be_seen_into_is_no_quantized_one(bench: Bench) -> None:
    """It is refused for what was seen in another precision; what was not seen is told, from the cache too."""
    hidden = Coverage(40.0, "MACs", (), "played", opaque_nodes=3, high_pct=100.0)
    mixed = replace(hidden, high_pct=99.0, float_nodes=("a",), notes=("1 product ran in fp16",))
    bench.backend.facts = {"coverage": lambda _: mixed}
    with pytest.raises(ModelError, match="40 % of MACs ran in float32, not a; 1 product ran in fp16"):
        bench.measure()
    bench.backend.facts = {"coverage": lambda _: hidden}
    nodes = "3 nodes, 60 % of MACs, of the reference played-fp32 cannot be seen into"
    for _ in range(2):
        assert f"{nodes}: that they run in float32 is not proven" in bench.measure().notes
