"""The models of a self-test do as much work as they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from pytest_quant.backends.workload import LAYERS, WORKLOADS, Workload, inputs_of, write_workload

KINDS = [pytest.param(work, id=work.name) for work in WORKLOADS[:2]]


def _multiplications(file: Path) -> int:
    """Of all products, by the sizes of their weights and the rows of the input."""
    graph = onnx.load(file).graph
    sizes = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    rows = graph.input[0].type.tensor_type.shape.dim[1].dim_value
    return sum(rows * int(np.prod(sizes[node.input[1]])) for node in graph.node if node.op_type == "MatMul")


@pytest.mark.parametrize("work", KINDS)
def test_one_layer_more_is_five_percent_more_work(tmp_path: Path, work: Workload) -> None:
    """21 in place of 20, and nothing else."""
    for layers in (LAYERS, LAYERS + 1):
        write_workload(tmp_path / f"{layers}.onnx", work, layers)
    base, planted = (_multiplications(tmp_path / f"{layers}.onnx") for layers in (LAYERS, LAYERS + 1))
    assert planted == pytest.approx(1.05 * base)


@pytest.mark.parametrize("work", KINDS)
def test_values_neither_vanish_nor_explode(tmp_path: Path, work: Workload) -> None:
    """After twenty layers they are still of the size of the input, so that INT8 has something to round."""
    write_workload(tmp_path / "model.onnx", work, LAYERS)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x0": inputs_of(work, 1)})
    assert found.shape == (1, work.rows, work.width)
    assert 0.001 < float(np.abs(found).mean()) < 1000.0


def test_layers_with_weights_of_their_own_read_more_memory(tmp_path: Path) -> None:
    """The size of the file is that of all weights; a shared one is there once."""
    sizes = {}
    for shares in (True, False):
        file = tmp_path / f"{shares}.onnx"
        write_workload(file, Workload("any", 1, 64, shares), 10)
        sizes[shares] = file.stat().st_size
    assert sizes[False] > 9 * 64 * 64 * 4 + sizes[True] - 64 * 64 * 4
