"""Layers of real engines: every node of the user's model is found again, fused, quantized or laid out anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.readback import LayerTime
from pytest_quant.spec import EngineSpec, Model
from tests.integration.ort_traps.bench import engine_of, spec_of
from tests.support.models import save

DIGITS = Path(__file__).parents[3] / "example_project" / "digits.onnx"
NODES = tuple(f"layer{number}" for number in range(9))
PRODUCTS = ("layer0", "layer2", "layer5", "layer8")
"""Three convolutions, each with a Relu behind it, and the Gemm."""


def _feeds(seed: int = 0) -> Feeds:
    return {"image": np.random.default_rng(seed).random((4, 1, 8, 8), dtype=np.float32)}


def _batches() -> Iterator[Feeds]:
    return iter([_feeds(seed) for seed in range(3)])


def _layers(spec: EngineSpec) -> tuple[LayerTime, ...]:
    with engine_of(spec, _batches) as engine:
        return engine.layer_times(_feeds())


@pytest.mark.parametrize("scheme", [None, "static", "dynamic", "weight-only"])
def test_every_node_is_found_again(scheme: str | None) -> None:
    """Each node of the model is in a layer, each layer has a time, and a product is computed by one layer."""
    layers = _layers(spec_of(Model.from_onnx(DIGITS), scheme))
    assert {node for layer in layers for node in layer.nodes} == set(NODES)
    assert all(layer.ms is not None and layer.ms > 0.0 for layer in layers)
    result = Counter(node for layer in layers for node in layer.nodes if layer.role == "compute")
    assert [result[name] for name in PRODUCTS] == [1, 1, 1, 1]
    assert {layer.role for layer in layers} <= {"compute", "reformat"}
    if scheme in (None, "static"):
        computed = {layer.precision for layer in layers if set(layer.nodes) & set(PRODUCTS)}
        assert computed == {"fp32" if scheme is None else "int8"}


def test_the_layers_are_those_of_a_timed_session(tmp_path: Path) -> None:
    """The operators that run are those of the graph that an ordinary session makes, blocked layouts included."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    settings.optimized_model_filepath = str(tmp_path / "usual.onnx")
    onnxruntime.InferenceSession(str(DIGITS), settings, providers=["CPUExecutionProvider"])
    usual = [node.op_type for node in onnx.load(tmp_path / "usual.onnx").graph.node]
    assert Counter(layer.op for layer in _layers(spec_of(Model.from_onnx(DIGITS), None))) == Counter(usual)


def test_a_loop_is_one_layer(tmp_path: Path) -> None:
    """The times of the nodes in its body are in its own."""
    graph = onnx.parser.parse_graph(
        """
        looping (float[n, 4] image) => (float[n, 4] y) <int64 turns = {50}, bool go = {1}> {
            [before] a = Relu(image)
            [loop] y = Loop(turns, go, a) <body = body (int64 i, bool c, float[n, 4] s)
                => (bool d, float[n, 4] t) { d = Identity(c) [inside] t = Exp(s) }>
        }
        """
    )
    model = Model.from_onnx(save(graph, tmp_path / "loop.onnx", 17))
    with engine_of(spec_of(model, None), _batches) as engine:
        assert isinstance(engine, OrtEngine)
        layers = engine.layer_times({"image": np.zeros((2, 4), np.float32)})
    assert [(layer.op, layer.nodes) for layer in layers] == [("Relu", ("before",)), ("Loop", ("loop",))]
    assert all(layer.ms is not None for layer in layers)
