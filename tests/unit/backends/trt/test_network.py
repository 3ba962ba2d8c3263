"""What TensorRT would compute wrongly is found in the graph before a build; the shapes an engine is built for.

Those are what the options say, else what the data has.
"""

from __future__ import annotations

import ast
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.trt.network import check_graph, largest_batch, profile_of, shape_misfit
from pytest_quant.errors import BuildError, DataError, UsageError
from pytest_quant.spec import EngineSpec, InputShapes, Model, Signature, TensorInfo

PAIR = "[round] q = QuantizeLinear(x, s, z) [back] y = DequantizeLinear(q, s, z)"
SYMMETRIC = "float s = {0.1}, int8 z = {0}"
UNSIGNED = "float s = {0.1}, uint8 z = {0}"


def written(folder: Path, nodes: str, constants: str = "") -> Path:
    """Write a model with these nodes between x and y."""
    head = '<ir_version: 9, opset_import: ["" : 19]> g (float[n, 4] x) => (float[n, 4] y)'
    onnx.save_model(onnx.parser.parse_model(f"{head} <{constants}> {{ {nodes} }}"), folder / "model.onnx")
    return folder / "model.onnx"


def test_a_symmetric_pair_is_taken(tmp_path: Path) -> None:
    """int8 around 0 with one constant scale."""
    check_graph(written(tmp_path, PAIR, SYMMETRIC))


@pytest.mark.parametrize(
    ("nodes", "constants"), [(PAIR, UNSIGNED), (PAIR.replace(", z", ""), "float s = {0.1}")], ids=["told", "default"]
)
def test_a_pair_that_is_refused(tmp_path: Path, nodes: str, constants: str) -> None:
    """TensorRT would read uint8 as int8. The node, the cause and what to do stand in the message."""
    with pytest.raises(BuildError, match="uint8") as caught:
        check_graph(written(tmp_path, nodes, constants))
    assert "node 'round' (QuantizeLinear)" in str(caught.value)
    assert caught.value.fix


def test_ranges_that_lie_beside_zero_are_refused(tmp_path: Path) -> None:
    """Whatever stores the zero point, and of every channel; the file is called what the user calls it."""
    beside = "float s = {0.1}, int8 z = {3}"
    channels = "float[4] s = {0.1, 0.1, 0.1, 0.1}, int8[4] z = {0, 0, 0, 1}"
    stored = f"z = Constant<value = int8 {{-128}}>() {PAIR}"
    for nodes, constants in ((PAIR, beside), (PAIR, channels), (stored, "float s = {0.1}")):
        with pytest.raises(BuildError, match=r"zero point is not 0(.|\n)*; 2 nodes") as caught:
            check_graph(written(tmp_path, nodes, constants), "mine.onnx")
        assert caught.value.what == "TensorRT cannot take mine.onnx: node 'round' (QuantizeLinear)"


def test_a_zero_point_in_a_file_beside_the_model_is_read(tmp_path: Path) -> None:
    """Converters may keep even single values outside."""
    for value, is_taken in ((0, True), (5, False)):
        path = written(tmp_path, PAIR, f"float s = {{0.1}}, int8 z = {{{value}}}")
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
        onnx.save_model(model, path, save_as_external_data=True, location=f"data{value}", size_threshold=0)
        with nullcontext() if is_taken else pytest.raises(BuildError, match="zero point is not 0"):
            check_graph(path)


@pytest.mark.parametrize(
    "op", ["DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"]
)
def test_operators_of_onnx_runtime(tmp_path: Path, op: str) -> None:
    """Operators on integers and ranges found while running are refused by name, with the way out."""
    with pytest.raises(BuildError, match=f"node 'strange' \\({op}\\)") as caught:
        check_graph(written(tmp_path, f"[strange] y = {op}(x)"))
    assert "scheme='static'" in str(caught.value.fix)


def test_biases_of_onnx_runtimes_quantizer(tmp_path: Path) -> None:
    """They are int32 by default."""
    nodes = "[bias] bias = DequantizeLinear(b, s, z) y = Add(x, bias)"
    with pytest.raises(BuildError, match="int32 bias"):
        check_graph(written(tmp_path, nodes, "int32[4] b = {1, 2, 3, 4}, float s = {0.1}, int32 z = {0}"))


