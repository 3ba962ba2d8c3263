"""A build, and TensorRT's builder and parser set up for it; names are looked up, since versions differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.trt.options import Range
from pytest_quant.files import write_whole

if TYPE_CHECKING:
    import tensorrt


PLAN_FILE = "model.engine"
LAYERS_FILE = "layers.json"
LOG_FILE = "build.log"
COUNT_FILE = "missing_scales.txt"
"""How often the log says so; every engine that is opened wants to know."""

MISSING_SCALES = "Missing scale and zero-point"

SHAPE_INPUT = "the values of an input decide shapes, and nothing tells which values to expect: input"
"""How the building process begins to say so; the name follows in quotes."""

NO_IMPLICIT = "no implicit INT8"
"""How it says that this TensorRT finds no ranges itself."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build.

    Attributes
    ----------
    module : the one to import, ``tensorrt`` or ``tensorrt_rtx``.
    target : the compute capability, ``None`` for the GPU here.
    shapes : smallest, usual and largest of every input with free axes.
    values : the same of every input that is a shape itself.
    strongly_typed : the graph's own types hold; else TensorRT 10 chooses among `precisions`.
    precisions : builder flags besides float32, such as ``FP16``; only without strong types.
    tf32 : float32 products may round their inputs to ten bits.
    timing_cache : a file to read and write measured kernels, empty for none.
    calibration : method of TensorRT's own calibrator, empty for none.
    samples : folder with the calibrator's batches; empty when `ranges` are reused.
    ranges : file with what the calibrator found, read when there are no `samples`, else written.
    """

    module: str
    model: str
    folder: str
    target: str | None
    workspace_mb: int | None
    optimization_level: int | None
    shapes: Mapping[str, Range] = field(default_factory=dict)
    values: Mapping[str, Range] = field(default_factory=dict)
    strongly_typed: bool = True
    precisions: tuple[str, ...] = ()
    tf32: bool = False
    native_instancenorm: bool = True
    version_compatible: bool = False
    hardware_compatibility: str = ""
    timing_cache: str = ""
    calibration: str = ""
    samples: str = ""
    ranges: str = ""


def write_log(folder: Path, text: str) -> None:
    """Write the log of a build, and what `build_notes` reads of it."""
    (folder / LOG_FILE).write_text(text, encoding="utf-8")
    (folder / COUNT_FILE).write_text(str(text.count(MISSING_SCALES)), encoding="ascii")


class BuildFailedError(Exception):
    """The build failed; its text has TensorRT's messages, a line each."""


def network_flags(trt: Any, request: BuildRequest) -> int:
    """Return the flags of ``create_network``: strong types where they are a choice, none where there are only those.

    The bit of a flag differs between major versions, so it is asked of the binding.
    """
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    if request.strongly_typed:
        return 0 if flag is None else 1 << int(flag)
    if not hasattr(trt.BuilderFlag, "INT8"):
        raise BuildFailedError(f"{trt.__name__} {trt.__version__} has {NO_IMPLICIT}, which ended with TensorRT 10")
    return 0


def register_plugins(trt: Any, logger: tensorrt.ILogger) -> None:
    """Register TensorRT's own plugins in this process, where there are any, before it parses or deserializes."""
    if hasattr(trt, "init_libnvinfer_plugins"):
        trt.init_libnvinfer_plugins(logger, "")


def configure_parser(trt: Any, parser: tensorrt.OnnxParser, request: BuildRequest) -> None:
    """Choose how InstanceNormalization is read: natively, or by the plugin.

    Parameters
    ----------
    trt : the module ``tensorrt`` or ``tensorrt_rtx``.
    parser : of the graph; its flags are changed.
    request : the build; its `native_instancenorm` decides.

    Raises
    ------
    BuildFailedError : the plugin is asked for, and `trt` has no plugins.
    """
    if request.native_instancenorm:
        return
    if not hasattr(trt, "init_libnvinfer_plugins"):
        raise BuildFailedError(f"{trt.__name__} has no plugins: drop native_instancenorm=False")
    parser.clear_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)


def configure(trt: Any, config: tensorrt.IBuilderConfig, request: BuildRequest) -> None:
    """Set everything that the request names.

    Parameters
    ----------
    trt : the module ``tensorrt`` or ``tensorrt_rtx``.
    config : of the builder; it is changed.
    request : the build.

    Raises
    ------
    BuildFailedError : this version lacks a flag, level or target that is asked for, or refuses the timing cache.
    """
    # Without it layers have names only, and their precision is not known.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if request.workspace_mb is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, request.workspace_mb * 10**6)
    if request.optimization_level is not None:
        config.builder_optimization_level = request.optimization_level
    # It is on unless cleared, and a float32 reference would then round its inputs.
    (config.set_flag if request.tf32 else config.clear_flag)(trt.BuilderFlag.TF32)
    for name in (*request.precisions, *(["VERSION_COMPATIBLE"] if request.version_compatible else [])):
        config.set_flag(_member(trt, trt.BuilderFlag, name))
    if request.hardware_compatibility:
        level = _member(trt, trt.HardwareCompatibilityLevel, request.hardware_compatibility)
        config.hardware_compatibility_level = level
    if request.timing_cache:
        file = Path(request.timing_cache)
        content = file.read_bytes() if file.is_file() else b""
        if not config.set_timing_cache(config.create_timing_cache(content), False):
            raise BuildFailedError(f"the timing cache {file} is of another TensorRT or GPU: delete it, or name another")
    if request.target is not None:
        _configure_target(trt, config, request.target)


def keep_timing_cache(config: tensorrt.IBuilderConfig, request: BuildRequest) -> None:
    """Write the times of kernels that the build measured into the file from which the next build reads them."""
    if request.timing_cache:
        write_whole(Path(request.timing_cache), bytes(config.get_timing_cache().serialize()))


def _configure_target(trt: Any, config: Any, target: str) -> None:
    capability = getattr(trt.ComputeCapability, target, None)
    if capability is None:
        targets = sorted(name for name in dir(trt.ComputeCapability) if name.startswith("SM"))
        raise BuildFailedError(f"{target} is not one that it builds for: {', '.join(targets)}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)


def _member(trt: Any, kind: Any, name: str) -> Any:
    member = getattr(kind, name, None)
    if member is None:
        raise BuildFailedError(f"{trt.__name__} {trt.__version__} has no {kind.__name__}.{name}")
    return member
