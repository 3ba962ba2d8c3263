"""From a spec to a plan: the graph written, the build in a process of its own, and what its refusals mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.apart import TIME_LIMIT_S, ApartError, call_apart
from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import model_file, read_signature
from pytest_quant.backends.ort.half import write_half
from pytest_quant.backends.runtime import failed
from pytest_quant.backends.trt.builder import LOG_FILE, NO_IMPLICIT, SHAPE_INPUT, BuildRequest, build
from pytest_quant.backends.trt.graph import write_graph
from pytest_quant.backends.trt.implicit import write_samples
from pytest_quant.backends.trt.options import Range, calibrates, float_type, parse_options
from pytest_quant.backends.trt.profile import profile_of
from pytest_quant.errors import QuantError
from pytest_quant.files import temporary_folder
from pytest_quant.spec import EngineSpec

_RANGES_FILE = "ranges.cache"
"""What TensorRT's own calibrator found."""

_HALVES = ("fp16", "bf16")
"""Float types that the graph itself is written in: TensorRT 11 and TensorRT-RTX know no other way."""


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
    if kind in _HALVES:
        write_half(graph, graph, kind)
    request = request_for(spec, graph, module=module)
    if request.calibration and calibration is not None:
        request = replace(request, ranges=str(calibration / _RANGES_FILE))
    run_builder(request, f"{spec.id} of {spec.model.name}")


def write_implicit_ranges(spec: EngineSpec, batches: Iterator[Feeds], folder: Path, *, module: str) -> None:
    """Write the ranges that TensorRT's own calibrator finds over `batches` into `folder`.

    Parameters
    ----------
    spec : the engine, with the option ``quantization='implicit'``.
    batches : one pass over the calibration batches, all of the same shapes.
    folder : gets the file with the ranges.
    module : the package that builds, ``tensorrt``; only another process imports it.

    Raises
    ------
    UsageError : see `profile_of`.
    ModelError : the model is missing or broken.
    DataError : there is no batch, or batches differ in shape or do not fit the model.
    BuildError : TensorRT refused the model, or read no batch.
    """
    axes = {shapes.name: shapes.batch_axis for shapes in spec.shapes}
    with temporary_folder() as work:
        signature = read_signature(model_file(spec.model))
        samples = write_samples(batches, signature, spec.model.name, axes, work / "samples")
        request = request_for(spec, write_graph(spec, None, work), module=module)
        # The ranges do not depend on kernels, and those that this build finds are thrown away with its plan.
        options = replace(request.options, optimization_level=0, timing_cache=None)
        request = replace(request, options=options, samples=samples, ranges=str(folder / _RANGES_FILE))
        run_builder(request, f"{spec.id} of {spec.model.name}, to calibrate it")


def request_for(spec: EngineSpec, graph: Path, *, module: str) -> BuildRequest:
    """Return the build of `graph`, which `write_graph` wrote, as the options of `spec` ask `module` for it.

    The caller adds `samples` and `ranges` for TensorRT's own calibrator. Raises as `profile_of`.
    """
    options = parse_options(spec.backend, spec.options)
    calibration = spec.calibration.method if calibrates(spec) else ""
    return BuildRequest(module, graph, options, profile_of(spec, read_signature(graph)), calibration)


def run_builder(request: BuildRequest, name: str, limit_s: float = TIME_LIMIT_S) -> None:
    """Build the engine that `request` asks for, in a process of its own.

    Parameters
    ----------
    request : the build.
    name : of the engine, in errors.
    limit_s : longest time in seconds, after which the building process is ended.

    Raises
    ------
    BuildError : TensorRT refused the model, with its messages; or its process crashed or took too long.
    """
    try:
        call_apart(build, request, limit_s=limit_s)
    except ApartError as ended:
        file = request.model.parent / LOG_FILE
        log = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        own = ended.error if isinstance(ended.error, QuantError) else None
        refusal = "\n".join(filter(None, (own.what, own.value))) if own else str(ended.error or "")
        shown = refusal or "\n".join(log.splitlines()[-_LINES_SHOWN:]) or "it said nothing"
        raise failed(
            f"{request.module} refused to build {name}"
            if ended.error
            else f"{request.module} did not build {name}: it {ended.how}",
            f"{ended.said}\n{log}",
            value=shown,
            fix="a lower optimization_level, or a timing_cache, makes builds shorter"
            if ended.timed_out
            else (own and own.fix) or next_step(shown, request.shapes, log),
        ) from ended


