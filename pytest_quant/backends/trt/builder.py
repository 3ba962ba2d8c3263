"""One build with TensorRT's own parser and builder, in a process of its own: ``python -m ... REQUEST``.

It writes the plan, the layers and the log into the request's folder. Errors go to standard error as lines of text and
the exit code is 1; a native crash ends this process and no other.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_quant.backends.trt.layers import layers_in_log
from pytest_quant.backends.trt.request import LAYERS_FILE, LOG_FILE, PLAN_FILE, BuildRequest, read_request


class BuildFailedError(Exception):
    """What TensorRT said, a line each."""


def build(request: BuildRequest) -> None:
    """Parse, configure and build. Raises `BuildFailedError`."""
    trt = import_module(request.module)
    lines: list[str] = []
    logger = _logger(trt, lines)
    folder = Path(request.folder)
    try:
        plan = _plan(trt, logger, lines, request)
    finally:
        (folder / LOG_FILE).write_text("\n".join(lines), encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / LAYERS_FILE).write_text(json.dumps(layers_in_log("\n".join(lines))), encoding="utf-8")


def _plan(trt: Any, logger: Any, lines: list[str], request: BuildRequest) -> bytes:
    builder = trt.Builder(logger)
    network = builder.create_network(_network_flags(trt))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(request.model):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise BuildFailedError("\n".join(f"{_node_of(error)}{error.desc()}" for error in errors) or _complaints(lines))
    config = builder.create_builder_config()
    _configure(trt, config, request)
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        shape = tuple(entry.shape)
        sizes = (1, request.opt_batch, request.max_batch)
        if -1 in shape:
            profile.set_shape(entry.name, *(tuple(size if one < 0 else one for one in shape) for size in sizes))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildFailedError(_complaints(lines))
    return bytes(plan)


def _network_flags(trt: Any) -> int:
    """Ask for strong types where they are a choice; the bit of the flag differs between major versions."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _configure(trt: Any, config: Any, request: BuildRequest) -> None:
    # Without it layers have names only, and nothing tells what they compute in.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if request.workspace_mb is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, request.workspace_mb * 10**6)
    if request.optimization_level is not None and hasattr(config, "builder_optimization_level"):
        config.builder_optimization_level = request.optimization_level
    if request.target is not None:
        capability = getattr(trt.ComputeCapability, request.target, None)
        if capability is None:
            known = sorted(name for name in dir(trt.ComputeCapability) if name.startswith("SM"))
            raise BuildFailedError(f"{request.target} is not one that it builds for: {', '.join(known)}")
        config.num_compute_capabilities = 1
        config.set_compute_capability(capability, 0)


def _logger(trt: Any, lines: list[str]) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        """Keeps every line with its severity in front."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            lines.append(f"[{str(severity).rpartition('.')[2]}] {msg}")

    return Logger()


def _node_of(error: Any) -> str:
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    return f"node '{name}' ({operator}): " if name or operator else ""


def _complaints(lines: list[str]) -> str:
    """Return what the log says of errors, or its last lines."""
    bad = [line for line in lines if line.startswith(("[ERROR]", "[INTERNAL_ERROR]"))]
    return "\n".join(bad or lines[-3:])


def main(file: str) -> int:
    """Build what the request in `file` asks for; return the exit code."""
    try:
        build(read_request(Path(file)))
    except (BuildFailedError, ImportError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
