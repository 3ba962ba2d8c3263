"""From a spec to a plan: quantized, checked, parsed, built."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import external_files, model_file, read_graph, read_signature
from pytest_quant.backends.ort.half import write_half
from pytest_quant.backends.trt.configure import BuildRequest
from pytest_quant.backends.trt.gpu.implicit import write_samples
from pytest_quant.backends.trt.options import float_type, parse_options
from pytest_quant.backends.trt.preflight import check_graph
from pytest_quant.backends.trt.profile import profile_of
from pytest_quant.backends.trt.quantize import write_trt_qdq
from pytest_quant.backends.trt.run_builder import run_builder
from pytest_quant.environment.gpu import cuda_gpu
from pytest_quant.spec import EngineSpec

GRAPH_FILE = "model.onnx"
"""The graph that was built, kept beside the plan: what is simulated is exactly this."""

RANGES_FILE = "ranges.cache"
"""What TensorRT's own calibrator found."""

RTX_MODULE = "tensorrt_rtx"
"""It has no plans for other versions and GPUs. In the place of TensorRT it builds without: its plan is not judged."""

BESIDE = {"fp32": [], "fp16": ["FP16"], "bf16": ["BF16"]}
"""Builder flags that let TensorRT 10 compute in another float type where it is faster."""

HALVES = ("fp16", "bf16")
"""Float types that the graph itself is written in: TensorRT 11 and TensorRT-RTX know no other way."""


def write_graph(spec: EngineSpec, calibration: Path | None, folder: Path) -> Path:
    """Write the graph to build and check it, and return its path.

    Parameters
    ----------
    spec : the engine; its model, or the one that arrives quantized, is copied where nothing is quantized here.
    calibration : the folder that the quantizer filled with ranges, from which Q/DQ pairs are made; it is not read
        where TensorRT's own calibrator finds them. ``None`` where there is no calibration.
    folder : gets ``model.onnx`` and the files of its external data.

    Raises
    ------
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime cannot quantize the model, or the graph is one that TensorRT cannot take.
    """
    graph = folder / GRAPH_FILE
    options = parse_options(spec.backend, spec.options)
    if calibration is not None and not options.implicit:
        write_trt_qdq(spec, calibration, graph)
    else:
        _copy(model_file(spec.quantized or spec.model), graph)
    gpu = None if options.compute_capability else cuda_gpu()
    target = options.compute_capability or (gpu and gpu.sm) or ""
    check_graph(graph, calibrator=options.implicit and spec.scheme == "static", target=target)
    return graph


def write_plan(spec: EngineSpec, calibration: Path | None, folder: Path, *, module: str) -> None:
    """Write graph, plan, layers and log into `folder`.

    Parameters
    ----------
    spec : the engine to build.
    calibration : a folder with ranges, of the quantizer or of `write_implicit_ranges`; ``None`` where there are none.
    folder : the folder to write into.
    module : the package that builds, ``tensorrt`` or ``tensorrt_rtx``; only another process imports it.

    Raises
    ------
    UsageError, DataError : see `profile_of`.
    ModelError : the model is missing or broken.
    BuildError : the graph is one that TensorRT cannot take, or the parser or the builder refuses it.
    """
    graph = write_graph(spec, calibration, folder)
    kind = float_type(spec)
    if kind in HALVES:
        write_half(graph, graph, kind)
    request = request_for(spec, graph, module=module)
    if request.calibration and calibration is not None:
        request = replace(request, ranges=str(calibration / RANGES_FILE))
    run_builder(request, f"{spec.id} of {spec.model.name}")


def request_for(spec: EngineSpec, graph: Path, *, module: str) -> BuildRequest:
    """Return the build of `graph` into the folder it lies in, as the options of `spec` ask for it.

    Parameters
    ----------
    spec : the engine to build.
    graph : the ONNX file that `write_graph` wrote.
    module : the package that builds, ``tensorrt`` or ``tensorrt_rtx``.

    Returns
    -------
    A request without `samples` and `ranges`, which the caller adds for TensorRT's own calibrator.

    Raises
    ------
    UsageError, DataError : see `profile_of`.
    """
    options = parse_options(spec.backend, spec.options)
    profile = profile_of(spec, read_signature(graph))
    implicit = options.implicit and spec.scheme == "static"
    flags = ["INT8", *BESIDE[options.rest]] if implicit else []
    return BuildRequest(
        module=module,
        model=str(graph),
        folder=str(graph.parent),
        target=options.compute_capability if module == RTX_MODULE else None,
        workspace_mb=options.workspace_mb,
        optimization_level=options.optimization_level,
        shapes=profile.shapes,
        values=profile.values,
        strongly_typed=not flags,
        precisions=tuple(flags),
        tf32=options.tf32,
        native_instancenorm=options.native_instancenorm,
        version_compatible=options.version_compatible and module != RTX_MODULE,
        hardware_compatibility="" if module == RTX_MODULE else options.hardware_compatible or "",
        timing_cache=options.timing_cache or "",
        calibration=spec.calibration.method if implicit else "",
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a model with the files that its weights lie in, under the names that it knows them by."""
    shutil.copyfile(source, target)
    for location, file in external_files(read_graph(source), source).items():
        beside = target.parent / location
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, beside)


def write_implicit_ranges(spec: EngineSpec, batches: Iterator[Feeds], folder: Path, *, module: str) -> None:
    """Write the ranges that TensorRT's own calibrator finds over `batches` into `folder`.

    Parameters
    ----------
    spec : the engine, with the option ``quantization='implicit'``.
    batches : one pass over the calibration batches, all of the same shapes.
    folder : gets `RANGES_FILE`.
    module : the package that builds, ``tensorrt``; only another process imports it.

    Raises
    ------
    UsageError : see `profile_of`.
    ModelError : the model is missing or broken.
    DataError : there is no batch, or batches differ in shape or do not fit the model.
    BuildError : TensorRT refused the model, or read no batch.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        samples, engine = Path(work) / "samples", Path(work) / "engine"
        samples.mkdir()
        engine.mkdir()
        axes = {shapes.name: shapes.batch_axis for shapes in spec.shapes}
        write_samples(batches, samples, read_signature(model_file(spec.model)), spec.model.name, axes)
        request = request_for(spec, write_graph(spec, None, engine), module=module)
        # The ranges do not depend on kernels, and those that this build finds are thrown away with its plan.
        request = replace(request, optimization_level=0, timing_cache="")
        run_builder(
            replace(request, samples=str(samples), ranges=str(folder / RANGES_FILE)),
            f"{spec.id} of {spec.model.name}, to calibrate it",
        )
