"""The graph written in sixteen-bit floats, whole or beside INT8, on the real TensorRT-RTX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.testing import assert_allclose
from onnx import numpy_helper

from pytest_quant.backends import Backend, Feeds, get_backend
from pytest_quant.backends.ort.half import write_half
from pytest_quant.backends.trt.build import LAYERS_FILE, write_plan
from pytest_quant.backends.trt.coverage import count_layers, macs_by_node, ops_of, read_layers
from pytest_quant.backends.trt.network import GRAPH_FILE
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, InputShapes, Model
from pytest_quant.testing.conformance.examples import conv, sqnr_db
from tests.integration.ort_traps.test_normal_form import network
from tests.integration.ort_traps.test_subgraphs import HOLDERS, captured
from tests.integration.trt_traps.networks import images
from tests.integration.trt_traps.test_deployed import bert, sentences, yolo
from tests.support.measuring import numbers
from tests.support.models import parsed, run_unoptimized

HALF_DB = 55.0
"""A rounding to 11 bits is 20 log10(sqrt(12) * 2**11) = 77 dB below its value; a dozen of them in a row are left 22."""

MODELS = {f"opset-{opset}": network(opset, "clip", "split") for opset in (9, 13, 21)} | {
    holder: captured("relu", holder, "t") for holder in HOLDERS
}


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_layers_compute_in_the_type_of_the_graph(kind: str, tmp_path: Path) -> None:
    """On the real TensorRT-RTX, which like TensorRT 11 has strong types only and no flag for either."""
    example = conv()
    spec = EngineSpec("trt", kind, None, example.write(tmp_path), options=(("compute_capability", "SM89"),))
    write_plan(spec, None, tmp_path, module="tensorrt_rtx")
    layers = read_layers(tmp_path / LAYERS_FILE)
    graph = tmp_path / GRAPH_FILE
    macs = macs_by_node(graph, example.feeds(4, 1))
    assert count_layers(layers, ops_of(onnx.load(graph).graph), kind, "", macs).pct == 100.0


def test_bfloat16_is_rounded_once(tmp_path: Path) -> None:
    """To eight bits, from float32 and not by way of float16, which cannot hold 1e-20 and 1e20."""
    values = np.array([1e-20, 1e20, 1.00390625, 3.0, -0.1, np.inf], np.float32)
    model = parsed(tmp_path / "m.onnx", "(float[6] x) => (float[6] y) { [product] y = Mul(x, w) }", w=values)
    write_half(model, tmp_path / "half.onnx", "bf16")
    (tensor,) = onnx.load(tmp_path / "half.onnx").graph.initializer
    assert tensor.data_type == onnx.TensorProto.BFLOAT16
    result = numpy_helper.to_array(tensor).astype(np.float32)
    torch = pytest.importorskip("torch")
    assert_allclose(result, torch.from_numpy(values).to(torch.bfloat16).float().numpy(), rtol=0)


def test_what_is_computed_of_sizes_may_be_read_twice(tmp_path: Path) -> None:
    """By one node: the converter writes a cast for each, of one name, as for both initial states of an LSTM."""
    graph = """(float[n, 4] x) => (float[n, 4] y) {
        [sizes] sizes = Shape(x) [start] start = ConstantOfShape(sizes) [twice] twice = Add(start, start)
        [product] a = MatMul(x, w) [sum] y = Add(a, twice)
    }"""
    write_half(parsed(tmp_path / "m.onnx", graph, w=numbers(4, 4)), tmp_path / "half.onnx")
    outputs = [name for node in onnx.load(tmp_path / "half.onnx").graph.node for name in node.output]
    assert len(outputs) == len(set(outputs))
    feeds = {"x": numbers(4, 4, seed=1)}
    wanted, result = (run_unoptimized(tmp_path / file, feeds) for file in ("m.onnx", "half.onnx"))
    assert sqnr_db(wanted, result) > HALF_DB


def test_a_model_without_weights_has_no_float16(tmp_path: Path) -> None:
    """What changes nothing must not score as float16."""
    model = parsed(tmp_path / "m.onnx", "(float[n, 4] x) => (float[n, 4] y) { y = Flatten (x) }")
    with pytest.raises(BuildError, match="no float32 weights"):
        write_half(model, tmp_path / "half.onnx")


@pytest.mark.parametrize("name", MODELS)
def test_weights_in_constant_nodes_become_float16(name: str, tmp_path: Path) -> None:
    """As exporters of Paddle models write them, and beside bodies that read what is converted."""
    onnx.save_model(MODELS[name], tmp_path / "m.onnx")
    write_half(tmp_path / "m.onnx", tmp_path / "half.onnx")
    tensors = onnx.load(tmp_path / "half.onnx").graph.initializer
    assert any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in tensors)
    assert not any(tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1 for tensor in tensors)
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)}
    wanted, result = (run_unoptimized(tmp_path / file, feeds) for file in ("m.onnx", "half.onnx"))
    assert sqnr_db(wanted, result) > HALF_DB


RTX: Backend = get_backend("trt-rtx")
KINDS = {"fp32": "Float", "fp16": "Half", "bf16": "BFloat16"}
"""Names of the types in the builder's log."""


