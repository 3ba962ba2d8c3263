"""Inputs and outputs go by the names of the ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.spec import EngineSpec, Model
from tests.integration.openvino_traps.graphs import normal, quantized, write

WEIGHTS = normal(8, 8)


def awkward(path: Path) -> Model:
    """Colons and slashes, an input that nothing uses, a weight among the inputs, an output used inside too."""
    nodes = [
        helper.make_node("MatMul", ["in:0", "w"], ["a/b:0"], name="product"),
        helper.make_node("Relu", ["a/b:0"], ["z"], name="relu"),
        helper.make_node("Mul", ["z", "second"], ["y.1"], name="times"),
        helper.make_node("Identity", ["y.1"], ["again"], name="same"),
    ]
    inputs: dict[str, list[int | str]] = {"unused": ["n", 3], "w": [8, 8], "second": ["n", 8], "in:0": ["n", 8]}
    outputs: dict[str, list[int | str]] = {name: ["n", 8] for name in ("again", "y.1", "a/b:0", "z")}
    return write(path, nodes, inputs, outputs, {"w": WEIGHTS})


@pytest.mark.parametrize("scheme", [None, "static"])
def test_awkward_names(scheme: str | None, tmp_path: Path) -> None:
    """Each input arrives and each output is returned under its own name, in float and quantized."""
    precision = "fp32" if scheme is None else "int8"
    spec = EngineSpec("openvino", precision, scheme, awkward(tmp_path / "net.onnx"))

    def feeds(seed: int) -> Feeds:
        shapes = {"unused": (16, 3), "second": (16, 8), "in:0": (16, 8)}
        return {
            name: normal(*shape, seed=seed + place, scale=1.0) for place, (name, shape) in enumerate(shapes.items())
        }

    given = feeds(50)
    product = given["in:0"] @ WEIGHTS
    z = np.maximum(product, 0.0)
    wanted = {"again": z * given["second"], "y.1": z * given["second"], "a/b:0": product, "z": z}
    tolerance = 1e-5 if scheme is None else 0.1
    if scheme is None:
        backend, folder = get_backend("openvino"), tmp_path / "engine"
        folder.mkdir()
        backend.build(spec, None, folder)
        engine = backend.open(spec, folder)
        found = engine.run(given)
        engine.close()
    else:
        with quantized(spec, feeds) as engine:
            found = engine.run(given)
    assert list(found) == ["again", "y.1", "a/b:0", "z"]
    assert {one.name for one in engine.signature.inputs} == set(given)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=tolerance * float(np.abs(array).max()))
