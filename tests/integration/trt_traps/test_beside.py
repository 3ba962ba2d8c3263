"""Explicit INT8 with float16 or bfloat16 around it, on the real TensorRT-RTX, which holds a graph to its types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from pytest_quant.backends import Backend, Feeds, get_backend
from pytest_quant.backends.trt.build import write_plan
from pytest_quant.backends.trt.builder import LAYERS_FILE
from pytest_quant.backends.trt.coverage import count_layers, macs_by_node, ops_of, read_layers
from pytest_quant.backends.trt.graph import GRAPH_FILE
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, InputShapes, Model
from pytest_quant.testing.conformance.workbench import sqnr_db
from tests.integration.trt_traps.deployed import bert, sentences, yolo
from tests.integration.trt_traps.networks import images

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
    found = count_layers(layers, ops_of(onnx.load(graph).graph), "int8", "", macs_by_node(graph, feeds))
    (left,) = spec.exclude or found.float_nodes
    products = [layer for layer in layers if left in layer.nodes and layer.kind != "kgen"]
    return found, sorted({layer.input_types[0] for layer in products})


@pytest.mark.parametrize("example", [detector, encoder])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_int8_stays_and_the_rest_changes(example: type, kind: str, tmp_path: Path) -> None:
    """The same products in INT8, by MACs and by name; the one that was left in float reads the other type."""
    spec, feeds = example(tmp_path)
    before, left = built(having(spec, "fp32"), feeds, tmp_path / "fp32")
    found, left_there = built(having(spec, kind), feeds, tmp_path / kind)
    assert before.pct is not None
    assert 0 < before.pct < 100
    assert (found.pct, found.by_op, found.float_nodes) == (before.pct, before.by_op, before.float_nodes)
    assert (left, left_there) == ([KINDS["fp32"]], [KINDS[kind]])


@pytest.mark.parametrize("example", [detector, encoder])
def test_the_simulation_rounds_as_the_graph_does(example: type, tmp_path: Path) -> None:
    """Other outputs than with float32 around, and about as near to the float model; its ends keep their type."""
    spec, feeds = example(tmp_path)
    wanted = opened(replace(spec, precision="fp32", scheme=None, exclude=()), feeds, tmp_path / "float")
    plain = opened(spec, feeds, tmp_path / "plain")
    half = opened(replace(spec, options=(*spec.options, ("beside", "fp16"))), feeds, tmp_path / "half")
    assert {name: array.dtype for name, array in half.items()} == {name: array.dtype for name, array in plain.items()}
    assert any((half[name] != plain[name]).any() for name in plain)
    assert sqnr_db(wanted, half) > sqnr_db(wanted, plain) - 3


def opened(spec: EngineSpec, feeds: Feeds, folder: Path) -> Feeds:
    """Outputs of the simulation."""
    if spec.scheme:
        built(spec, feeds, folder)
    else:
        folder.mkdir()
        RTX.build(spec, None, folder)
    engine = RTX.open(spec, folder)
    try:
        return engine.run(feeds)
    finally:
        engine.close()


def test_a_model_that_arrives_quantized(tmp_path: Path) -> None:
    """Its pairs, of an opset whose pairs are float32 only, are turned with the rest."""
    spec, feeds = detector(tmp_path)
    before, _ = built(spec, feeds, tmp_path / "before")
    quantized = Model.from_onnx(tmp_path / "before" / GRAPH_FILE)
    arrived = replace(spec, scheme="qat", quantized=quantized, exclude=())
    found, left = built(having(arrived, "fp16"), feeds, tmp_path / "after")
    assert (found.pct, found.float_nodes) == (before.pct, before.float_nodes)
    assert left == [KINDS["fp16"]]
