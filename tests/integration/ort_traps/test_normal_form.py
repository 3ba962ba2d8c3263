"""The normal form of a graph computes what the graph did, and is quantized as any other."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends.onnx_files import read_signature
from pytest_quant.backends.onnx_files.graphs import all_nodes
from pytest_quant.backends.onnx_files.normalize import write_normalized
from pytest_quant.backends.ort.prepare import check_same, run_unoptimized
from pytest_quant.errors import BuildError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.workbench import sqnr_db
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.integration.ort_traps.opsets import CHANGED, OPSETS, network

SOURCES = {
    "initializer": 9,
    "listed": 9,
    "value": 9,
    "value_floats": 12,
    "sparse_value": 11,
    "sparse_initializer": 11,
    "identity": 9,
    "function": 15,
    "body": 9,
    "body_identity": 9,
}
"""Where a constant stands, and the first opset in which it may."""


class _Drawn:
    """A graph x -> y of additions and products with constants from `sources`."""

    def __init__(self, opset: int, sources: list[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.sparse: list[onnx.SparseTensorProto] = []
        self.listed: list[onnx.ValueInfoProto] = []
        self._rng = np.random.default_rng(len(sources))
        self._opset = opset
        last = "x"
        for place, source in enumerate(sources):
            last = self._step(place, source, last)
        self.last = last

    def model(self) -> onnx.ModelProto:
        """Return the whole; before opset 11 in IR version 3, whose initializers are inputs too."""
        if self._opset < 11:
            known = {value.name for value in self.listed}
            self.listed += [
                _value(initializer.name) for initializer in self.initializers if initializer.name not in known
            ]
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]), *self.listed],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, ["n", 4])],
            self.initializers,
            sparse_initializer=self.sparse,
        )
        imports = [helper.make_opsetid("", self._opset), helper.make_opsetid("my", 1)]
        functions = [_function(self._opset)] if any(node.domain == "my" for node in self.nodes) else []
        ir_version = 3 if self._opset < 11 else 10 if self._opset == 21 else 8
        return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir_version)

    def _step(self, place: int, source: str, last: str) -> str:
        name, result = f"c{place}", f"t{place}"
        values = np.where(self._rng.random(4) < 0.5, 0, self._rng.normal(size=4)).astype(np.float32)
        op = ("Add", "Mul", "Sub")[place % 3]
        if source == "function":
            self.nodes.append(helper.make_node("shift", [last], [result], name=f"call{place}", domain="my"))
            return result
        if source.startswith("body"):
            self._body(place, source, last, values)
            return result
        if source in ("initializer", "listed", "identity"):
            stored = f"{name}_stored" if source == "identity" else name
            self.initializers.append(numpy_helper.from_array(values, stored))
            if source == "listed":
                self.listed.append(_value(name))
            if source == "identity":
                self.nodes.append(helper.make_node("Identity", [stored], [name]))
        elif source == "sparse_initializer":
            self.sparse.append(_sparse(values, name))
        else:
            self.nodes.append(_constant(name, source, values))
        self.nodes.append(helper.make_node(op, [last, name], [result], name=f"n{place}"))
        return result

    def _body(self, place: int, source: str, last: str, values: NDArray[np.float32]) -> None:
        """An If both of whose branches have a Constant called ``c``, the name of one in the graph too."""
        branches = {}
        for branch, op in (("then_branch", "Add"), ("else_branch", "Mul")):
            inside = [_constant("c", "value", values)]
            if source == "body_identity":
                inside.append(helper.make_node("Identity", ["c"], ["same"]))
            read = "same" if source == "body_identity" else "c"
            inside.append(helper.make_node(op, [last, read], [f"{branch}{place}"]))
            out = helper.make_tensor_value_info(f"{branch}{place}", TensorProto.FLOAT, ["n", 4])
            branches[branch] = helper.make_graph(inside, branch, [], [out])
        condition = numpy_helper.from_array(np.array(place % 2 == 0))
        self.nodes.append(helper.make_node("Constant", [], [f"on{place}"], value=condition))
        self.nodes.append(helper.make_node("If", [f"on{place}"], [f"t{place}"], **branches))


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])


def _sparse(values: NDArray[np.float32], name: str) -> onnx.SparseTensorProto:
    places = np.flatnonzero(values)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values[places], name), numpy_helper.from_array(places.astype(np.int64)), [4]
    )


def _constant(name: str, kind: str, values: NDArray[np.float32]) -> onnx.NodeProto:
    forms: dict[str, Any] = {
        "value": numpy_helper.from_array(values),
        "value_floats": values.tolist(),
        "sparse_value": _sparse(values, ""),
    }
    return helper.make_node("Constant", [], [name], **{kind: forms[kind]})


def _function(opset: int) -> onnx.FunctionProto:
    nodes = [
        _constant("c", "value", np.arange(4, dtype=np.float32)),
        helper.make_node("Add", ["v", "c"], ["w"], name="inner"),
    ]
    return helper.make_function("my", "shift", ["v"], ["w"], nodes, [helper.make_opsetid("", opset)])


@st.composite
def _drawn(draw: st.DrawFn) -> onnx.ModelProto:
    opset = draw(st.sampled_from(OPSETS))
    allowed = [name for name, since in SOURCES.items() if since <= opset]
    return _Drawn(opset, draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=5))).model()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@settings(max_examples=60)
@given(_drawn())
def test_it_computes_the_same_bit_for_bit(model: onnx.ModelProto) -> None:
    """Constants from anywhere, in any opset: equal outputs, only sparse Constants left, the file as it was."""
    feeds = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
    with TemporaryDirectory() as folder:
        source, target, again = (Path(folder) / name for name in ("model.onnx", "a.onnx", "b.onnx"))
        onnx.save_model(model, source)
        before = _digest(source)
        write_normalized(source, target)
        write_normalized(source, again)
        assert _digest(source) == before
        assert _digest(target) == _digest(again)
        wanted, found = run_unoptimized(source, feeds), run_unoptimized(target, feeds)
        normal = onnx.load(target)
        assert [one.name for one in normal.graph.input] == ["x"]
        assert read_signature(target) == read_signature(source)
    assert wanted.keys() == found.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
    left = [node for node in all_nodes(normal) if node.op_type == "Constant"]
    assert all(attribute.name == "sparse_value" for node in left for attribute in node.attribute)
    assert not normal.functions
    onnx.checker.check_model(normal)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("value_float", 0.1, np.float32(0.1)),
        ("value_floats", [0.1, 2.0], np.array([0.1, 2.0], np.float32)),
        ("value_int", -3, np.int64(-3)),
        ("value_ints", [1, 2], np.array([1, 2], np.int64)),
        ("value_string", "café", np.array("café", object)),
        ("value_strings", ["a", "b"], np.array(["a", "b"], object)),
        ("value", numpy_helper.from_array(np.array([[True]])), np.array([[True]])),
    ],
)
def test_every_kind_of_constant(kind: str, value: Any, wanted: NDArray[np.generic], tmp_path: Path) -> None:
    """Each attribute becomes an initializer of its dtype and shape."""
    constant = helper.make_node("Constant", [], ["c"], **{kind: value})
    tensor_type = helper.np_dtype_to_tensor_dtype(np.asarray(wanted).dtype)
    graph = helper.make_graph(
        [constant, helper.make_node("Size", ["c"], ["y"])],
        "constant",
        [],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
        value_info=[helper.make_tensor_value_info("c", tensor_type, np.shape(wanted))],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "m.onnx")
    write_normalized(tmp_path / "m.onnx", tmp_path / "n.onnx")
    (tensor,) = onnx.load(tmp_path / "n.onnx").graph.initializer
    assert tensor.data_type == tensor_type
    found = numpy_helper.to_array(tensor)
    assert found.shape == np.shape(wanted)
    decoded = [one.decode() if isinstance(one, bytes) else one for one in found.ravel().tolist()]
    assert decoded == np.asarray(wanted).ravel().tolist()


def test_a_constant_that_is_a_result_stays(tmp_path: Path) -> None:
    """A graph and a body may give a constant; no runtime is asked to give an initializer away."""
    nodes = [helper.make_node("Constant", [], ["y"], value_float=2.0)]
    graph = helper.make_graph(nodes, "result", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "m.onnx")
    write_normalized(tmp_path / "m.onnx", tmp_path / "n.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "n.onnx").graph.node] == ["Constant"]


def test_external_data_is_carried_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights beside the model are read, and lie beside the result where they are too large for it."""
    monkeypatch.setattr("pytest_quant.backends.onnx_files.EMBED_BYTES", 0)
    (tmp_path / "out").mkdir()
    model = _Drawn(17, ["initializer", "value"]).model()
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    write_normalized(tmp_path / "m.onnx", tmp_path / "out" / "n.onnx")
    feeds = {"x": np.ones((2, 4), np.float32)}
    wanted, found = (run_unoptimized(file, feeds) for file in (tmp_path / "m.onnx", tmp_path / "out" / "n.onnx"))
    np.testing.assert_array_equal(found["t1"], wanted["t1"])


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("opset", [9, 11, 12])
def test_a_raised_opset_computes_the_same(opset: int, name: str, tmp_path: Path) -> None:
    """Forms and defaults that changed are spelled anew by ONNX's converter; our check agrees."""
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)}
    onnx.save_model(network(opset, name), tmp_path / "m.onnx")
    write_normalized(tmp_path / "m.onnx", tmp_path / "n.onnx", opset=17)
    assert onnx.load(tmp_path / "n.onnx").opset_import[0].version == 17
    check_same(tmp_path / "m.onnx", tmp_path / "n.onnx", feeds)