@pytest.mark.parametrize("place", ["z = %s", "stored = %s z = Identity(stored)"])
def test_a_zero_point_is_looked_at_wherever_its_constant_stands(tmp_path: Path, place: str) -> None:
    """In a Constant node, or behind an Identity."""
    check_graph(written(tmp_path, f"{place % 'Constant<value = int8 {0}>()'} {PAIR}", "float s = {0.1}"))
    with pytest.raises(BuildError, match="saturates"):
        check_graph(written(tmp_path, f"{place % 'Constant<value = uint8 {0}>()'} {PAIR}", "float s = {0.1}"))


def test_bodies_are_looked_at_too(tmp_path: Path) -> None:
    """A pair inside an If reads the zero point around it by name, and is refused like any other; more are counted."""
    body = f"() => (float[n, 4] r) {{ {PAIR.replace('y =', 'r =')} }}"
    nodes = f"[choice] y = If(yes)<then_branch = one {body}, else_branch = other {body}>"
    check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {SYMMETRIC}"))
    with pytest.raises(BuildError, match=r"node 'round'(.|\n)*saturates(.|\n)*; 4 nodes"):
        check_graph(written(tmp_path, nodes, f"bool yes = {{1}}, {UNSIGNED}"))


IMAGE = Signature((TensorInfo("x", "float32", (None, 3, None, None)),), ())
ROWS = Signature((TensorInfo("x", "float32", (None, 5)),), ())
SEEN = (InputShapes("x", (1, 3, 40, 64), (4, 3, 64, 64), (32, 3, 96, 320)),)


def spec_of(shapes: tuple[InputShapes, ...] = (), **options: object) -> EngineSpec:
    """A spec with these options."""
    return EngineSpec("trt", "fp32", None, Model("m"), options=tuple(sorted(options.items())), shapes=shapes)


def test_the_data_decides() -> None:
    """As it is told."""
    assert profile_of(spec_of(SEEN), IMAGE) == {"x": ((1, 3, 40, 64), (4, 3, 64, 64), (32, 3, 96, 320))}


def test_options_bound_the_batch_alone() -> None:
    """Height and width stay those of the data."""
    result = profile_of(spec_of(SEEN, max_batch=64), IMAGE)["x"]
    assert result == ((1, 3, 40, 64), (4, 3, 64, 64), (64, 3, 96, 320))


def test_without_data_the_batch_is_free() -> None:
    """From one sample to 64, or as many as the options say, tuned for one."""
    assert profile_of(spec_of(), ROWS) == {"x": ((1, 5), (1, 5), (64, 5))}
    assert profile_of(spec_of(max_batch=8), ROWS) == {"x": ((1, 5), (1, 5), (8, 5))}
    with pytest.raises(UsageError, match="axes 2, 3 of input 'x' are free"):
        profile_of(spec_of(), IMAGE)


@given(st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(1, 400), st.integers(1, 400)))
def test_a_run_fits_when_every_axis_does(shape: tuple[int, ...]) -> None:
    """By the definition of a profile: between smallest and largest, axis by axis."""
    profile = profile_of(spec_of(SEEN), IMAGE)
    fits = all(a <= b <= c for a, b, c in zip((1, 3, 40, 64), shape, (32, 3, 96, 320), strict=True))
    wrong = shape_misfit(profile, {"x": np.broadcast_to(np.float32(0), shape)})
    assert (wrong is None) == fits
    assert wrong is None or str(shape) in str(wrong)


@given(st.tuples(st.integers(1, 400), st.just(3), st.integers(1, 999), st.integers(1, 999)))
def test_the_range_that_an_error_proposes_takes_the_run(shape: tuple[int, ...]) -> None:
    """Pasted into the mark as it stands, beside the data that were there before."""
    feeds = {"x": np.broadcast_to(np.float32(0), shape)}
    wrong = shape_misfit(profile_of(spec_of(SEEN), IMAGE), feeds)
    if wrong is not None:
        assert wrong.fix is not None
        options = ast.literal_eval(wrong.fix.removeprefix("write options="))
        assert shape_misfit(profile_of(replace(spec_of(SEEN), options=tuple(options.items())), IMAGE), feeds) is None


