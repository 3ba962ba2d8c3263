"""Trees and other classical models in ONNX: there is nothing to quantize, and the error says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_quant.errors import BuildError
from pytest_quant.spec import Model
from tests.integration.ort_traps.bench import engine_of, spec_of


def stump(folder: Path) -> Model:
    """One decision, x0 <= 1, in the operator set of classical machine learning, and no other set."""
    tree = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[1.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[5.0, 7.0],
    )
    graph = helper.make_graph(
        [tree],
        "stump",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
    )
    path = folder / "stump.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8), path)
    return Model.from_onnx(path)


@pytest.mark.parametrize("scheme", ["static", "dynamic", "weight-only"])
def test_a_tree_is_refused_by_name(tmp_path: Path, scheme: str) -> None:
    """Every scheme names the operator, and offers nothing to exclude."""
    feeds = {"x": np.zeros((4, 2), dtype=np.float32)}
    with pytest.raises(BuildError, match="nothing to quantize") as caught:
        engine_of(spec_of(stump(tmp_path), scheme), lambda: iter([feeds])).__enter__()
    assert "TreeEnsembleRegressor of ai.onnx.ml" in str(caught.value)
    assert "exclude" not in str(caught.value)
