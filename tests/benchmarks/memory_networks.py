"""Networks of the shapes that people quantize, with random weights, for what they take of memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.generic]


class Net:
    """A graph that is written node by node; each method returns the name of the tensor that it adds."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._numbers = itertools.count()
        self._random = np.random.default_rng(0)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        name = f"{op}_{next(self._numbers)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, values: Array) -> str:
        """Add a tensor of these values."""
        name = f"constant_{next(self._numbers)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, *shape: int) -> str:
        """Add random weights that keep the size of what they multiply; the last axes are summed over."""
        scale = np.prod(shape[1:]) ** -0.5 if len(shape) == 4 else shape[-2] ** -0.5
        return self.constant((scale * self._random.normal(size=shape)).astype(np.float32))

    def conv(self, x: str, into: int, out: int, size: int = 3, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution and a Relu."""
        weight = self.weight(out, into // groups, size, size)
        pads = [size // 2] * 4
        return self.add("Relu", self.add("Conv", x, weight, strides=[stride] * 2, pads=pads, group=groups))

    def dense(self, x: str, into: int, out: int) -> str:
        """Add a product with a matrix."""
        return self.add("MatMul", x, self.weight(into, out))

    def pooled(self, x: str, into: int, out: int) -> str:
        """Add the mean over a picture and a classifier."""
        return self.dense(self.add("Flatten", self.add("GlobalAveragePool", x)), into, out)

    def save(self, path: Path, x: list[int | str], y: str, kind: int = TensorProto.FLOAT) -> None:
        """Write the network from an input ``x`` of a shape to the tensor `y`."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", kind, x)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
            self.weights,
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def pictures(n: int, side: int, other: int | None = None) -> Array:
    """Return random pictures (n, 3, side, other)."""
    return np.random.default_rng(1).normal(size=(n, 3, side, other or side)).astype(np.float32)


def two_convolutions(path: Path) -> Array:
    """Write two convolutions of 64 channels over pictures of 320 x 320: an activation of a picture takes 26 MB."""
    net = Net()
    x = net.add("Conv", net.add("Tanh", net.conv("x", 3, 64)), net.weight(64, 64, 1, 1))
    net.save(path, ["n", 3, "h", "w"], net.pooled(x, 64, 9))
    return pictures(10, 320)


def decoder(path: Path) -> Array:
    """Write what gives 32 000 scores for each of 512 tokens: 65 MB for a text."""
    net = Net()
    x = net.dense(net.add("Gather", net.weight(32000, 64), "x"), 64, 64)
    net.save(path, ["n", "t"], net.dense(net.add("Relu", x), 64, 32000), TensorProto.INT64)
    return np.random.default_rng(1).integers(0, 32000, (8, 512))


