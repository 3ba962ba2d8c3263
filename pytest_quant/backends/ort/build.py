"""From a spec to the engine on disk: its ingredients, which make the cache key, and the quantizers that write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pytest_quant.backends.feeds import Feeds, check_batches
from pytest_quant.backends.offer import calibration_ingredients
from pytest_quant.backends.onnx_files import (
    digests_of,
    file_digests,
    model_file,
    model_ingredients,
    needs_external_data,
    read_nodes,
    read_signature,
)
from pytest_quant.backends.onnx_files.graphs import all_graphs, dequantizer_of, opset_of, refill, scopes
from pytest_quant.backends.onnx_files.lineage import PARTED
from pytest_quant.backends.ort import OrtOptions, runtime_version
from pytest_quant.backends.ort.half import write_half
from pytest_quant.backends.ort.macs import FLOAT_OPS
from pytest_quant.backends.ort.prepare import prepare_model
from pytest_quant.backends.ort.recipe import (
    DYNAMIC,
    RECIPE_VERSION,
    excluded_nodes,
    find_left_nodes,
    float_tables,
    recipe_of,
    static_op_types,
)
from pytest_quant.backends.ort.session import open_session, tools_with, translate_errors
from pytest_quant.backends.runtime import quiet
from pytest_quant.environment.machine import isa_tier, usable_cores, version
from pytest_quant.errors import BuildError
from pytest_quant.files import temporary_folder
from pytest_quant.spec import ARRIVING, EngineSpec

RANGES_FILE = "ranges.json"
_MINMAX_BATCHES = 64
"""MinMax keeps two numbers for each tensor and batch until it merges them."""

_HISTOGRAM_BYTES = 256 << 20
"""Histogram methods keep whole activations until they merge them."""

_ENTROPY_BINS = 1024
"""With ORT's own 128 bins for 128 levels there is nothing to choose, and entropy gives the ranges of minmax."""


def calibration_method(name: str) -> Any:
    """Return ONNX Runtime's ``CalibrationMethod`` for ``minmax``, ``entropy`` or ``percentile``."""
    from onnxruntime.quantization import CalibrationMethod

    return next(method for method in CalibrationMethod if method.name.lower() == name)


