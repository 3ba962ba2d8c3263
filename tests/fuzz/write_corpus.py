"""Writes the models of the corpus: ``python -m tests.fuzz.write_corpus``."""

from __future__ import annotations

import onnx
from onnx import parser

from tests.fuzz.models import CORPUS, WEIGHTS_FILE
from tests.generated_graphs.drawn import Plan, build
from tests.support.models import with_external_data

PLANS = {
    "conv": Plan("static", "image", ("Conv+Relu", "BatchNormalization")),
    "branches": Plan("static", "vector", ("MatMul", "If")),
    "loop": Plan("static", "vector", ("Loop",), constant_nodes=True),
    "lstm": Plan("static", "time-major", ("LSTM",)),
    "ids": Plan("static", "ids", ("MatMul",), batch=4),
    "old": Plan("static", "vector", ("Clip", "matrix"), opset=11, extra="classes"),
}

FUNCTION = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
called (float[n, 8] x) => (float[n, 8] y) { y = own.Twice (x) }
<domain: "own", opset_import: ["": 17]>
Twice (a) => (b) { b = Add (a, a) }"""

QUANTIZED = """<ir_version: 8, opset_import: ["": 17]>
quantized (float[n, 8] x) => (float[n, 2] y)
<float scale = {0.1}, int8 zero = {0}, float[8, 2] weight = {1,0,0,1,1,0,0,1,1,0,0,1,1,0,0,1}>
{ q = QuantizeLinear (x, scale, zero) d = DequantizeLinear (q, scale, zero) y = MatMul (d, weight) }"""


def main() -> None:
    """Write every model anew."""
    for name, plan in PLANS.items():
        (CORPUS / f"{name}.onnx").write_bytes(build(plan).model.SerializeToString())
    for name, text in (("function", FUNCTION), ("quantized", QUANTIZED)):
        (CORPUS / f"{name}.onnx").write_bytes(_parsed(text).SerializeToString())
    with_external_data(CORPUS / "external.onnx", WEIGHTS_FILE)


def _parsed(text: str) -> onnx.ModelProto:
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    main()
