"""What can be changed in an engine's own files: ranges, integers of a weight, an attribute of an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from pytest_quant.backends.openvino.files import ENGINE_FILE as OPENVINO_FILE
from pytest_quant.backends.openvino.files import read_model, save_model
from pytest_quant.backends.openvino.quantize import rename_operations
from pytest_quant.backends.ort.build import ENGINE_FILE as ORT_FILE
from pytest_quant.backends.ort.build import RANGES_FILE
from pytest_quant.spec import Model
from tests.benchmarks.blame.graph import Graph

_SHARED = frozenset({"Flatten", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that give what they read in the range of that, whatever their own range is."""


def ranged_tensors(backend: str, folder: Path, graph: Graph) -> list[str]:
    """Return the tensors of the float `graph` that the engine rounds by a range of their own, in its order."""
    found = _ranged_in_ort(folder) if backend == "ort" else (name for name, _ in _fake_quantizers(folder, graph))
    makers = graph.makers
    return [name for name in dict.fromkeys(found) if name not in makers or makers[name].op_type not in _SHARED]


def _ranged_in_ort(folder: Path) -> Iterator[str]:
    graph = Graph.load(folder / ORT_FILE)
    yield from (node.input[0] for node in graph.nodes if node.op_type == "QuantizeLinear" and graph.computed(node))