def test_a_fixed_model_has_no_profile() -> None:
    """There is nothing to range over."""
    fixed = Signature((TensorInfo("x", "float32", (1, 3)),), ())
    assert profile_of(spec_of((InputShapes("x", (1, 3), (1, 3), (1, 3), None),)), fixed) == {}


def named(**ranges: object) -> EngineSpec:
    """A spec whose mark sets shapes."""
    return EngineSpec("trt", "fp32", None, Model("m"), options=(("shapes", ranges),), shapes=SEEN)


def test_the_largest_batch_that_the_mark_allows() -> None:
    """By either option; the smaller of the two."""
    leading: dict[str, int | None] = {"x": 0}
    assert largest_batch(spec_of(), IMAGE, leading) is None
    assert largest_batch(spec_of(max_batch=8), IMAGE, leading) == 8
    spec = named(x=[(1, 3, 40, 64), (4, 3, 64, 64), (16, 3, 96, 320)])
    assert largest_batch(spec, IMAGE, leading) == 16
    assert largest_batch(spec, IMAGE, {"x": 2}) == 96
    assert largest_batch(spec, IMAGE, {"x": None}) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([(1, 3, 32, 32)], "option 'shapes'"),
        ([(1, 3, 32), (1, 3, 32, 32), (1, 3, 32, 32)], "option 'shapes'"),
        ([(4, 3, 32, 32), (1, 3, 32, 32), (8, 3, 32, 32)], "option 'shapes'"),
        ([(1, 3, 32, 32.0), (1, 3, 32, 32), (8, 3, 32, 32)], "option 'shapes'"),
        ([(1, 3, True, 32), (1, 3, 32, 32), (8, 3, 32, 32)], "option 'shapes'"),
        ([(1, 3, -1, 32), (1, 3, 32, 32), (8, 3, 32, 32)], "option 'shapes'"),
    ],
)
def test_a_range_that_is_none_is_refused_by_its_form(value: object, message: str) -> None:
    """When tests are collected: three of one length, whole numbers, in order."""
    from pytest_quant.backends.trt import TrtBackend

    with pytest.raises(UsageError, match=message):
        TrtBackend().check(named(x=value))


def test_data_outside_is_told_with_a_range_that_holds_both() -> None:
    """What the mark has and what the data has, or the option that bounds the batch that is timed."""
    with pytest.raises(DataError) as caught:
        profile_of(named(x=[(1, 3, 64, 32), (2, 3, 64, 64), (32, 3, 640, 160)]), IMAGE)
    assert "{'x': [(1, 3, 40, 32), (4, 3, 64, 64), (32, 3, 640, 320)]}" in str(caught.value)
    with pytest.raises(DataError, match="'max_batch': 32"):
        profile_of(spec_of(SEEN, max_batch=2), IMAGE)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": [(1,), (1,), (1,)]}, "no input 'y'"),
        ({"x": [(1, 3, 8), (1, 3, 8), (1, 3, 8)]}, "has other axes"),
        ({"x": [(1, 4, 40, 64), (4, 4, 64, 64), (32, 4, 96, 320)]}, "has other axes"),
    ],
)
def test_shapes_that_are_not_the_models(shapes: dict[str, object], message: str) -> None:
    """A name, a rank and a fixed axis are checked against the model."""
    with pytest.raises(UsageError, match=message) as caught:
        profile_of(named(**shapes), IMAGE)
    if "has other axes" in message:
        assert caught.value.allowed == "(any, 3, any, any)"
        axes = [3 if size == "3" else 50 for size in caught.value.allowed.strip("()").split(", ")]
        assert profile_of(replace(named(x=[axes, axes, axes]), shapes=()), IMAGE) == {"x": ((50, 3, 50, 50),) * 3}
