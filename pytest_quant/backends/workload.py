"""Models that only do work: chains of products whose cost is known, to find out how well a machine can time them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Workload:
    """A chain of layers, each a square product and a ReLU.

    Attributes
    ----------
    name : of the kind of model.
    rows, width : of the input, ``(1, rows, width)``; one layer costs rows * width^2 multiplications.
    shares : all layers have the same weights, which then stay in the caches; else each has its own.
    """

    name: str
    rows: int
    width: int
    shares: bool


_LAYERS = 20

WORKLOADS = (
    Workload("tiny", 1, 32, shares=True),
    Workload("compute-bound", 64, 384, shares=True),
    Workload("memory-bound", 1, 768, shares=False),
)
"""What dominates a run: the way into the runtime and out of it, arithmetic, and reading 47 MB of weights."""


def write_workload(file: Path, work: Workload) -> None:
    """Write a chain of 20 layers as an ONNX file."""
    # Here, because who asks for the workloads need not have any runtime, and onnx comes with those.
    import onnx.parser

    rng, ends = np.random.default_rng(0), f"float[1, {work.rows}, {work.width}]"
    count = 1 if work.shares else _LAYERS
    layers = " ".join(
        f"[MatMul{index}] product{index} = MatMul(x{index}, weight{index % count}) "
        f"[Relu{index}] x{index + 1} = Relu(product{index})"
        for index in range(_LAYERS)
    )
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(f"{head} chain ({ends} x0) => ({ends} x{_LAYERS}) {{ {layers} }}")
    for index in range(count):
        # They keep the size of what goes through them and a ReLU (He et al. 2015, section 2.2).
        weight = (rng.standard_normal((work.width, work.width)) * np.sqrt(2.0 / work.width)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"weight{index}"))
    onnx.save(model, file)


def inputs_of(work: Workload, samples: int) -> NDArray[np.float32]:
    """Return so many samples, the first axis counting them."""
    return np.random.default_rng(1).normal(size=(samples, work.rows, work.width)).astype(np.float32)