def _fake_quantizers(folder: Path, graph: Graph, model: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield operations that round an activation to one range, each with the ONNX tensor that it rounds."""
    known = {*graph.makers, *(value.name for value in graph.model.graph.input)}
    for operation in (model or read_model(folder / OPENVINO_FILE)).get_ordered_ops():
        if operation.get_type_name() == "FakeQuantize":
            source = operation.input_value(0)
            names = sorted(source.get_names() & known)
            ends = [operation.input_value(place).get_node() for place in range(1, 5)]
            if names and all(each.get_type_name() == "Constant" and each.data.size == 1 for each in ends):
                yield names[0], operation


def scale_ort_range(ranges: Path, tensor: str, factor: float) -> None:
    """Change the range of a tensor in the folder that `calibrate` wrote."""
    from onnxruntime.quantization.calibrate import load_tensors_data, save_tensors_data

    found = load_tensors_data(ranges / RANGES_FILE)
    one = found.data[tensor]
    one.lowest, one.highest = (np.asarray(end * factor, np.float32) for end in one.range_value)
    save_tensors_data(found, ranges / RANGES_FILE)


def scale_openvino_range(ranges: Path, tensor: str, factor: float, graph: Graph) -> None:
    """Change the ends of a tensor's FakeQuantize in the model that `calibrate` wrote."""
    model = read_model(ranges / OPENVINO_FILE)
    for name, operation in _fake_quantizers(ranges, graph, model):
        if name == tensor:
            for place in range(1, 5):
                end = operation.input_value(place).get_node()
                operation.input(place).replace_source_output(_constant(end.data * np.float32(factor)))
    _save(model, ranges)


def _constant(array: Any) -> Any:
    from openvino import opset13

    return opset13.constant(np.ascontiguousarray(array)).output(0)


def _save(model: Any, folder: Path) -> None:
    """Write over the files that the model was read from, which are mapped into memory until it is gone."""
    kept = model.clone()
    for constant in [each for each in kept.get_ordered_ops() if each.get_type_name() == "Constant"]:
        array = np.array(constant.data)
        if array.size > 1 and array.dtype.kind in "fiu" and constant.get_element_type().get_size() == array.itemsize:
            fresh = _constant(array)
            for target in list(constant.output(0).get_target_inputs()):
                target.replace_source_output(fresh)
    for file in (folder / OPENVINO_FILE, (folder / OPENVINO_FILE).with_suffix(".bin")):
        file.unlink()
    save_model(kept, folder)


def ort_weights(folder: Path) -> list[tuple[str, str]]:
    """Return integers of each weight by name, and the name of the product that reads them."""
    graph = Graph.load(folder / ORT_FILE)
    found = []
    for node in graph.nodes:
        if node.op_type == "DequantizeLinear" and node.input[0] in graph.constants:
            tensor, readers = graph.constants[node.input[0]], graph.readers[node.output[0]]
            if len(tensor.dims) > 1 and tensor.data_type == onnx.TensorProto.INT8 and len(readers) == 1:
                found.append((node.input[0], readers[0].name))
    return found


def perturb_ort_weight(folder: Path, name: str, share: float, seed: int) -> None:
    """Add noise of a `share` of their norm to the integers of a weight, in the engine's file."""
    graph = Graph.load(folder / ORT_FILE)
    tensor = graph.constants[name]
    tensor.CopyFrom(numpy_helper.from_array(_perturbed(numpy_helper.to_array(tensor), share, seed), name))
    graph.save(folder / ORT_FILE)


def openvino_weights(folder: Path, model: Path) -> list[tuple[int, str]]:
    """Return the place of each constant of eight bits among all operations, and what of `model` reads it."""
    operations = rename_operations(read_model(folder / OPENVINO_FILE), Model.from_onnx(model)).get_ordered_ops()
    places = [place for place, each in enumerate(operations) if _is_weight(each)]
    return [(place, _reader_of(operations[place])) for place in places]


def _reader_of(constant: Any) -> str:
    node = constant
    while node is constant or node.get_type_name() in ("Convert", "Multiply", "Reshape", "Subtract", "Transpose"):
        node = next(iter(node.output(0).get_target_inputs())).get_node()
    return str(node.get_friendly_name())


def _is_weight(operation: Any) -> bool:
    return (
        operation.get_type_name() == "Constant"
        and operation.get_element_type().get_type_name() == "i8"
        and len(operation.get_output_shape(0)) > 1
        and operation.data.size > 1
    )


def perturb_openvino_weight(folder: Path, place: int, share: float, seed: int) -> None:
    """Add noise to the integers of a weight, by its place among all operations."""
    model = read_model(folder / OPENVINO_FILE)
    operation = model.get_ordered_ops()[place]
    fresh = _constant(_perturbed(np.array(operation.data), share, seed))
    for target in list(operation.output(0).get_target_inputs()):
        target.replace_source_output(fresh)
    _save(model, folder)


def _perturbed(integers: Any, share: float, seed: int) -> Any:
    draw = np.random.default_rng([seed, 2])
    values = integers.astype(np.float64)
    noise = draw.normal(size=values.shape)
    noise *= share * float(np.linalg.norm(values)) / float(np.linalg.norm(noise))
    return np.clip(np.rint(values + noise), -127, 127).astype(integers.dtype)


def changed_operators(backend: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield words for each operator that can be changed without a change of shapes, and what changes it."""
    if backend == "ort":
        graph = Graph.load(folder / ORT_FILE)
        for place, node in enumerate(graph.nodes):
            if node.op_type in ("Conv", "LeakyRelu", "AveragePool", "LayerNormalization"):
                yield f"{node.op_type} {node.name}", (place, node.op_type)
        return
    for number, found in enumerate(_PADS.finditer((folder / OPENVINO_FILE).read_text("utf-8"))):
        if found["begin"] == found["end"] and set(found["begin"]) & set("123456789"):
            yield f"pads {number}", number


_PADS = re.compile(r'pads_begin="(?P<begin>[^"]*)" pads_end="(?P<end>[^"]*)"')


def change_operator(backend: str, folder: Path, what: Any) -> bool:
    """Change one operator of an engine's file; tells whether it could."""
    if backend == "openvino":
        file = folder / OPENVINO_FILE
        found = list(_PADS.finditer(text := file.read_text("utf-8")))[what]
        ends = ", ".join(str(2 * int(each)) for each in found["end"].split(","))
        none = ", ".join("0" for _ in found["begin"].split(","))
        changed = f'pads_begin="{none}" pads_end="{ends}"'
        file.write_text(text[: found.start()] + changed + text[found.end() :], "utf-8")
        return True
    place, kind = what
    graph = Graph.load(folder / ORT_FILE)
    done = _change(graph.nodes[place], kind)
    graph.save(folder / ORT_FILE)
    return done


def _change(node: onnx.NodeProto, kind: str) -> bool:
    given = {each.name: each for each in node.attribute}
    if kind in ("Conv", "AveragePool"):
        pads = list(given["pads"].ints) if "pads" in given else []
        half = len(pads) // 2
        if not any(pads) or pads[:half] != pads[half:]:
            return False
        del given["pads"].ints[:]
        given["pads"].ints.extend([0] * half + [2 * each for each in pads[half:]])
        return True
    name, value = {"LeakyRelu": ("alpha", 0.9), "LayerNormalization": ("epsilon", 1.0)}[kind]
    for each in [each for each in node.attribute if each.name == name]:
        node.attribute.remove(each)
    node.attribute.append(onnx.helper.make_attribute(name, value))
    return True
