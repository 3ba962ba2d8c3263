"""Ranges and rounding by NNCF, in one pass over the samples, and the other ways that it offers if accuracy is lost.

The nodes that the user excludes stay in float, and so do recurrent cells: the CPU plugin has no int8 kernel for them,
and refuses those whose bias NNCF has rounded.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_quant.backends.feeds import Feeds, check_batches
from pytest_quant.backends.offer import Remedy, check_excluded, set_option, vary_calibration
from pytest_quant.backends.onnx_files import model_file, read_nodes
from pytest_quant.backends.onnx_files.graphs import PASSING, all_graphs
from pytest_quant.backends.onnx_files.lineage import excluded_parts
from pytest_quant.backends.onnx_files.normalize import normal_file, normalize_model
from pytest_quant.backends.openvino import parse_options
from pytest_quant.backends.openvino.coverage import OPERATORS, RECURRENT
from pytest_quant.backends.openvino.files import is_own, read_model, save_model, signature_of, translate_error
from pytest_quant.backends.runtime import quiet, replace_errors
from pytest_quant.environment.machine import adds_in_16_bits, onednn_tier
from pytest_quant.files import temporary_folder
from pytest_quant.spec import Calibration, EngineSpec, Model

_CALIBRATIONS = (Calibration("percentile"), Calibration("percentile", 99.9), Calibration("minmax"))
_BESIDE = frozenset({
    *PASSING, "Cast", "Constant", "ConstantOfShape", "Dropout", "Expand", "Gather", "Identity", "Parameter", "Range",
    "Result", "Shape",
})  # fmt: skip
"""Operators that hand values on, so that none of them is quantized for itself."""

IN_FLOAT = "leave the layer that it names in float, by its name in your model: exclude=[...]"
"""What to do where a layer cannot be quantized, or its quantized form not compiled."""


def remedies(spec: EngineSpec) -> Iterator[Remedy]:
    """Yield the other ways to quantize that NNCF offers for `spec`, the likeliest help first."""
    if spec.scheme != "static":
        return
    options = parse_options(spec.options)
    if adds_in_16_bits(onednn_tier(), spec.cpus):
        yield from set_option(spec, "overflow_fix", "enable")
    if options.preset != "mixed":
        yield from set_option(spec, "preset", "mixed")
    if options.model_type is None and {"MatMul", "Softmax"} <= {kind for _, kind in _nodes(spec)}:
        yield from set_option(spec, "model_type", "transformer")
    yield from vary_calibration(spec, *_CALIBRATIONS)
    if options.fast_bias_correction:
        yield from set_option(spec, "fast_bias_correction", False)


def quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the nodes that NNCF may quantize and `spec` does not exclude."""
    if spec.scheme != "static":
        return ()
    return tuple(name for name, kind in _nodes(spec) if name and kind not in _BESIDE and name not in spec.exclude)


def _nodes(spec: EngineSpec) -> list[tuple[str, str]]:
    """Return name and operator of each node, by the names that ``exclude`` takes, in the graph's order."""
    if is_own(spec.model):
        operations = read_model(model_file(spec.model)).get_ordered_ops()
        return [(operation.get_friendly_name(), operation.get_type_name()) for operation in operations]
    return [(node.name, node.op_type) for node in read_nodes(model_file(spec.model)).graph.node]


