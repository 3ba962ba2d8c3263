"""From a spec to a plan: the graph written, one build in a process of its own, and what its refusals mean.

TensorRT's own parser and builder run in a process that is made for them: a native crash ends no other. It writes the
plan, the layers and the log beside the model. Names are looked up, since versions differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.child_process import TIME_LIMIT_S, ChildError, call_in_child
from pytest_quant.backends.cuda.device import complaints, make_logger
from pytest_quant.backends.onnx_files import model_file, read_signature
from pytest_quant.backends.ort.half import write_half
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.backends.trt.coverage import layers_in_log
from pytest_quant.backends.trt.implicit import Samples, set_calibrator, write_samples
from pytest_quant.backends.trt.network import profile_of, write_graph
from pytest_quant.backends.trt.options import (
    Range,
    TrtOptions,
    calibrates,
    float_type,
    load_library,
    options_of,
    sizes_of,
)
from pytest_quant.errors import BuildError, QuantError
from pytest_quant.files import temporary_folder, write_whole
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt

PLAN_FILE = "model.engine"
LAYERS_FILE = "layers.json"
LOG_FILE = "build.log"

SHAPE_INPUT = "the values of an input decide shapes, and an engine is built for the shapes of data alone: input"
"""How the building process begins to say so; the name follows in quotes."""

NO_IMPLICIT = "no implicit INT8"
"""How it says that this TensorRT finds no ranges itself."""

RTX_MODULE = "tensorrt_rtx"
"""It builds for a GPU that is named."""

_BESIDE = {"fp32": [], "fp16": ["FP16"], "bf16": ["BF16"]}
"""Builder flags that let TensorRT 10 compute in another float type where it is faster."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build.

    Attributes
    ----------
    module : the one to import, ``tensorrt`` or `RTX_MODULE`.
    model : the ONNX file; what is built is written beside it.
    options : of the mark.
    shapes : smallest, usual and largest of every input with free axes.
    calibration : method of TensorRT's own calibrator, which chooses types itself then; empty where those of the graph
        hold.
    samples : the calibrator's batches, in a file; ``None`` when `ranges` are reused.
    ranges : file with what the calibrator found, read when there are no `samples`, else written.
    """

    module: str
    model: Path
    options: TrtOptions
    shapes: Mapping[str, Range]
    calibration: str = ""
    samples: Samples | None = None
    ranges: str = ""


_RANGES_FILE = "ranges.cache"
"""What TensorRT's own calibrator found."""


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
    if kind != "fp32":
        # TensorRT 11 and TensorRT-RTX know no other way than a graph that has these types.
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
    options = options_of(spec)
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
        call_in_child(build, request, limit_s=limit_s)
    except ChildError as ended:
        file = request.model.parent / LOG_FILE
        log = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        own = ended.error if isinstance(ended.error, QuantError) else None
        refusal = "\n".join(filter(None, (own.what, own.value))) if own else str(ended.error or "")
        shown = refusal or "\n".join(log.splitlines()[-6:]) or "it said nothing"
        did = f"refused to build {name}" if ended.error else f"did not build {name}: it {ended.how}"
        raise wrap_error(
            f"{request.module} {did}",
            f"{ended.said}\n{log}",
            value=shown,
            fix="a lower optimization_level, or a timing_cache, makes builds shorter"
            if ended.timed_out
            else (own and own.fix) or next_step(shown, request.shapes, log),
        ) from ended


# How versions of TensorRT say that the memory of the GPU does not suffice.
NO_ROOM = re.compile("out ?of ?memory|could not be allocated|user allocator error", re.IGNORECASE)

_SMALLER = (
    "nvidia-smi shows which processes hold the GPU's memory; fewer workers (-n), a smaller max_batch or shapes "
    "need less"
)
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
    "Unable to load library": "pip list names the distributions of TensorRT: install all anew, in one version",
    "with error: 35": 'a newer driver, or in a new environment pip install "pytest-quant[trt-cu12]"',
    "No space left on device": "make room on the disk of TMPDIR: engines are built there before the cache takes them",
    NO_ROOM.pattern: _SMALLER,
    "Plugin not found|No importer registered|UNSUPPORTED_NODE": (
        f"options={{'libraries': ['/path/libplugin.so']}} names that of a plugin; else {_OTHER_OPERATORS}"
    ),
    r"optimization profile|profile \d|shape constraint|shapeMachine|dimension|reshap|shape error": "",
    r"quantiz|zero.?point|\bscale\b|int8|fp8|int4": (
        "leave the node in float with exclude=[...], or quantize it in another scheme"
    ),
}
"""Patterns of what TensorRT says, the surest sign first, and the answer; that to an empty one is the shapes."""

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
    if "Could not find any implementation" in said and NO_ROOM.search(log):
        said += "\nout of memory"
    steps = (step for words, step in _STEPS.items() if re.search(words, said, re.IGNORECASE))
    return next(steps, _OTHER_OPERATORS) or _explain_shapes(shapes)


