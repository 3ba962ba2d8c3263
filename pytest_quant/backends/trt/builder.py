"""One build with TensorRT's own parser and builder, in a process of its own: ``python -m ... REQUEST``.

It writes the plan, the layers and the log into the request's folder. Errors go to standard error as lines of text and
the exit code is 1; a native crash ends this process and no other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_quant.backends.trt.configure import (
    BuildFailedError,
    configure,
    configure_parser,
    keep_timing_cache,
    network_flags,
)
from pytest_quant.backends.trt.dims import sizes_of
from pytest_quant.backends.trt.gpu.implicit import calibrating
from pytest_quant.backends.trt.layers import layers_in_log
from pytest_quant.backends.trt.logger import complaints, make_logger
from pytest_quant.backends.trt.request import LAYERS_FILE, LOG_FILE, PLAN_FILE, BuildRequest, read_request
from pytest_quant.errors import QuantError

if TYPE_CHECKING:
    import tensorrt

Shape: TypeAlias = tuple[int, ...]


def build(request: BuildRequest) -> None:
    """Parse, configure and build. Raises `BuildFailedError`."""
    trt = import_module(request.module)
    lines: list[str] = []
    logger = make_logger(trt, lines)
    folder = Path(request.folder)
    try:
        plan = _plan(trt, logger, lines, request)
    finally:
        (folder / LOG_FILE).write_text("\n".join(lines), encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / LAYERS_FILE).write_text(json.dumps(layers_in_log("\n".join(lines))), encoding="utf-8")


def _plan(trt: Any, logger: Any, lines: list[str], request: BuildRequest) -> bytes:
    builder: tensorrt.Builder = trt.Builder(logger)
    network = builder.create_network(network_flags(trt, request))
    parser: tensorrt.OnnxParser = trt.OnnxParser(network, logger)
    configure_parser(trt, parser, logger, request)
    if not parser.parse_from_file(request.model):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise BuildFailedError("\n".join(f"{_node_of(error)}{error.desc()}" for error in errors) or complaints(lines))
    config = builder.create_builder_config()
    configure(trt, config, request)
    sizes = (1, request.opt_batch, request.max_batch)
    config.add_optimization_profile(
        _profile(trt, builder, network, lambda _, shape: [_filled(shape, one) for one in sizes])
    )
    with calibrating(
        trt, config, request, lambda shapes: _profile(trt, builder, network, lambda name, _: [shapes[name]] * 3)
    ):
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildFailedError(complaints(lines))
    keep_timing_cache(config, request)
    return bytes(plan)


def _profile(
    trt: Any,
    builder: tensorrt.Builder,
    network: tensorrt.INetworkDefinition,
    wanted: Callable[[str, Shape], Sequence[Shape]],
) -> tensorrt.IOptimizationProfile:
    """Return a profile that gives every input with free axes its smallest, usual and largest shape."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        shape = sizes_of(entry.shape)
        if -1 in shape:
            smallest, usual, largest = (trt.Dims(sizes) for sizes in wanted(entry.name, shape))
            profile.set_shape(entry.name, smallest, usual, largest)
    return profile


def _filled(shape: Shape, size: int) -> Shape:
    return tuple(size if one < 0 else one for one in shape)


def _node_of(error: Any) -> str:
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    return f"node '{name}' ({operator}): " if name or operator else ""


def main(file: str) -> int:
    """Build what the request in `file` asks for; return the exit code."""
    try:
        build(read_request(Path(file)))
    except (BuildFailedError, QuantError, ImportError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
