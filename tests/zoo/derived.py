"""Models made from those of a package, for what no package has as it is."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def with_external_data(source: Path, target: Path) -> None:
    """Save the weights in a file beside the graph."""
    onnx.save(
        onnx.load(source), target, save_as_external_data=True, location=f"{target.stem}.weights", size_threshold=1024
    )


def with_free_sizes(source: Path, target: Path) -> None:
    """Free batch, height and width of pictures, and all sizes of outputs but the channels."""
    model = onnx.load(source)
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.output):
        if value.name in weights:
            continue
        sizes = value.type.tensor_type.shape.dim
        inward = value.name == model.graph.input[0].name
        for index, name in ((0, "batch"), (2, "height"), (3, "width")):
            sizes[index].dim_param = name if inward or index == 0 else f"{name}_{value.name}"
    onnx.save(model, target)


def with_bool_mask(source: Path, target: Path) -> None:
    """Take the attention mask as bool; the last output alone is kept."""
    model = onnx.load(source)
    graph = model.graph
    for value in graph.input:
        if value.name == "attention_mask":
            value.type.tensor_type.elem_type = TensorProto.BOOL
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == "attention_mask":
                node.input[index] = "attention_mask_as_int"
    graph.node.insert(0, helper.make_node("Cast", ["attention_mask"], ["attention_mask_as_int"], to=TensorProto.INT64))
    last = graph.output[-1]
    del graph.output[:]
    graph.output.append(last)
    onnx.save(model, target)