def write_ranges(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Run the float model over `batches` and write the ranges of its activations into `folder`.

    Parameters
    ----------
    spec : the engine; its calibration gives the method and the percentile.
    batches : returns the calibration batches; it is called once.
    folder : gets `RANGES_FILE`.

    Raises
    ------
    ModelError : the model is missing or broken.
    DataError : there is no batch, or a batch does not fit the model.
    BuildError : the model cannot be prepared or run.
    """
    from onnxruntime.quantization.calibrate import save_tensors_data

    signature = read_signature(model_file(spec.model))
    recipe = recipe_of(spec)
    feeds = check_batches(batches(), signature, spec.model.name)
    # Bad data are told before a model is prepared.
    first = next(feeds)
    with temporary_folder() as work, tools_with(recipe.libraries):
        model = prepare_model(spec, per_channel=recipe.per_channel)
        with translate_errors(f"to calibrate {spec.model.name}"), quiet():
            ranges = _ranges(spec, model, work, chain([first], feeds))
            save_tensors_data(ranges, folder / RANGES_FILE)


def _ranges(spec: EngineSpec, model: Path, work: Path, feeds: Iterator[Feeds]) -> object:
    from onnxruntime.quantization.calibrate import HistogramCollector, create_calibrator

    method = spec.calibration.method
    entropy, percentile = {"num_bins": _ENTROPY_BINS}, {"percentile": spec.calibration.percentile}
    calibrator = create_calibrator(
        model,
        static_op_types(recipe_of(spec)),
        augmented_model_path=str(work / "augmented.onnx"),
        calibrate_method=calibration_method(method),
        use_external_data_format=needs_external_data(model),
        extra_options=entropy if method == "entropy" else percentile,
    )
    # Its own has the threads of the whole machine, and no optimization.
    calibrator.infer_session = open_session(Path(calibrator.augmented_model_path), threads=usable_cores())[0]
    first, size = next(feeds), _MINMAX_BATCHES
    if method != "minmax":
        # So many batches keep all activations within the bound.
        of_one = sum(np.asarray(output).nbytes for output in calibrator.infer_session.run(None, first))
        size = max(1, _HISTOGRAM_BYTES // max(1, of_one))
        settings = ("method", "symmetric", "num_bins", "num_quantized_bins", "percentile", "scenario")
        calibrator.collector = HistogramCollector(*(getattr(calibrator, name) for name in settings))
        collect = calibrator.collector.collect
        calibrator.collector.collect = lambda kept: collect({name: _values(arrays) for name, arrays in kept.items()})
    feeds = chain([first], feeds)
    while chunk := list(islice(feeds, size)):
        # It is asked for batches one by one, by `get_next`, until there is none.
        calibrator.collect_data(SimpleNamespace(get_next=partial(next, iter(chunk), None)))
    return calibrator.compute_data()


def _values(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Return all values of a tensor, of any shapes, and 0 for an empty tensor: a histogram takes neither by itself."""
    values = np.concatenate([array.ravel() for array in arrays])
    return values if values.size else np.zeros(1, values.dtype)


def write_static(
    spec: EngineSpec, recipe: OrtOptions, prepared: Path, exclude: list[str], calibration: Path, target: Path
) -> None:
    """Write the model with Q/DQ pairs around the operators that `recipe` quantizes.

    ONNX Runtime checks the file of ranges for its method only, not for the model or the data; the key of the folder in
    the cache covers those.

    Parameters
    ----------
    spec : the engine; its calibration method must be the one that found the ranges.
    recipe : how to quantize, see `recipe_of`.
    prepared : the float model that `prepare` wrote.
    exclude : names of nodes of `prepare_model` that stay in float, see `excluded_nodes`.
    calibration : a folder that `write_ranges` filled.
    target : the ONNX file to write.
    """
    from onnxruntime.quantization import QuantFormat, quantize_static
    from onnxruntime.quantization.calibrate import load_tensors_data

    try:
        quantize_static(
            str(prepared),
            str(target),
            calibration_data_reader=None,
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=static_op_types(recipe),
            per_channel=recipe.per_channel,
            reduce_range=recipe.reduce_range,
            activation_type=_quant_type(recipe.activation_type),
            weight_type=_quant_type(recipe.weight_type),
            nodes_to_exclude=exclude,
            use_external_data_format=needs_external_data(prepared),
            calibrate_method=calibration_method(spec.calibration.method),
            extra_options=recipe.quantizer_extra,
            calibration_cache_path=str(calibration / RANGES_FILE),
        )
    except AssertionError as error:
        found, graph = load_tensors_data(calibration / RANGES_FILE).data, onnx.load(prepared).graph
        in_order = [value.name for value in graph.input] + [each for node in graph.node for each in node.output]
        known = (name for name in in_order if name in found)
        lost = [name for name in known if not np.isfinite(np.array(found[name].range_value)).all()]
        if not lost:
            raise
        raise BuildError(
            f"{spec.model.name} gives NaN or Inf in '{lost[0]}' on the calibration samples, which has no range",
            fix="look for what they share, an attention mask of zeros for example",
        ) from error
    if exclude:
        part_from_pairs(target, exclude)


def write_dynamic(recipe: OrtOptions, prepared: Path, exclude: list[str], target: Path) -> None:
    """Write the model with 8-bit weights, its activations quantized by ranges found in every run.

    An empty list of op types means to this quantizer all that it knows. Bodies of If, Loop and Scan are taken
    where they have products with weights.

    Parameters
    ----------
    recipe : how to quantize, see `recipe_of`.
    prepared : the float model that `prepare` wrote.
    exclude : names of nodes of `prepare_model` that stay in float, see `excluded_nodes`.
    target : the ONNX file to write.
    """
    from onnxruntime.quantization import quantize_dynamic

    graph = read_nodes(prepared).graph
    in_graph, *in_bodies = (
        {node.op_type for node in inner.node if not constants.isdisjoint(node.input[:2])}
        for inner, constants in scopes(graph)
    )
    op_types = list(recipe.op_types or ())
    if recipe.op_types == DYNAMIC and in_graph.union(*in_bodies).isdisjoint((*DYNAMIC, "Gemm")):
        op_types = [*op_types, "Conv"]
    taken = {*(op_types or FLOAT_OPS), "Gemm"}
    quantize_dynamic(
        str(prepared),
        str(target),
        op_types_to_quantize=op_types,
        per_channel=recipe.per_channel,
        reduce_range=recipe.reduce_range,
        weight_type=_quant_type(recipe.weight_type),
        nodes_to_exclude=exclude,
        use_external_data_format=needs_external_data(prepared),
        extra_options={"EnableSubgraph": not taken.isdisjoint(set().union(*in_bodies))} | recipe.quantizer_extra,
    )


def write_int4(recipe: OrtOptions, prepared: Path, exclude: list[str], target: Path) -> None:
    """Write the model with constant matrices in blocks of 4-bit weights; Gemm becomes MatMul and Add first.

    With Gather among the op types of `recipe`, tables that rows are looked up in are taken too.

    Parameters
    ----------
    recipe : its op types, block size, symmetry and accuracy level are read, see `recipe_of`.
    prepared : the float model that `prepare` wrote.
    exclude : names of nodes of `prepare_model` that stay in float, see `excluded_nodes`.
    target : the ONNX file to write.
    """
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = ONNXModel(onnx.load(prepared))
    model.replace_gemm_with_matmul()
    # The quantizer takes a Gather of indices or of a vector for a table too, and fails on it.
    tables = float_tables(model.model.graph) if "Gather" in (recipe.op_types or ("Gather",)) else set()
    others = (node.name for node in model.nodes() if node.op_type == "Gather" and node.name not in tables)
    config = DefaultWeightOnlyQuantConfig(
        block_size=recipe.block_size,
        is_symmetric=recipe.symmetric,
        accuracy_level=recipe.accuracy_level or None,
        op_types_to_quantize=("MatMul", "Gather") if tables else ("MatMul",),
    )
    opset = opset_of(model.model)
    quantizer = MatMulNBitsQuantizer(model.model, nodes_to_exclude=[*exclude, *others], algo_config=config)
    quantizer.process()
    # For tables it raises the opset and leaves the nodes as they are, which other operators do not bear.
    quantizer.model.set_opset_import("", opset)
    quantizer.model.save_model_to_file(str(target), needs_external_data(prepared))


def _quant_type(name: str | None) -> object:
    from onnxruntime.quantization import QuantType

    return QuantType.QInt8 if name == "int8" else QuantType.QUInt8


ENGINE_FILE = "model.onnx"


def engine_file(spec: EngineSpec, folder: Path) -> Path:
    """Return the ONNX file that the session opens: the built file, or the user's own, untouched."""
    return _own_file(spec) or folder / ENGINE_FILE


def _own_file(spec: EngineSpec) -> Path | None:
    """Return the file that is opened as it is: the float32 model, or a model that arrives quantized; else ``None``."""
    if spec.scheme is None:
        return model_file(spec.model) if spec.precision == "fp32" else None
    return model_file(spec.quantized) if spec.scheme in ARRIVING and spec.quantized else None


def write_engine(spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
    """Write the engine of `spec` into `folder`.

    Parameters
    ----------
    spec : the engine; a float32 model and one that arrives quantized stay where they are; their digests are written.
    calibration : a folder that `write_ranges` filled, for scheme ``static``; ``None`` for all others.
    folder : gets ``model.onnx``, or ``in_place.txt`` with the digests of a model that stays.

    Raises
    ------
    ModelError : the model is missing or broken.
    BuildError : ONNX Runtime could not quantize the model.
    UsageError : `exclude` names a node that is not there.
    """
    own = _own_file(spec)
    if own is not None:
        lines = [f"{digest}  {location or 'model'}" for location, digest in file_digests(own).items()]
        (folder / "in_place.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    recipe, target = recipe_of(spec), folder / ENGINE_FILE
    if spec.scheme is None:
        write_half(model_file(spec.model), target)
        return
    with tools_with(recipe.libraries):
        model = prepare_model(spec, per_channel=recipe.per_channel)
        left = find_left_nodes(spec, read_nodes(model).graph)
        exclude = [*excluded_nodes(spec, model), *left]
        fix = "leave the operator in float with exclude=[...] or options={'op_types': [...]}, or try another scheme"
        # The quantizers raise whatever their Python meets.
        with translate_errors(f"to quantize {spec.model.name} to {spec.id}", fix), quiet():
            if spec.scheme == "static" and calibration is not None:
                write_static(spec, recipe, model, exclude, calibration, target)
            elif spec.scheme == "dynamic":
                write_dynamic(recipe, model, exclude, target)
            else:
                write_int4(recipe, model, exclude, target)


_OPTIONS_OF = {
    "static": ("op_types", "per_channel", "reduce_range", "activation_type", "weight_type", "symmetric", "extra"),
    "dynamic": ("op_types", "per_channel", "reduce_range", "weight_type", "extra"),
    "weight-only": ("op_types", "symmetric", "block_size", "accuracy_level"),
}
"""Options that each scheme reads; the float reference is not rebuilt when an option of the candidate changes."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelError`."""
    recipe = recipe_of(spec)
    return {
        **_common(spec),
        "instruction set": isa_tier(),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "exclude": json.dumps(sorted(spec.exclude)),
        "threads": str(recipe.threads),
        "x64quantprecision": str(recipe.x64quantprecision),
        **{name: json.dumps(getattr(recipe, name)) for name in _OPTIONS_OF.get(spec.scheme or "", ())},
        **({} if spec.quantized is None else model_ingredients("quantized model", spec.quantized)),
    }


def range_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the ranges of activations. Raises `ModelError`."""
    recipe = recipe_of(spec)
    return {
        # Of every CPU: ranges from another one differ by the rounding of float32.
        **_common(spec),
        **calibration_ingredients(spec),
        "op_types": json.dumps(recipe.op_types),
        "upgraded opset": str(recipe.per_channel),
    }


def _common(spec: EngineSpec) -> dict[str, str]:
    return {
        **model_ingredients("model", spec.model),
        **{name: version(name) for name in ("onnx", "numpy")},
        "onnxruntime": runtime_version(),
        "recipe": RECIPE_VERSION,
        "libraries": digests_of(recipe_of(spec).libraries),
    }


def part_from_pairs(path: Path, exclude: Collection[str]) -> None:
    """Put a copy of the values between dequantized tensors and the nodes of the names `exclude` that read them.

    ONNX Runtime fuses a node of dequantized operands into an integer one, and quantizes the weights of Conv and Gemm
    behind a dequantized operand when a session opens. A maximum of one operand is what no optimizer sees through, so
    the nodes stay in float in each session of the file, whoever opens it, and those around them stay what they are.
    """
    model = onnx.load(path, load_external_data=False)
    for graph in all_graphs(model.graph):
        makers = {tensor: node for node in graph.node for tensor in node.output}
        nodes = []
        for node in graph.node:
            if node.name in exclude and node.input and dequantizer_of(node.input[0], makers) is not None:
                copied = f"{PARTED}_{node.input[0]}_{node.name}"
                nodes.append(onnx.helper.make_node("Max", node.input[:1], [copied], f"{PARTED}_{node.name}"))
                node.input[0] = copied
                makers[copied] = nodes[-1]
            nodes.append(node)
        refill(graph.node, nodes)
    onnx.save_model(model, path)