def detector(folder: Path) -> tuple[EngineSpec, Feeds]:
    """All but its coarse head in INT8, and four pictures."""
    return spec_of(yolo(folder), {"images": np.stack(images(((64, 64),) * 4))}, "coarse_head")


def encoder(folder: Path) -> tuple[EngineSpec, Feeds]:
    """All but its last product in INT8, and four sentences."""
    texts = sentences((9,) * 4)
    return spec_of(bert(folder), {name: np.stack([text[name] for text in texts]) for name in ("ids", "mask")}, "class")


def spec_of(path: Path, feeds: Feeds, excluded: str) -> tuple[EngineSpec, Feeds]:
    """An engine tuned for the shapes of `feeds`, and for larger ones, so that sizes are computed while it runs."""
    shapes = tuple(
        InputShapes(name, array.shape, array.shape, tuple(size if size == 3 else 2 * size for size in array.shape))
        for name, array in feeds.items()
    )
    options = (("compute_capability", "SM89"),)
    spec = EngineSpec("trt-rtx", "int8", "static", Model.from_onnx(path), exclude=(excluded,), options=options)
    return replace(spec, shapes=shapes), feeds


def having(spec: EngineSpec, kind: str) -> EngineSpec:
    """`spec` with floats of another type; only `trt` has bfloat16, and builds the same."""
    return replace(spec, backend="trt", options=(*spec.options, ("beside", kind)))


def built(spec: EngineSpec, feeds: Feeds, folder: Path) -> tuple[Coverage, list[str]]:
    """Build; return what ran in INT8, and the types that the layers of the excluded node read."""
    ranges = folder.parent / "ranges"
    if spec.scheme == "static" and not ranges.exists():
        ranges.mkdir()
        RTX.calibrate(replace(spec, backend="trt-rtx", options=spec.options[:1]), lambda: iter([feeds]), ranges)
    folder.mkdir()
    write_plan(spec, ranges if spec.scheme == "static" else None, folder, module="tensorrt_rtx")
    layers = read_layers(folder / LAYERS_FILE)
    graph = folder / GRAPH_FILE
    result = count_layers(layers, ops_of(onnx.load(graph).graph), "int8", "", macs_by_node(graph, feeds))
    (left,) = spec.exclude or result.float_nodes
    products = [layer for layer in layers if left in layer.nodes and layer.kind != "kgen"]
    return result, sorted({layer.input_types[0] for layer in products})


@pytest.mark.parametrize("example", [detector, encoder])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_int8_stays_and_the_rest_changes(example: type, kind: str, tmp_path: Path) -> None:
    """The same products in INT8, by MACs and by name; the one that was left in float reads the other type."""
    spec, feeds = example(tmp_path)
    before, left = built(having(spec, "fp32"), feeds, tmp_path / "fp32")
    result, left_there = built(having(spec, kind), feeds, tmp_path / kind)
    assert before.pct is not None
    assert 0 < before.pct < 100
    assert (result.pct, result.by_op, result.float_nodes) == (before.pct, before.by_op, before.float_nodes)
    assert (left, left_there) == ([KINDS["fp32"]], [KINDS[kind]])


def test_a_model_that_arrives_quantized(tmp_path: Path) -> None:
    """Its pairs, of an opset whose pairs are float32 only, are turned with the rest."""
    spec, feeds = detector(tmp_path)
    before, _ = built(spec, feeds, tmp_path / "before")
    quantized = Model.from_onnx(tmp_path / "before" / GRAPH_FILE)
    arrived = replace(spec, scheme="given", quantized=quantized, exclude=())
    result, left = built(having(arrived, "fp16"), feeds, tmp_path / "after")
    assert (result.pct, result.float_nodes) == (before.pct, before.float_nodes)
    assert left == [KINDS["fp16"]]
