"""Networks like those that users deploy, a detector after YOLO and a text encoder after BERT, and their data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper

from pytest_quant.backends import Feeds
from tests.integration.trt_traps.networks import save_network

_WIDE, _HEADS, _FEATURES = 32, 4, 5
"""Width of the encoder, its heads, and numbers of a detected place: four of the box and one of the class."""


def yolo(folder: Path) -> Path:
    """Free height and width, three resolutions, a map scaled up to the sizes of another, all places in one output.

    Sizes are read from the graph by Shape, so that they are shape tensors inside it, and one counts the anchors, whose
    coordinates are floats.
    """
    nodes = [
        *_convolution("stem", "images", 3, 2),
        *_convolution("fine", "stem_out", 3, 2),
        *_convolution("coarse", "fine_out", 3, 2),
        helper.make_node("MaxPool", ["coarse_out"], ["pooled"], name="pool", kernel_shape=[5, 5], pads=[2] * 4),
        helper.make_node("Concat", ["coarse_out", "pooled"], ["pyramid"], name="pyramid", axis=1),
        *_convolution("narrow", "pyramid", 1, 1),
        helper.make_node("Shape", ["fine_out"], ["fine_sizes"], name="fine_sizes"),
        helper.make_node("Resize", ["narrow_out", "", "", "fine_sizes"], ["up"], name="up", mode="nearest"),
        helper.make_node("Concat", ["up", "fine_out"], ["both"], name="both", axis=1),
        *_convolution("mixed", "both", 3, 1),
        helper.make_node("Conv", ["mixed_out", "fine_head_w"], ["fine_map"], name="fine_head", kernel_shape=[1, 1]),
        helper.make_node("Gather", ["fine_sizes", "last"], ["columns"], name="columns"),
        helper.make_node("Cast", ["columns"], ["count"], name="count", to=TensorProto.FLOAT),
        helper.make_node("Range", ["zero", "count", "one"], ["anchors"], name="anchors"),
        helper.make_node("Mul", ["anchors", "step"], ["spread"], name="spread"),
        helper.make_node("Add", ["fine_map", "spread"], ["placed"], name="placed"),
        helper.make_node("Reshape", ["placed", "flat"], ["fine_places"], name="fine_places"),
        helper.make_node(
            "Conv", ["narrow_out", "coarse_head_w"], ["coarse_map"], name="coarse_head", kernel_shape=[1, 1]
        ),
        helper.make_node("Reshape", ["coarse_map", "flat"], ["coarse_places"], name="coarse_places"),
        helper.make_node("Concat", ["fine_places", "coarse_places"], ["raw"], name="places", axis=2),
        helper.make_node("Sigmoid", ["raw"], ["boxes"], name="squash"),
    ]
    weights = {
        "stem_w": (16, 3, 3, 3), "fine_w": (16, 16, 3, 3), "coarse_w": (16, 16, 3, 3), "narrow_w": (16, 32, 1, 1),
        "mixed_w": (16, 32, 3, 3), "fine_head_w": (_FEATURES, 16, 1, 1), "coarse_head_w": (_FEATURES, 16, 1, 1),
    }  # fmt: skip
    constants = {
        "flat": np.array([0, _FEATURES, -1]), "last": np.array(3), "zero": np.array(0, np.float32),
        "one": np.array(1, np.float32), "step": np.array(0.01, np.float32),
    }  # fmt: skip
    ends = {"images": ["n", 3, "h", "w"]}, {"boxes": ["n", _FEATURES, "k"]}
    return save_network(folder / "yolo.onnx", nodes, *ends, weights, constants)


def bert(folder: Path) -> Path:
    """Ids and mask of free length, positions cut to it, one block of attention and one of two products, a mean.

    The positions are a Slice whose end is a size of the input: a shape tensor inside the graph.
    """
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["a"], name="words"),
        helper.make_node("Shape", ["ids"], ["length"], name="length", start=1),
        helper.make_node("Slice", ["places", "zero", "length", "zero"], ["p"], name="places"),
        helper.make_node("Add", ["a", "p"], ["x"], name="embedded"),
        *(node for name in ("query", "key", "value") for node in _split(name)),
        helper.make_node("Transpose", ["key_heads"], ["key_turned"], name="key_turned", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query_heads", "key_turned"], ["scores"], name="scores"),
        helper.make_node("Cast", ["mask"], ["m"], name="mask", to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "middle"], ["m4"], name="mask4"),
        helper.make_node("Sub", ["m4", "one"], ["less"], name="less"),
        helper.make_node("Mul", ["less", "far"], ["away"], name="away"),
        helper.make_node("Add", ["scores", "away"], ["masked"], name="masked"),
        helper.make_node("Softmax", ["masked"], ["attention"], name="attention", axis=-1),
        helper.make_node("MatMul", ["attention", "value_heads"], ["context"], name="context"),
        helper.make_node("Transpose", ["context"], ["context_turned"], name="context_turned", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["context_turned", "joined"], ["c"], name="joined"),
        helper.make_node("MatMul", ["c", "out_w"], ["o"], name="out"),
        helper.make_node("Add", ["x", "o"], ["y"], name="rest1"),
        helper.make_node("MatMul", ["y", "up_w"], ["u"], name="up"),
        helper.make_node("Relu", ["u"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "down_w"], ["d"], name="down"),
        helper.make_node("Add", ["y", "d"], ["z"], name="rest2"),
        helper.make_node("ReduceMean", ["z"], ["mean"], name="mean", axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "class_w"], ["logits"], name="class"),
    ]
    square = (_WIDE, _WIDE)
    weights = {
        "words": (100, _WIDE), "places": (64, _WIDE), "query_w": square, "key_w": square, "value_w": square,
        "out_w": square, "up_w": (_WIDE, 4 * _WIDE), "down_w": (4 * _WIDE, _WIDE), "class_w": (_WIDE, 3),
    }  # fmt: skip
    constants = {
        "zero": np.array([0]), "middle": np.array([1, 2]), "one": np.array(1, np.float32),
        "far": np.array(1e4, np.float32),
        "split": np.array([0, 0, _HEADS, _WIDE // _HEADS]), "joined": np.array([0, 0, _WIDE]),
    }  # fmt: skip
    return save_network(
        folder / "bert.onnx",
        nodes,
        {"ids": ["n", "t"], "mask": ["n", "t"]},
        {"logits": ["n", 3]},
        weights,
        constants,
        {"ids": TensorProto.INT64, "mask": TensorProto.INT64},
    )


def sentences(lengths: tuple[int, ...], seed: int = 0) -> list[Feeds]:
    """One sentence of each length, none of it masked."""
    rng = np.random.default_rng(seed)
    return [{"ids": rng.integers(0, 100, length), "mask": np.ones(length, np.int64)} for length in lengths]


def _convolution(name: str, source: str, kernel: int, stride: int) -> list[NodeProto]:
    return [
        helper.make_node(
            "Conv",
            [source, f"{name}_w"],
            [f"{name}_sum"],
            name=name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
        ),
        helper.make_node("Relu", [f"{name}_sum"], [f"{name}_out"], name=f"{name}_relu"),
    ]


def _split(name: str) -> list[NodeProto]:
    return [
        helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_all"], name=name),
        helper.make_node("Reshape", [f"{name}_all", "split"], [f"{name}_parted"], name=f"{name}_parted"),
        helper.make_node("Transpose", [f"{name}_parted"], [f"{name}_heads"], name=f"{name}_heads", perm=[0, 2, 1, 3]),
    ]
