"""One build with TensorRT's own parser and builder, in a process that is made for it: a native crash ends no other.

It writes the plan, the layers and the log into the request's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.cuda.device import complaints, make_logger
from pytest_quant.backends.trt.configure import (
    LAYERS_FILE,
    PLAN_FILE,
    SHAPE_INPUT,
    BuildFailedError,
    BuildRequest,
    configure,
    configure_parser,
    keep_timing_cache,
    network_flags,
    register_plugins,
    write_log,
)
from pytest_quant.backends.trt.coverage import layers_in_log
from pytest_quant.backends.trt.gpu.implicit import calibrating
from pytest_quant.backends.trt.options import Range, sizes_of
from pytest_quant.spec import Shape

if TYPE_CHECKING:
    import tensorrt


def build(request: BuildRequest) -> None:
    """Parse, configure and build. Raises `BuildFailedError`."""
    trt = import_module(request.module)
    lines: list[str] = []
    logger = make_logger(trt, lines)
    folder = Path(request.folder)
    try:
        plan = _plan(trt, logger, lines, request)
    finally:
        write_log(folder, "\n".join(lines))
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / LAYERS_FILE).write_text(json.dumps(layers_in_log("\n".join(lines))), encoding="utf-8")


def _plan(trt: Any, logger: Any, lines: list[str], request: BuildRequest) -> bytes:
    register_plugins(trt, logger)
    try:
        builder: tensorrt.Builder = trt.Builder(logger)
    except TypeError as error:  # all that the binding says of one that is null
        raise BuildFailedError(complaints(lines)) from error
    network = builder.create_network(network_flags(trt, request))
    parser: tensorrt.OnnxParser = trt.OnnxParser(network, logger)
    configure_parser(trt, parser, request)
    if not parser.parse_from_file(request.model):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise BuildFailedError("\n".join(f"{_node_of(error)}{error.desc()}" for error in errors) or complaints(lines))
    config = builder.create_builder_config()
    configure(trt, config, request)
    _refuse_unknown_values(network, request)
    config.add_optimization_profile(_profile(trt, builder, network, request.shapes, request.values))

    def of_one_batch(shapes: dict[str, Shape]) -> tensorrt.IOptimizationProfile:
        ranges = {name: (shape, shape, shape) for name, shape in shapes.items()}
        return _profile(trt, builder, network, ranges, request.values)

    with calibrating(trt, config, request, of_one_batch):
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildFailedError(complaints(lines))
    keep_timing_cache(config, request)
    return bytes(plan)


def _profile(
    trt: Any,
    builder: tensorrt.Builder,
    network: tensorrt.INetworkDefinition,
    shapes: Mapping[str, Range],
    values: Mapping[str, Range],
) -> tensorrt.IOptimizationProfile:
    """Return a profile that gives every input its range: of axes where some are free, of values where it is a shape.

    An input that has neither is left to TensorRT, which names it.
    """
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        if entry.is_shape_tensor and entry.name in values:
            least, common, most = (list(numbers) for numbers in values[entry.name])
            profile.set_shape_input(entry.name, least, common, most)
        elif -1 in sizes_of(entry.shape) and entry.name in shapes:
            smallest, usual, largest = (trt.Dims(sizes) for sizes in shapes[entry.name])
            profile.set_shape(entry.name, smallest, usual, largest)
    return profile


def _refuse_unknown_values(network: tensorrt.INetworkDefinition, request: BuildRequest) -> None:
    """Refuse an input that is a shape and has no range of values, which TensorRT would call missing values."""
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        if entry.is_shape_tensor and entry.name not in request.values:
            raise BuildFailedError(f"{SHAPE_INPUT} '{entry.name}'")


def _node_of(error: Any) -> str:
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    return f"node '{name}' ({operator}): " if name or operator else ""
