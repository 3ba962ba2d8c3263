"""float16 graphs: weights count wherever they stand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from pytest_quant.backends.ort.prepare import run_unoptimized
from pytest_quant.backends.trt.preflight import write_half
from pytest_quant.testing.conformance.workbench import sqnr_db
from tests.integration.ort_traps.opsets import network
from tests.integration.ort_traps.subgraphs import HOLDERS, captured

HALF_DB = 55.0
"""A rounding to 11 bits is 20 log10(sqrt(12) * 2**11) = 77 dB below its value; a dozen of them in a row are left 22."""

MODELS = {f"opset-{opset}": network(opset, "clip", "split") for opset in (9, 13, 21)} | {
    holder: captured("relu", holder, "t") for holder in HOLDERS
}


@pytest.mark.parametrize("name", MODELS)
def test_weights_in_constant_nodes_become_float16(name: str, tmp_path: Path) -> None:
    """As exporters of Paddle models write them, and beside bodies that read what is converted."""
    onnx.save_model(MODELS[name], tmp_path / "m.onnx")
    write_half(tmp_path / "m.onnx", tmp_path / "half.onnx")
    tensors = onnx.load(tmp_path / "half.onnx").graph.initializer
    assert any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in tensors)
    assert not any(tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1 for tensor in tensors)
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)}
    wanted, found = (run_unoptimized(tmp_path / file, feeds) for file in ("m.onnx", "half.onnx"))
    assert sqnr_db(wanted, found) > HALF_DB