def recognizer(path: Path) -> Array:
    """Write a reader of lines of text: convolutions over (3, 48, 320), an LSTM over 40 places, 6625 letters."""
    net = Net()
    x = net.conv("x", 3, 32, stride=2)
    for into, out in ((32, 64), (64, 128)):
        x = net.add("MaxPool", net.conv(x, into, out), kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Squeeze", net.add("MaxPool", x, kernel_shape=[6, 1], strides=[6, 1]), net.constant(np.array([2])))
    x = net.add("Transpose", x, perm=[2, 0, 1])
    lstm = net.add("LSTM", x, net.weight(1, 4 * 240, 128), net.weight(1, 4 * 240, 240), hidden_size=240)
    x = net.add("Transpose", net.add("Squeeze", lstm, net.constant(np.array([1]))), perm=[1, 0, 2])
    net.save(path, ["n", 3, 48, 320], net.add("Softmax", net.dense(x, 240, 6625), axis=-1))
    return pictures(60, 48, 320)


def resnet50(path: Path) -> Array:
    """Write the shapes of ResNet-50 over pictures of 224 x 224."""
    net = Net()
    x, into = net.add("MaxPool", net.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            inner = net.conv(net.conv(net.conv(x, into, width, 1), width, width, 3, stride), width, 4 * width, 1)
            beside = net.conv(x, into, 4 * width, 1, stride) if block == 0 else x
            x, into = net.add("Relu", net.add("Add", inner, beside)), 4 * width
    net.save(path, ["n", 3, 224, 224], net.pooled(x, into, 1000))
    return pictures(24, 224)


def mobilenet(path: Path) -> Array:
    """Write the shapes of MobileNetV2 over pictures of 224 x 224."""
    net = Net()
    x, into = net.conv("x", 3, 32, 3, 2), 32
    for expansion, out, blocks, first in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            width = into * expansion
            inner = net.conv(x, into, width, 1) if expansion > 1 else x
            inner = net.conv(inner, width, width, 3, first if block == 0 else 1, width)
            inner = net.add("Conv", inner, net.weight(out, width, 1, 1))
            x, into = net.add("Add", inner, x) if block else inner, out
    net.save(path, ["n", 3, 224, 224], net.pooled(net.conv(x, into, 1280, 1), 1280, 1000))
    return pictures(40, 224)


def encoder(path: Path) -> Array:
    """Write four layers of a transformer's encoder of width 256 with 8 heads, over 128 tokens."""
    net, width, heads, tokens = Net(), 256, 8, 128
    apart = net.constant(np.array([0, tokens, heads, width // heads]))
    joined = net.constant(np.array([0, tokens, width]))
    x = net.add("Gather", net.weight(30000, width), "x")
    for _ in range(4):
        q, k, v = (net.add("Reshape", net.dense(x, width, width), apart) for _ in range(3))
        scores = net.add(
            "MatMul", net.add("Transpose", q, perm=[0, 2, 1, 3]), net.add("Transpose", k, perm=[0, 2, 3, 1])
        )
        mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), net.add("Transpose", v, perm=[0, 2, 1, 3]))
        mixed = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = net.add("Tanh", net.add("Add", x, net.dense(mixed, width, width)))
        x = net.add("Add", x, net.dense(net.add("Relu", net.dense(x, width, 4 * width)), 4 * width, width))
    net.save(path, ["n", tokens], net.dense(net.add("ReduceMean", x, axes=[1], keepdims=0), width, 10), 7)
    return np.random.default_rng(1).integers(0, 30000, (60, tokens))


def unet(path: Path) -> Array:
    """Write a U-Net of three halvings over pictures of 256 x 256."""
    net, skips = Net(), []
    x, into = "x", 3
    for out in (32, 64, 128):
        x = net.conv(net.conv(x, into, out), out, out)
        skips.append((x, out))
        x, into = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), out
    x = net.conv(x, 128, 128)
    for skip, out in reversed(skips):
        x = net.add("Resize", x, "", net.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
        x, into = net.conv(net.add("Concat", x, skip, axis=1), into + out, out), out
    net.save(path, ["n", 3, 256, 256], net.add("Conv", x, net.weight(2, into, 1, 1)))
    return pictures(12, 256)


def lstm(path: Path) -> Array:
    """Write two LSTMs of 256 units over 200 steps of 80 features."""
    net = Net()
    x, into = net.add("Transpose", "x", perm=[1, 0, 2]), 80
    for _ in range(2):
        x = net.add("LSTM", x, net.weight(1, 1024, into), net.weight(1, 1024, 256), hidden_size=256)
        x, into = net.add("Squeeze", x, net.constant(np.array([1]))), 256
    net.save(path, ["n", 200, 80], net.dense(net.add("ReduceMean", x, axes=[0], keepdims=0), 256, 30))
    return np.random.default_rng(1).normal(size=(60, 200, 80)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Subject:
    """A network, and how it is quantized: ``static``, ``dynamic``, or empty for FP32 on both sides."""

    write: Callable[[Path], Array]
    scheme: str


SUBJECTS = {
    "two convolutions": Subject(two_convolutions, ""),
    "decoder": Subject(decoder, "dynamic"),
    "recognizer": Subject(recognizer, "static"),
    "ResNet-50": Subject(resnet50, "static"),
    "MobileNetV2": Subject(mobilenet, "static"),
    "encoder": Subject(encoder, "dynamic"),
    "U-Net": Subject(unet, "static"),
    "LSTM": Subject(lstm, "dynamic"),
}
