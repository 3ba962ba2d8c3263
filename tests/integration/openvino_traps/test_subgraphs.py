"""Branches of an If: NNCF quantizes them, and exclude reaches into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import numpy_helper, parser

from pytest_quant.backends import Feeds
from pytest_quant.backends.openvino.files import ENGINE_FILE
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.openvino_traps.graphs import normal, quantized
from tests.support.models import run_unoptimized

_TEXT = """<ir_version: 8, opset_import: ["" : 18]> g (float[n,8] x, bool[1] on) => (float[n,8] y, float[n,8] z) {
    s = MatMul(x, w)
    y = Relu(s)
    z = If(on)<then_branch = a () => (float[n,8] h) { p = MatMul(s, v)\n t = MatMul(p, v)\n h = Relu(t) },
               else_branch = b () => (float[n,8] h) { p = MatMul(s, v)\n h = Relu(p) }>
}"""


def branches(folder: Path) -> Model:
    """Write a product, and an If whose branches hold products of its result."""
    proto = parser.parse_model(_TEXT)
    proto.graph.initializer.extend(
        numpy_helper.from_array(normal(8, 8, seed=seed), name) for seed, name in enumerate("wv")
    )
    for branch in proto.graph.node[2].attribute:
        for node in branch.g.node:
            node.name = f"{branch.name}/{node.output[0]}"
    proto.graph.node[0].name = "first"
    onnx.save_model(proto, folder / "branches.onnx")
    return Model.from_onnx(folder / "branches.onnx")


def _feeds(seed: int) -> Feeds:
    return {"x": normal(4, 8, seed=seed), "on": np.array([seed % 2 == 0])}


def _rounded(model: Any) -> int:
    """Products whose input is rounded, branches included."""
    result = 0
    for each in model.get_ordered_ops():
        if each.get_type_name() == "MatMul":
            result += each.input_value(0).get_node().get_type_name() == "FakeQuantize"
        if each.get_type_name() == "If":
            result += sum(_rounded(each.get_function(branch)) for branch in (0, 1))
    return result


@pytest.mark.parametrize(
    ("exclude", "rounded"),
    [
        ((), 4),
        (("first",), 3),
        (("then_branch/p",), 3),
        (("else_branch/p",), 3),
        (("then_branch/t",), 3),
        (("then_branch/p", "else_branch/p", "then_branch/t"), 1),
    ],
)
def test_exclude_reaches_into_branches(exclude: tuple[str, ...], rounded: int, tmp_path: Path) -> None:
    """Tensors of two branches have the same names: the named product alone stays float."""
    spec = EngineSpec("openvino", "int8", "static", branches(tmp_path), exclude=exclude)
    with quantized(spec, _feeds) as engine:
        source: Any = engine
        model = openvino.Core().read_model(source._file)
        assert source._file.name == ENGINE_FILE
        assert _rounded(model) == rounded
        assert sqnr_db(_float(tmp_path), engine.run(_feeds(0))) > 25


def _float(folder: Path) -> dict[str, Any]:
    return run_unoptimized(folder / "branches.onnx", _feeds(0))
