"""From a spec to a plan: quantized, checked, parsed, built."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_quant.backends.onnx_files import external_files, model_file, read_graph
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt.request import BuildRequest
from pytest_quant.backends.trt.run_builder import run_builder
from pytest_quant.backends.trt_graph import check_graph, write_trt_qdq
from pytest_quant.spec import EngineSpec

GRAPH_FILE = "model.onnx"
"""The graph that was built, kept beside the plan: what is simulated is exactly this."""


def write_graph(spec: EngineSpec, calibration: Path | None, folder: Path) -> Path:
    """Write the graph to build, and check it. Raises `BuildError` when it is one that TensorRT cannot take."""
    graph = folder / GRAPH_FILE
    if calibration is not None:
        write_trt_qdq(spec, calibration, graph)
    else:
        _copy(model_file(spec.quantized or spec.model), graph)
    check_graph(graph, target=parse_options(spec.backend, spec.options).compute_capability or "")
    return graph


def write_plan(spec: EngineSpec, calibration: Path | None, folder: Path, *, module: str) -> None:
    """Write graph, plan, layers and log into `folder`.

    Raises
    ------
    BuildError : the graph is one that TensorRT cannot take, or the parser or the builder refuses it.
    """
    graph = write_graph(spec, calibration, folder)
    options = parse_options(spec.backend, spec.options)
    request = BuildRequest(
        module=module,
        model=str(graph),
        folder=str(folder),
        target=options.compute_capability,
        workspace_mb=options.workspace_mb,
        optimization_level=options.optimization_level,
        max_batch=options.max_batch,
        opt_batch=options.opt_batch,
    )
    run_builder(request, f"{spec.id} of {spec.model.name}")


def _copy(source: Path, target: Path) -> None:
    """Copy a model with the files that its weights lie in, under the names that it knows them by."""
    shutil.copyfile(source, target)
    for location, file in external_files(read_graph(source), source).items():
        beside = target.parent / location
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, beside)
