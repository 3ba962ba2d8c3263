"""One build with TensorRT's own parser and builder, in a process that is made for it: a native crash ends no other.

It writes the plan, the layers and the log beside the model. Names are looked up, since versions differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_quant.backends.cuda.device import complaints, make_logger
from pytest_quant.backends.trt.coverage import layers_in_log
from pytest_quant.backends.trt.implicit import Samples, calibrating
from pytest_quant.backends.trt.options import Range, TrtOptions, load_library, sizes_of
from pytest_quant.errors import BuildError
from pytest_quant.files import write_whole

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

    def of_one_batch(shapes: dict[str, tuple[int, ...]]) -> tensorrt.IOptimizationProfile:
        ranges = {name: (shape, shape, shape) for name, shape in shapes.items()}
        return _profile(trt, builder, network, ranges)

    memory = request.options.memory or ""
    with calibrating(trt, config, request.calibration, request.samples, request.ranges, of_one_batch, memory):
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildError(complaints(lines))
    keep_timing_cache(config, request)
    return bytes(plan)


def _profile(
    trt: Any, builder: tensorrt.Builder, network: tensorrt.INetworkDefinition, shapes: Mapping[str, Range]
) -> tensorrt.IOptimizationProfile:
    """Return a profile that gives every input with free axes its range; TensorRT names one that has none."""
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
    """Return the flags of ``create_network``: strong types where they are a choice, none where there are only those.

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
        raise BuildError(f"{target} is not one that it builds for: {', '.join(targets)}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)