def excluded_nodes(spec: EngineSpec, model: Any, normal: Path) -> list[str]:
    """Return the names of OpenVINO's operations for the nodes that `spec` excludes, sorted.

    Operations in the branches of an If are among them, since NNCF quantizes those too.

    Parameters
    ----------
    spec : its `exclude` names nodes of the user's model.
    model : an ``openvino.Model``, read from `normal`.
    normal : the ONNX graph in its normal form; not read for a model in OpenVINO's own format.

    Raises
    ------
    UsageError : the user's model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    if is_own(spec.model):
        check_excluded(spec, {each.get_friendly_name() for each in model.get_ordered_ops()})
        return sorted(spec.exclude)
    parts: dict[str, set[str]] = defaultdict(set)
    for graph in all_graphs(read_nodes(normal).graph):
        for body in _models(model):
            for name, operations in _operations(body, graph).items():
                parts[name] |= operations
    named = set(spec.exclude).union(*excluded_parts(spec, parts).values())
    return sorted({operation for name in named for operation in parts[name]})


def rename_operations(operations: Any, model: Model) -> Any:
    """Return an ``openvino.Model`` whose operations that multiply are called as the nodes of `model` that they compute.

    OpenVINO numbers some by what the process made before, ``GRUSequence_43790``, and calls others as a tensor. Models
    in its own format keep their names.
    """
    if is_own(model):
        return operations
    graph = normalize_model(read_nodes(model_file(model))).graph
    parts = _operations(operations, graph)
    nodes = [node.name for node in graph.node if node.name and node.op_type not in _BESIDE]
    names = {operation: node for node in reversed(nodes) for operation in parts[node]}
    for operation in operations.get_ops():
        if operation.get_type_name() in OPERATORS:
            name = operation.get_friendly_name()
            operation.set_friendly_name(names.get(name, name))
    return operations


def _models(model: Any) -> Iterator[Any]:
    """Yield `model` and the branches of each If in it."""
    yield model
    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "If":
            for branch in (0, 1):
                yield from _models(operation.get_function(branch))


def _operations(model: Any, graph: Any) -> dict[str, set[str]]:
    """Return by the name of each ONNX node the operations that compute it.

    Names do not show it: a MatMul in front of a Dropout is called like the Dropout, a node that gives an output of the
    model is called like the output, and the recurrence of an LSTM has a number. Tensors do: an operation whose
    result is no tensor of the ONNX graph belongs to the nodes that take it, and a node none of whose results is
    left has become part of those that take them.
    """
    parts = _parts(model, graph)
    takers: dict[str, set[int]] = defaultdict(set)
    operations: dict[str, set[str]] = defaultdict(set)
    for place, node in reversed(list(enumerate(graph.node))):
        if not parts[place]:
            parts[place].update(*(parts[taker] for tensor in node.output for taker in takers[tensor]))
        for tensor in node.input:
            takers[tensor].add(place)
        if node.name:
            operations[node.name] |= parts[place]
    return dict(operations)


def _parts(model: Any, graph: Any) -> dict[int, set[str]]:
    """Return by the place of each ONNX node the operations whose results lead to its tensors."""
    made_by = {tensor: place for place, node in enumerate(graph.node) for tensor in node.output if tensor}
    parts: dict[int, set[str]] = defaultdict(set)
    places: dict[str, set[int]] = {}
    for operation in reversed(model.get_ordered_ops()):
        if operation.get_type_name() in ("Constant", "Parameter", "Result"):
            continue
        name, ports = operation.get_friendly_name(), operation.outputs()
        own = {made_by[tensor] for port in ports for tensor in port.get_names() if tensor in made_by}
        next_ones = [target.get_node().get_friendly_name() for port in ports for target in port.get_target_inputs()]
        places[name] = own or set().union(*(places.get(each, set()) for each in next_ones))
        for place in places[name]:
            parts[place].add(name)
    return parts


def write_quantized(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Quantize the float model over `batches` and write it into `folder`.

    Parameters
    ----------
    spec : the engine, whose scheme is ``static``.
    batches : starts a new pass over the calibration batches with each call; NNCF takes several.
    folder : gets the quantized model, as ``model.xml`` and ``model.bin``.

    Raises
    ------
    DataError : there is no batch, or a batch does not fit the model.
    UsageError : `exclude` names a node that is not there.
    BuildError : NNCF could not quantize the model.
    """
    signature = signature_of(spec.model)
    count = sum(1 for _ in check_batches(batches(), signature, spec.model.name))
    with temporary_folder() as work:
        file = model_file(spec.model)
        source = file if is_own(spec.model) else normal_file(file, work)
        model = read_model(source)
        ignored = excluded_nodes(spec, model, source)
        with replace_errors(lambda error: translate_error(f"to quantize {spec.model.name}", error, _fix(error))):
            # Before the screen is taken away: NNCF's logger keeps the stream that it finds when it is imported.
            import_module("nncf")
            with quiet("nncf"):
                quantized = _quantize(spec, model, _Again(batches), count, ignored)
        save_model(quantized, folder)


def _fix(error: Exception) -> str:
    """NNCF quantizes each branch of an If over the samples that take it."""
    if "Calibration dataset must not be empty" in str(error):
        return "a branch of an If is taken by no calibration sample: add samples that take it"
    if any("fast_bias_correction" in step.filename for step in traceback.extract_tb(error.__traceback__)):
        return "NNCF's fast bias correction fails on this model: options={'fast_bias_correction': False}"
    return f"{IN_FLOAT}, or use another backend: backend='ort'"


def _quantize(spec: EngineSpec, model: Any, batches: _Again, count: int, ignored: list[str]) -> Any:
    import nncf

    options = parse_options(spec.options)
    return nncf.quantize(
        model,
        nncf.Dataset(batches),
        preset=nncf.QuantizationPreset[options.preset.upper()],
        target_device=nncf.TargetDevice.CPU,
        subset_size=count,
        fast_bias_correction=options.fast_bias_correction,
        model_type=None if options.model_type is None else nncf.ModelType.TRANSFORMER,
        ignored_scope=nncf.IgnoredScope(names=ignored, types=sorted(RECURRENT), validate=False),
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix[options.seven_bits(spec.cpus).upper()],
            activations_range_estimator_params=_range_estimator(spec.calibration),
        ),
    )


def _range_estimator(calibration: Calibration) -> Any:
    """Return how ranges are found: NNCF's own default is a mean over batches, which cuts off peaks."""
    from nncf.quantization import range_estimator as estimators

    if calibration.method == "minmax":
        return estimators.RangeEstimatorParametersSet.MINMAX
    outside = 1.0 - calibration.percentile / 100.0
    kinds = estimators.StatisticsType.QUANTILE, estimators.AggregatorType.MEAN
    cut = estimators.StatisticsCollectorParameters(*kinds, quantile_outlier_prob=outside)
    return estimators.RangeEstimatorParameters(cut, cut)


class _Again:
    """Iterates over the batches anew each time; NNCF makes several passes, and takes no scalar that is read-only."""

    def __init__(self, batches: Callable[[], Iterator[Feeds]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Feeds]:
        for feeds in self._batches():
            # OpenVINO copies an array that is read-only, and shares the memory of a scalar whatever it is.
            yield {name: array if array.ndim else array.copy() for name, array in feeds.items()}
