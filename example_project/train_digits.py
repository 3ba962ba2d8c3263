"""Train the digit classifier of this example and write it as ONNX.

Run ``python train_digits.py`` to make ``digits.onnx`` again; it needs torch, onnx and scikit-learn and takes
some seconds. Every other sample of scikit-learn's digits trains, the rest is kept for the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from digits_data import load_digits_split
from onnx import TensorProto, helper, numpy_helper
from torch import nn

EPOCHS = 12
BATCH_SIZE = 64
OPERATORS: dict[type[nn.Module], tuple[str, dict[str, Any]]] = {
    nn.Conv2d: ("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    nn.ReLU: ("Relu", {}),
    nn.MaxPool2d: ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    nn.Flatten: ("Flatten", {}),
    nn.Linear: ("Gemm", {"transB": 1}),
}
"""The ONNX operator of a layer, with its attributes."""


def build_network() -> nn.Sequential:
    """Three convolutions and one linear layer: 48 000 weights, 1.1 million multiply-accumulates."""
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(48, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


def train(network: nn.Sequential, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Fit with Adam; the learning rate falls along one cosine."""
    steps = EPOCHS * -(-len(images) // BATCH_SIZE)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images)).split(BATCH_SIZE):
            loss = nn.functional.cross_entropy(network(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def to_onnx(network: nn.Sequential) -> onnx.ModelProto:
    """Write the layers node by node: a free batch axis, opset 17, and no operator that cannot be INT8."""
    weights = {name: tensor.detach().numpy() for name, tensor in network.named_parameters()}
    names = ["image", *(f"layer{index}" for index in range(len(network) - 1)), "logits"]
    nodes = []
    for index, layer in enumerate(network):
        operator, attributes = OPERATORS[type(layer)]
        own = [name for name in (f"{index}.weight", f"{index}.bias") if name in weights]
        nodes.append(
            helper.make_node(operator, [names[index], *own], [names[index + 1]], f"layer{index}", **attributes)
        )
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Train with fixed seeds and write the model to the path given, ``digits.onnx`` beside this file by default."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("digits.onnx")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    split = load_digits_split()
    network = build_network()
    train(network, torch.from_numpy(split.train_images), torch.from_numpy(split.train_labels))
    with torch.no_grad():
        logits = network.eval()(torch.from_numpy(split.test_images)).numpy()
    model = to_onnx(network)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, target)
    accuracy = 100 * np.mean(logits.argmax(1) == split.test_labels)
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes, {accuracy:.2f} % of {len(logits)} test digits right\n")


if __name__ == "__main__":
    main()
