"""A build without the detailed verbosity, as ONNX Runtime builds: what the log of TensorRT still tells of layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files import read_graph
from pytest_quant.backends.trt.coverage import count_layers, layers_in_log, ops_of
from pytest_quant.backends.trt.graph import GRAPH_FILE
from pytest_quant.backends.trt.provider_build import layers_in_summary
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.testing.conformance.workbench import build


def test_the_log_lists_layers_with_types_all_the_same(tmp_path: Path) -> None:
    """One line for each layer, with the types that it reads; of a network that was compiled whole it is one line."""
    trt = pytest.importorskip("tensorrt_rtx")
    example = conv()
    spec = EngineSpec("trt-rtx", "int8", "static", example.write(tmp_path), options=(("compute_capability", "SM89"),))
    folder = build(get_backend("trt-rtx"), spec, example, tmp_path)
    log = _build(trt, folder / GRAPH_FILE)
    assert layers_in_log(log) == []
    ops = ops_of(read_graph(folder / GRAPH_FILE).graph)
    layers = layers_in_summary(log, ops)
    assert [(layer.kind, layer.input_types) for layer in layers] == [("Myelin", ("Float",))]
    assert layers[0].name.startswith("{ForeignNode[")
    found = count_layers(layers, ops, "int8", "TensorRT-RTX", {})
    assert (found.pct, found.opaque_nodes) == (None, sum(op in ("Conv", "Gemm", "MatMul") for op in ops.values()))


def _build(module: Any, graph: Path) -> str:
    """Build with the default verbosity and return what was logged."""
    lines: list[str] = []

    class Logger(module.ILogger):  # type: ignore[misc]
        """Keeps every severity, as ONNX Runtime does for a detailed log."""

        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: object, msg: str) -> None:
            lines.append(f"[{str(severity).rpartition('.')[2]}] {msg}")

    logger = Logger()
    builder = module.Builder(logger)
    network = builder.create_network(0)
    parser = module.OnnxParser(network, logger)
    assert parser.parse_from_file(str(graph))
    config = builder.create_builder_config()
    assert config.profiling_verbosity == module.ProfilingVerbosity.LAYER_NAMES_ONLY
    config.num_compute_capabilities = 1
    config.set_compute_capability(module.ComputeCapability.SM89, 0)
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        sizes = [8 if size < 0 else size for size in (entry.shape[axis] for axis in range(len(entry.shape)))]
        profile.set_shape(entry.name, sizes, sizes, sizes)
    config.add_optimization_profile(profile)
    assert builder.build_serialized_network(network, config) is not None
    return "\n".join(lines)
