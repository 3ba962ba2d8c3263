"""Nodes that the user excludes, by the names of the user's own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.spec import EngineSpec, Model
from tests.integration.openvino_traps.graphs import normal, quantized, recurrent, write


def rows(seed: int) -> Feeds:
    """Four samples of 8 values."""
    return {"x": normal(4, 8, seed=seed, scale=1.0)}


def images(seed: int) -> Feeds:
    """Four images of one channel."""
    return {"x": normal(4, 1, 8, 8, seed=seed, scale=1.0)}


def sequences(seed: int) -> Feeds:
    """Four sequences of five steps."""
    return {"x": normal(5, 4, 4, seed=seed, scale=1.0)}


def static(model: Model, *exclude: str) -> EngineSpec:
    """The spec of static quantization without some nodes."""
    return EngineSpec("openvino", "int8", "static", model, exclude=exclude)


def with_dropout(path: Path) -> Model:
    """Two products, the first in front of a Dropout, of which OpenVINO keeps no more than the name."""
    text = """(float[n, 8] x) => (float[n, 4] y) {
        [first] m = MatMul(x, v) [dropout] d = Dropout(m) [relu] r = Relu(d) [last] y = MatMul(r, w) }"""
    return write(path, text, v=normal(8, 8), w=normal(8, 4))


def nested(path: Path) -> Model:
    """Two convolutions with bias, of which the one's name begins the other's."""
    text = """(float[n, 1, 8, 8] x) => (float[n, 8, 4, 4] y) {
        [block] c = Conv<kernel_shape = [3, 3]>(x, v, b) [relu] r = Relu(c)
        ["block/conv"] y = Conv<kernel_shape = [3, 3]>(r, w, b) }"""
    return write(path, text, v=normal(8, 1, 3, 3), w=normal(8, 8, 3, 3), b=normal(8))


@pytest.mark.parametrize(("name", "macs"), [("first", 8 * 4), ("last", 8 * 8)])
def test_a_product_that_lost_its_name(tmp_path: Path, name: str, macs: int) -> None:
    """The MatMul in front of a Dropout is called like the Dropout, and is found all the same."""
    with quantized(static(with_dropout(tmp_path / "net.onnx"), name), rows) as engine:
        assert engine.coverage(rows(9)).pct == pytest.approx(100.0 * macs / (8 * 8 + 8 * 4))


@pytest.mark.parametrize(("name", "macs"), [("block", 4 * 4 * 8 * 8 * 9), ("block/conv", 6 * 6 * 8 * 9)])
def test_a_name_that_begins_another(tmp_path: Path, name: str, macs: int) -> None:
    """To exclude ``block`` is not to exclude ``block/conv``."""
    with quantized(static(nested(tmp_path / "net.onnx"), name), images) as engine:
        result = engine.coverage(images(9))
    assert result.pct == pytest.approx(100.0 * macs / (4 * 4 * 8 * 8 * 9 + 6 * 6 * 8 * 9))
    assert len(result.float_nodes) == 1


def test_a_recurrence_that_is_called_by_a_number(tmp_path: Path) -> None:
    """An excluded LSTM compiles, runs in float and is counted as such: 5 steps x 4 samples x 4 gates of 8 x (4 + 8)."""
    with quantized(static(recurrent(tmp_path / "net.onnx"), "rnn"), sequences) as engine:
        result = engine.coverage(sequences(9))
    product, recurrence = 4 * 8 * 3, 5 * 4 * 4 * 8 * (4 + 8)
    assert result.unit == "MACs"
    assert result.pct == pytest.approx(100.0 * product / (product + recurrence))
    assert {row.op_type: row.quantized_nodes for row in result.by_op if row.op_type != "Reorder"} == {
        "FullyConnected": 1,
        "RNNSeq": 0,
    }


def test_a_quantized_model_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the CPU plugin cannot run what NNCF made of a layer, as of an LSTM, the way out is named."""
    real = openvino.Core.compile_model

    def without_integers(core: openvino.Core, model: Any, device: str, settings: dict[str, object]) -> object:
        if any(node.get_type_name() == "FakeQuantize" for node in model.get_ordered_ops()):
            raise RuntimeError("last expects Constant for port 5")
        return real(core, model, device, settings)

    spec = static(with_dropout(tmp_path / "net.onnx"))
    ranges, folder = tmp_path / "ranges", tmp_path / "engine"
    ranges.mkdir()
    folder.mkdir()
    backend = get_backend("openvino")
    backend.calibrate(spec, lambda: iter([rows(0)]), ranges)
    backend.build(spec, ranges, folder)
    monkeypatch.setattr(openvino.Core, "compile_model", without_integers)
    with pytest.raises(BuildError, match=r"last expects Constant(.|\n)*in float.*exclude=\[\.\.\.\]"):
        backend.open(spec, folder)


def test_a_model_of_its_own_format(tmp_path: Path) -> None:
    """Nodes of an .xml go by the names in the .xml; one that is not there is refused."""
    model, folder = with_dropout(tmp_path / "net.onnx"), tmp_path / "own"
    folder.mkdir()
    get_backend("openvino").build(EngineSpec("openvino", "fp32", None, model), None, folder)
    own = Model.from_onnx(folder / "model.xml")
    with quantized(static(own, "dropout"), rows) as engine:
        assert engine.coverage(rows(9)).float_nodes == ("dropout",)
    with pytest.raises(UsageError, match="exclude names a node"), quantized(static(own, "first"), rows):
        pass


WEIGHTS = normal(8, 8)


def awkward(path: Path) -> Model:
    """Colons and slashes, an input that nothing uses, a weight among the inputs, an output used inside too."""
    text = """(float[n, 3] unused, float[8, 8] w, float[n, 8] second, float[n, 8] "in:0")
        => (float[n, 8] again, float[n, 8] "y.1", float[n, 8] "a/b:0", float[n, 8] z) {
        [product] "a/b:0" = MatMul("in:0", w) [relu] z = Relu("a/b:0") [times] "y.1" = Mul(z, second)
        [same] again = Identity("y.1") }"""
    return write(path, text, w=WEIGHTS)


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
    with quantized(spec, feeds if scheme else None) as engine:
        result = engine.run(given)
    assert list(result) == ["again", "y.1", "a/b:0", "z"]
    assert {each.name for each in engine.signature.inputs} == set(given)
    for name, array in wanted.items():
        np.testing.assert_allclose(result[name], array, atol=tolerance * float(np.abs(array).max()))
