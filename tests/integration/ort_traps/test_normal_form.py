"""The normal form of a graph computes what the graph did, and is quantized as any other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper, parser

from pytest_quant.backends.onnx_files import read_signature
from pytest_quant.backends.onnx_files.graphs import all_nodes
from pytest_quant.backends.onnx_files.normalize import is_normal, normal_file, normalize_model
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.support.models import parsed, run_unoptimized

OPSETS = range(9, 22)
_IR = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 19: 9, 20: 9, 21: 10}

CHANGED = {
    "batchnorm": (0, "", "{y} = BatchNormalization({x}, eight, eight, eight, ones)"),
    "clip": (11, "{y} = Clip<min = 0.0, max = 6.0>({x})", "{y} = Clip({x}, zero, six)"),
    "pad": (11, "{y} = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>({x})", "{y} = Pad({x}, pads)"),
    "reduce_sum": (13, "{y} = ReduceSum<axes = [3], keepdims = 1>({x})", "{y} = ReduceSum<keepdims = 1>({x}, at_3)"),
    "slice": (10, "{y} = Slice<starts = [0], ends = [3], axes = [2]>({x})", "{y} = Slice({x}, at_0, at_3, at_2)"),
    "softmax": (0, "", "{y} = Softmax<axis = 1>({x})"),
    "split": (
        13,
        "a, b = Split<axis = 1, split = [4, 4]>({x}) {y} = Concat<axis = 1>(b, a)",
        "a, b = Split<axis = 1>({x}, fours) {y} = Concat<axis = 1>(b, a)",
    ),
    "squeeze": (
        13,
        "u = Unsqueeze<axes = [0]>({x}) {y} = Squeeze<axes = [0]>(u)",
        "u = Unsqueeze({x}, at_0) {y} = Squeeze(u, at_0)",
    ),
}
"""Operators whose form or meaning changed: the first opset of the new form, the old form, and the new one."""


def network(opset: int, *names: str) -> onnx.ModelProto:
    """Return a convolution, the named operators and a product, in that opset, with weights in Constant nodes."""
    lines, last = ["t = Conv<kernel_shape = [3, 3]>(x, kernel, eight)"], "t"
    for name in names:
        since, old, new = CHANGED[name]
        lines.append((old if opset < since else new).format(x=last, y=name))
        last = name
    lines.append(f"p = GlobalAveragePool({last}) f = Flatten(p) y = Gemm<transB = 1>(f, matrix, five)")
    head = f'<ir_version: {_IR.get(opset, 8)}, opset_import: ["" : {opset}]>'
    model = parser.parse_model(f"{head} network (float[n, 3, 6, 6] x) => (float[n, 5] y) {{ {' '.join(lines)} }}")
    rng = np.random.default_rng(0)
    constants: dict[str, ArrayLike] = {
        **{f"at_{axis}": [axis] for axis in (0, 2, 3)},
        "zero": np.float32(0),
        "six": np.float32(6),
        "fours": [4, 4],
        "pads": [0, 0, 1, 1, 0, 0, 1, 1],
        "ones": np.ones(8, np.float32),
        **{
            name: (0.4 * rng.normal(size=shape)).astype(np.float32)
            for name, shape in (("kernel", (8, 3, 3, 3)), ("eight", 8), ("matrix", (5, 8)), ("five", 5))
        },
    }
    read = {name for node in model.graph.node for name in node.input}
    for place, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{place}"
    for name in sorted(read & constants.keys()):
        value = numpy_helper.from_array(np.asarray(constants[name]))
        model.graph.node.insert(0, helper.make_node("Constant", [], [name], value=value))
    return model


SOURCES = {
    "initializer": 9,
    "value": 9,
    "value_floats": 12,
    "identity": 9,
    "function": 15,
    "body": 9,
    "body_identity": 9,
}
"""Where a constant stands, and the first opset in which it may."""


def _model(opset: int, sources: Sequence[str]) -> onnx.ModelProto:
    """Return a graph x -> y of additions and products with constants; before opset 11 initializers are inputs too."""
    last, lines, stored = "x", ["on = Constant<value = bool {1}>()"], []
    for place, source in enumerate(sources):
        constant = f"Constant<value = float[4] {{{place}, -1.5, 0, 2}}>()"
        if source in ("initializer", "identity"):
            stored.append(f"float[4] s{place} = {{{place}, 0, 1.5, -2}}")
        read = f"s{place}" if source == "initializer" else f"c{place}"
        lines += {
            "value": [f"{read} = {constant}"],
            "value_floats": [f"{read} = Constant<value_floats = [0.5, {place}.0, -1.0, 2.0]>()"],
            "identity": [f"{read} = Identity(s{place})"],
        }.get(source, [])
        if source == "function":
            lines.append(f"t{place} = my.shift({last})")
        elif source.startswith("body"):
            # Both branches have a Constant of one name.
            same = "e = Identity(c)" if source == "body_identity" else ""
            bodies = (
                f"{side} = {side} () => (float[n, 4] {side}{place}) "
                f"{{ c = {constant} {same} {side}{place} = {op}({last}, {'e' if same else 'c'}) }}"
                for side, op in (("then_branch", "Add"), ("else_branch", "Mul"))
            )
            lines.append(f"t{place} = If(on)<{', '.join(bodies)}>")
        else:
            lines.append(f"t{place} = {('Add', 'Mul', 'Sub')[place % 3]}({last}, {read})")
        last = f"t{place}"
    ir_version = 3 if opset < 11 else 10 if opset == 21 else 8
    functions = ' , "my" : 1' if "function" in sources else ""
    text = f"""<ir_version: {ir_version}, opset_import: ["" : {opset}{functions}]>
    drawn (float[n, 4] x) => (float[n, 4] {last}) <{", ".join(stored)}> {{ {" ".join(lines)} }}"""
    if functions:
        text += f"""<domain: "my", opset_import: ["" : {opset}]> shift (v) => (w) {{
            c = Constant<value = float[4] {{0, 1, 2, 3}}>() w = Add(v, c) }}"""
    model = parser.parse_model(text)
    if opset < 11:
        model.graph.input.extend(
            helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, [4]) for tensor in model.graph.initializer
        )
    return model


@st.composite
def _drawn(draw: st.DrawFn) -> onnx.ModelProto:
    opset = draw(st.sampled_from(OPSETS))
    allowed = [name for name, since in SOURCES.items() if since <= opset]
    return _model(opset, draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=5)))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@settings(max_examples=60)
@given(_drawn())
def test_it_computes_the_same_bit_for_bit(model: onnx.ModelProto) -> None:
    """Constants from anywhere, in any opset: equal outputs, no Constant left, the file as it was."""
    feeds = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
    with TemporaryDirectory() as folder:
        source, works = Path(folder) / "model.onnx", [Path(folder) / name for name in ("a", "b")]
        for work in works:
            work.mkdir()
        onnx.save_model(model, source)
        before = _digest(source)
        target, again = (normal_file(source, work) for work in works)
        assert _digest(source) == before
        assert _digest(target) == _digest(again)
        wanted, result = run_unoptimized(source, feeds), run_unoptimized(target, feeds)
        normal = onnx.load(target)
        assert [each.name for each in normal.graph.input] == ["x"]
        assert read_signature(target) == read_signature(source)
    assert wanted.keys() == result.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(result[name], values)
    assert not [node for node in all_nodes(normal) if node.op_type == "Constant"]
    assert not normal.functions
    onnx.checker.check_model(normal)


IN = "<ir_version: 8, opset_import: ['' : 17]> g (float[n, 4] x) => (float[n, 4] y)".replace("'", '"')
NORMAL_OR_NOT = {
    "normal": (f"{IN} <float[4] w = {{1, 2, 3, 4}}> {{ y = Add(x, w) }}", True),
    "an Identity of a tensor": (f"{IN} {{ t = Identity(x) y = Relu(t) }}", True),
    "a Constant": (f"{IN} {{ w = Constant<value_floats = [1.0]>() y = Add(x, w) }}", False),
    "an Identity of weights": (f"{IN} <float[4] w = {{1, 2, 3, 4}}> {{ v = Identity(w) y = Add(x, v) }}", False),
    "an old file": (f"{IN.replace('8', '3', 1)} <float[4] w = {{1, 2, 3, 4}}> {{ y = Add(x, w) }}", False),
    "weights as an input": (
        f"{IN.replace(' x)', ' x, float[4] w)')} <float[4] w = {{1, 2, 3, 4}}> {{ y = Add(x, w) }}",
        False,
    ),
}


@pytest.mark.parametrize(("text", "wanted"), NORMAL_OR_NOT.values(), ids=NORMAL_OR_NOT)
def test_a_graph_in_its_normal_form_is_found_so(text: str, wanted: bool) -> None:
    """It is the graph that the steps leave as it is, to the byte."""
    before = parser.parse_model(text).SerializeToString(deterministic=True)
    after = normalize_model(parser.parse_model(text)).SerializeToString(deterministic=True)
    assert is_normal(parser.parse_model(text)) is wanted is (before == after)


@settings(deadline=None)
@given(_drawn())
def test_a_graph_that_the_steps_change_is_none(model: onnx.ModelProto) -> None:
    """Bodies, functions, and whatever else these have: none is called normal that the steps change."""
    before = model.SerializeToString(deterministic=True)
    copy = onnx.ModelProto.FromString(before)
    assert not is_normal(copy) or normalize_model(model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("constant", "wanted"),
    [
        ("value_float = 0.1", np.float32(0.1)),
        ("value_floats = [0.1, 2.0]", np.array([0.1, 2.0], np.float32)),
        ("value_int = -3", np.int64(-3)),
        ("value_ints = [1, 2]", np.array([1, 2], np.int64)),
        ('value_string = "café"', np.array("café", object)),
        ('value_strings = ["a", "b"]', np.array(["a", "b"], object)),
        ("value = bool[1, 1] {1}", np.array([[True]])),
    ],
)
def test_every_kind_of_constant(constant: str, wanted: NDArray[np.generic], tmp_path: Path) -> None:
    """Each attribute becomes an initializer of its dtype and shape."""
    parsed(tmp_path / "m.onnx", f"() => (int64 y) {{ c = Constant<{constant}>() y = Size(c) }}", 13)
    (tensor,) = onnx.load(normal_file(tmp_path / "m.onnx", tmp_path)).graph.initializer
    result = numpy_helper.to_array(tensor)
    assert (result.dtype.kind, result.shape) == (np.asarray(wanted).dtype.kind, np.shape(wanted))
    assert result.tolist() == np.asarray(wanted).tolist()


def test_a_constant_that_is_a_result_stays(tmp_path: Path) -> None:
    """A graph and a body may give a constant; no runtime is asked to give an initializer away."""
    parsed(tmp_path / "m.onnx", "() => (float y) { y = Constant<value_float = 2.0>() }", 13)
    normal = normal_file(tmp_path / "m.onnx", tmp_path)
    assert [node.op_type for node in onnx.load(normal).graph.node] == ["Constant"]


def test_external_data_is_carried_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights beside the model are read, and lie beside the result where they are too large for it."""
    monkeypatch.setattr("pytest_quant.backends.onnx_files.EMBED_BYTES", 0)
    (tmp_path / "out").mkdir()
    model = _model(17, ["initializer", "value"])
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1024, np.float32), "large"))
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    normal = normal_file(tmp_path / "m.onnx", tmp_path / "out")
    assert sorted(file.name for file in normal.parent.iterdir()) == ["normal.onnx", "normal.onnx.data"]
    feeds = {"x": np.ones((2, 4), np.float32)}
    wanted, result = (run_unoptimized(file, feeds) for file in (tmp_path / "m.onnx", normal))
    np.testing.assert_array_equal(result["t1"], wanted["t1"])