# How versions of TensorRT say that the memory of the GPU does not suffice.
NO_ROOM = re.compile("out ?of ?memory|could not be allocated|user allocator error", re.IGNORECASE)

_SMALLER = "nvidia-smi tells who holds the GPU's memory; fewer workers (-n), a smaller max_batch or shapes need less"
_OTHER_OPERATORS = "export the model with operators that TensorRT has, or use another backend"
_WORKSPACE = "write a larger workspace_mb, or none: then it is the memory of the GPU"
_OLD_GPU = "use a GPU that this release takes, an older TensorRT, or backend='ort-cuda'"

_STEPS = {
    SHAPE_INPUT: "export the model with that size as a constant, or use backend='ort-cuda'",
    NO_IMPLICIT: "drop quantization='implicit', or pip install 'tensorrt<11'",
    "is not supported by this TensorRT release": _OLD_GPU,
    "<= smVersion": _OLD_GPU,
    "within workspace limit": _WORKSPACE,
    "bytes of scratch space": _WORKSPACE,
    "timing cache": "delete that file, or name another in options={'timing_cache': ...}; the build fills it anew",
    "enable executable stack": "glibc refuses that library: install a TensorRT newer than 10.8",
    "Unable to load library": "pip list names the distributions of TensorRT: install all of them anew, in one version",
    "with error: 35": 'a newer driver, or in a new environment pip install "pytest-quant[trt-cu12]"',
    "No space left on device": "make room where TMPDIR lies: engines are built there before the cache takes them",
}
"""Words of a refusal that have one answer."""

_NO_OPERATOR = re.compile(r"Plugin not found|No importer registered|UNSUPPORTED_NODE", re.IGNORECASE)

_SHAPES = re.compile(
    r"optimization profile|profile \d|shape constraint|shapeMachine|dimension|reshap|shape error", re.IGNORECASE
)

_QUANTIZED = re.compile(r"quantiz|zero.?point|\bscale\b|int8|fp8|int4", re.IGNORECASE)

_LINES_SHOWN = 6
_MISSING_SCALES = "Missing scale and zero-point"


def build_notes(folder: Path) -> tuple[str, ...]:
    """Return a note on the warnings of the build in `folder` that mean that something did not become INT8."""
    count = (folder / LOG_FILE).read_text(encoding="utf-8").count(_MISSING_SCALES)
    if not count:
        return ()
    tensors, their = ("1 tensor has", "its layer") if count == 1 else (f"{count} tensors have", "their layers")
    return (f"{tensors} no scale ('{_MISSING_SCALES}' in {LOG_FILE}), so {their} may stay in float",)


def next_step(said: str, shapes: Mapping[str, Range], log: str = "") -> str:
    """Return what the user can do about a refusal.

    Parameters
    ----------
    said : the messages of TensorRT.
    shapes : smallest, usual and largest shape of each input with free axes, as asked for.
    log : all that it wrote, which tells whether tactics were skipped for lack of memory where none is left.
    """
    for words, step in _STEPS.items():
        if words in said:
            return step
    if NO_ROOM.search(said) or ("Could not find any implementation" in said and NO_ROOM.search(log)):
        return _SMALLER
    if _NO_OPERATOR.search(said):
        return f"options={{'libraries': ['/path/libplugin.so']}} names that of a plugin; else {_OTHER_OPERATORS}"
    if _SHAPES.search(said):
        return _about_shapes(shapes)
    if _QUANTIZED.search(said):
        return "leave the node in float with exclude=[...], or quantize it in another scheme"
    return _OTHER_OPERATORS


def _about_shapes(shapes: Mapping[str, Range]) -> str:
    if not shapes:
        return "no input has a free axis, so the model itself has shapes that do not fit: export it again"
    ranges = "; ".join(f"'{name}' from {low} to {high}, usually {usual}" for name, (low, usual, high) in shapes.items())
    return (
        f"it was to be built for {ranges}: give data of sizes that the network takes, or write them, "
        "options={'shapes': {" + ", ".join(f"'{name}': [smallest, usual, largest]" for name in shapes) + "}}"
    )