def test_a_model_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    """The check names output, difference and the way out."""
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)}
    onnx.save_model(network(9, "softmax"), tmp_path / "m.onnx")
    other = network(9, "softmax")
    other.opset_import[0].version = 13  # the axis of a Softmax means another thing there
    onnx.save_model(other, tmp_path / "n.onnx")
    with pytest.raises(BuildError, match="computes something else now") as caught:
        check_same(tmp_path / "m.onnx", tmp_path / "n.onnx", feeds)
    assert "per_channel" in str(caught.value)


@pytest.mark.parametrize("scheme", ["static", "dynamic", "weight-only"])
@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_is_quantized(opset: int, scheme: str, tmp_path: Path) -> None:
    """Weights in Constant nodes, forms of that opset: each scheme builds, with int8 or int4 and close to the float."""
    onnx.save_model(network(opset, "clip", "squeeze", "split", "pad"), tmp_path / "m.onnx")
    feeds = {"x": np.random.default_rng(1).normal(size=(16, 3, 6, 6)).astype(np.float32)}
    wanted = run_unoptimized(tmp_path / "m.onnx", feeds)
    with engine_of(spec_of(Model.from_onnx(tmp_path / "m.onnx"), scheme), lambda: iter([feeds])) as engine:
        assert (engine.coverage(feeds).pct or 0) > 0
        assert sqnr_db(wanted, engine.run(feeds)) > (10 if scheme == "weight-only" else 25)