def test_a_normal_graph_is_read_where_it_lies_unless_its_weights_lie_beside_it(tmp_path: Path) -> None:
    """ONNX Runtime copies the file without what is beside it when inference over symbols gives up."""
    graph = "(float[n, 2] x) => (float[n, 2] y) { y = MatMul(x, w) }"
    path = parsed(tmp_path / "m.onnx", graph, 17, w=np.eye(2, dtype=np.float32))
    assert normal_file(path, tmp_path) == path
    (tmp_path / "out").mkdir()
    beside = tmp_path / "n.onnx"
    onnx.save_model(onnx.load(path), beside, save_as_external_data=True, location="w.bin", size_threshold=0)
    copied = normal_file(beside, tmp_path / "out")
    assert copied.parent == tmp_path / "out"
    assert not any(tensor.external_data for tensor in onnx.load(copied, load_external_data=False).graph.initializer)


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("opset", [9, 12])
def test_a_raised_opset_computes_the_same(opset: int, name: str, tmp_path: Path) -> None:
    """Forms and defaults that changed are spelled anew by ONNX's converter."""
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)}
    onnx.save_model(network(opset, name), tmp_path / "m.onnx")
    normal = normal_file(tmp_path / "m.onnx", tmp_path, per_channel=True)
    assert onnx.load(normal).opset_import[0].version == 17
    wanted, result = (run_unoptimized(file, feeds)["y"] for file in (tmp_path / "m.onnx", normal))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scheme", ["static", "dynamic", "weight-only"])
@pytest.mark.parametrize("opset", [9, 11, 13, 18, 21])
def test_every_opset_is_quantized(opset: int, scheme: str, tmp_path: Path) -> None:
    """Weights in Constant nodes, forms of that opset: each scheme builds, with int8 or int4 and close to the float."""
    onnx.save_model(network(opset, "clip", "squeeze", "split", "pad"), tmp_path / "m.onnx")
    feeds = {"x": np.random.default_rng(1).normal(size=(16, 3, 6, 6)).astype(np.float32)}
    wanted = run_unoptimized(tmp_path / "m.onnx", feeds)
    with engine_of(spec_of(Model.from_onnx(tmp_path / "m.onnx"), scheme), lambda: iter([feeds])) as engine:
        assert (engine.coverage(feeds).pct or 0) > 0
        assert sqnr_db(wanted, engine.run(feeds)) > (10 if scheme == "weight-only" else 25)