def _explain_shapes(shapes: Mapping[str, Range]) -> str:
    if not shapes:
        return "no input has a free axis, so the model itself has shapes that do not fit: export it again"
    ranges = "; ".join(f"'{name}' from {low} to {high}, usually {usual}" for name, (low, usual, high) in shapes.items())
    return (
        f"it was to be built for {ranges}: give data of sizes that the network takes, or write them, "
        "options={'shapes': {" + ", ".join(f"'{name}': [smallest, usual, largest]" for name in shapes) + "}}"
    )


def build(request: BuildRequest) -> None:
    """Parse, configure and build. Raises `BuildError` with TensorRT's messages, a line each."""
    trt = import_module(request.module)
    lines: list[str] = []
    logger = make_logger(trt, lines)
    folder = request.model.parent
    try:
        plan = _plan(trt, logger, lines, request)
    finally:
        (folder / LOG_FILE).write_text("\n".join(lines), encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / LAYERS_FILE).write_bytes(msgspec.json.encode(layers_in_log("\n".join(lines))))


def _plan(trt: Any, logger: Any, lines: list[str], request: BuildRequest) -> bytes:
    register_plugins(trt, logger, request.options.libraries)
    try:
        builder: tensorrt.Builder = trt.Builder(logger)
    except TypeError as error:  # all that the binding says of one that is null
        raise BuildError(complaints(lines)) from error
    network = builder.create_network(network_flags(trt, request))
    parser: tensorrt.OnnxParser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(request.model)):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise BuildError("\n".join(f"{_node_of(error)}{error.desc()}" for error in errors) or complaints(lines))
    config = builder.create_builder_config()
    configure(trt, config, request)
    config.add_optimization_profile(_profile(trt, builder, network, request.shapes))

    profile_for, memory = partial(_profile, trt, builder, network), request.options.memory or ""
    with set_calibrator(trt, config, request.calibration, request.samples, request.ranges, profile_for, memory):
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildError(complaints(lines))
    keep_timing_cache(config, request)
    return bytes(plan)


def _profile(
    trt: Any, builder: tensorrt.Builder, network: tensorrt.INetworkDefinition, shapes: Mapping[str, Range]
) -> tensorrt.IOptimizationProfile:
    """Return a profile that gives every input with free axes its range; TensorRT names an input without a range."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        if entry.is_shape_tensor:
            raise BuildError(f"{SHAPE_INPUT} '{entry.name}'")
        if -1 in sizes_of(entry.shape) and entry.name in shapes:
            smallest, usual, largest = (trt.Dims(sizes) for sizes in shapes[entry.name])
            profile.set_shape(entry.name, smallest, usual, largest)
    return profile


def _node_of(error: Any) -> str:
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    return f"node '{name}' ({operator}): " if name or operator else ""


def network_flags(trt: Any, request: BuildRequest) -> int:
    """Return the flags of ``create_network``: strong types if they are a choice, none if TensorRT has no other types.

    The bit of a flag differs between major versions, so it is asked of the binding.
    """
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    if not request.calibration:
        return 0 if flag is None else 1 << int(flag)
    if not hasattr(trt.BuilderFlag, "INT8"):
        raise BuildError(f"{trt.__name__} {trt.__version__} has {NO_IMPLICIT}, which ended with TensorRT 10")
    return 0


def register_plugins(trt: Any, logger: tensorrt.ILogger, libraries: Sequence[str]) -> None:
    """Register the plugins in `libraries`, and TensorRT's own, in this process, before it parses or deserializes."""
    for file in libraries:
        load_library(file)
    if hasattr(trt, "init_libnvinfer_plugins"):
        trt.init_libnvinfer_plugins(logger, "")


def configure(trt: Any, config: tensorrt.IBuilderConfig, request: BuildRequest) -> None:
    """Set in `config` everything that the request names.

    Raises
    ------
    BuildError : this version lacks the target that is asked for, or refuses the timing cache.
    """
    options = request.options
    # Without it layers have names only, and their precision is not known.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.workspace_mb is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mb * 10**6)
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    # It is on unless cleared, and a float32 reference would then round its inputs.
    (config.set_flag if options.tf32 else config.clear_flag)(trt.BuilderFlag.TF32)
    for name in ["INT8", *_BESIDE[options.rest]] if request.calibration else []:
        config.set_flag(getattr(trt.BuilderFlag, name))
    if options.timing_cache:
        file = Path(options.timing_cache)
        content = file.read_bytes() if file.is_file() else b""
        cache = config.create_timing_cache(content)
        if cache is None or not config.set_timing_cache(cache, False):
            raise BuildError(f"the timing cache {file} is damaged, or of another TensorRT or GPU")
    if options.compute_capability is not None and request.module == RTX_MODULE:
        _configure_target(trt, config, options.compute_capability)


def keep_timing_cache(config: tensorrt.IBuilderConfig, request: BuildRequest) -> None:
    """Write the times of kernels that the build measured into the file from which the next build reads them."""
    if request.options.timing_cache:
        write_whole(Path(request.options.timing_cache), bytes(config.get_timing_cache().serialize()))


def _configure_target(trt: Any, config: Any, target: str) -> None:
    capability = getattr(trt.ComputeCapability, target, None)
    if capability is None:
        targets = sorted(name for name in dir(trt.ComputeCapability) if name.startswith("SM"))
        raise BuildError(f"{target} is no target that it builds for: {', '.join(targets)}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)
