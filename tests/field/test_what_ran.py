"""Reports of engines that ran something else than was asked for, and passed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from pytest_quant import Dataset, Model
from pytest_quant.record import Record
from pytest_quant.spec import EngineSpec, Limits
from tests.support.measuring import checked, numbers

_Shape = Sequence[str | int | None]
_LIMITS = Limits(min_sqnr_db=15.0, min_coverage=50.0)


@pytest.fixture(autouse=True)
def _defaults_of_inductor() -> Iterator[None]:
    """What a test sets ends with it, and nothing that Inductor compiled before is taken again."""
    with torch._inductor.config.patch(fx_graph_cache=False):
        yield


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    arrays: Mapping[str, np.ndarray],
    shapes: tuple[_Shape, _Shape],
    opset: int = 17,
) -> Model:
    """Write a graph from ``x`` to ``y``, of the shapes given."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return Model.from_onnx(path)


def _status_of(record: Record, limit: str) -> str:
    return next(verdict.status for verdict in record.verdicts or () if verdict.limit == limit)


def test_products_of_an_if_with_weights_of_the_graph_around_it_are_quantized(tmp_path: Path) -> None:
    """Merged decoders of optimum (microsoft/onnxruntime#8488): dynamic left the bodies in float and passed."""

    def body(name: str, weight: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node("MatMul", ["x", weight], [f"t{name}"], f"{name}_mm"),
            helper.make_node("Tanh", [f"t{name}"], [name]),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32])])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["h"], "if", then_branch=body("a", "w1"), else_branch=body("b", "w2")),
        helper.make_node("MatMul", ["h", "out"], ["y"], "fc"),
    ]
    weights = {"w1": numbers(32, 32) / 5, "w2": numbers(32, 32, seed=1) / 5, "out": numbers(32, 6, seed=2) / 5}
    model = _save(tmp_path / "if.onnx", nodes, weights | {"zero": np.array(0, np.float32)}, (["n", 32], ["n", 6]))
    data = Dataset.from_arrays(numbers(120, 32, seed=3), calibration=40)
    record = checked(tmp_path, model, data, scheme="dynamic", limits=_LIMITS)
    assert (record.coverage and record.coverage.pct, record.status) == (100.0, "PASS")


def test_eight_bit_weights_behind_dequantize_linear_ran_in_int8(tmp_path: Path) -> None:
    """Weight-only Q/DQ files (ekhodzitsky/gigastt#69): ONNX Runtime rounds the inputs as well, and 0 % was said."""
    values = numbers(64, 10) / 8
    scale = np.abs(values).max(0) / 127
    packed = {"q": np.round(values / scale).astype(np.int8), "s": scale, "z": np.zeros(10, np.int8)}
    relu = helper.make_node("Relu", ["x"], ["r"], "relu")
    product = helper.make_node("MatMul", ["r", "v"], ["y"], "fc")
    pair = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["v"], "dq", axis=1)
    shapes: tuple[_Shape, _Shape] = (["n", 64], ["n", 10])
    model = _save(tmp_path / "fp32.onnx", [relu, product], {"v": values}, shapes)
    given = _save(tmp_path / "dq.onnx", [relu, pair, product], packed, shapes)
    data = Dataset.from_arrays(numbers(120, 64, seed=1))
    record = checked(tmp_path, model, data, scheme="given", quantized=given, limits=_LIMITS)
    assert (record.coverage and record.coverage.pct, record.status) == (100.0, "PASS")


def test_a_square_beyond_float16_is_infinite_in_a_simulated_engine(tmp_path: Path) -> None:
    """A normalisation written out (NVIDIA/TensorRT#2466): every row becomes 0 in float16, and 74 dB were said."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["variance"], axes=[-1]),
        helper.make_node("Sqrt", ["variance"], ["deviation"]),
        helper.make_node("Div", ["d", "deviation"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["y"]),
    ]
    arrays = {"two": np.array(2, np.float32), "w": numbers(16, 8)}
    model = _save(tmp_path / "norm.onnx", nodes, arrays, (["b", 4, 16], ["b", 4, 8]), opset=13)
    inputs = numbers(30, 4, 16, seed=1) * 500
    squares = np.square(inputs - inputs.mean(-1, keepdims=True))
    assert (squares > np.finfo(np.float16).max).any()
    data = Dataset.from_arrays(inputs, calibration=10)
    options = (("compute_capability", "SM89"),)
    reference = EngineSpec("trt-rtx", "fp32", None, model, options=options)
    half = EngineSpec("trt-rtx", "fp16", None, model, options=options)
    record = checked(tmp_path, model, data, candidate=half, reference=reference, limits=_LIMITS)
    assert record.status == "FAIL"


def test_rows_that_mix_in_the_given_file_are_a_warning_at_batch_one(tmp_path: Path) -> None:
    """Right at batch 1, wrong above (NVIDIA/TensorRT#3103): it was seen, and the terminal said nothing."""
    weights = numbers(32, 8) / 5.6
    shapes: tuple[_Shape, _Shape] = (["n", 32], ["n", 8])
    model = _save(
        tmp_path / "float.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"w": weights}, shapes, opset=13
    )
    arrays: dict[str, np.ndarray] = {
        "w": weights,
        "s": np.array(4.5 / 127, np.float32),
        "ws": np.array(np.abs(weights).max() / 127, np.float32),
        "z": np.array(0, np.int8),
        "k": np.array(-1, np.float32),
    }
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Mul", ["d", "k"], ["e"]),
        helper.make_node("Add", ["x", "e"], ["o"]),
        helper.make_node("QuantizeLinear", ["o", "s", "z"], ["oq"]),
        helper.make_node("DequantizeLinear", ["oq", "s", "z"], ["od"]),
        helper.make_node("QuantizeLinear", ["w", "ws", "z"], ["wq"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "z"], ["wd"]),
        helper.make_node("MatMul", ["od", "wd"], ["y"], "m"),
    ]
    given = _save(tmp_path / "mixes.onnx", nodes, arrays, shapes, opset=13)
    data = Dataset.from_arrays(numbers(60, 32, seed=1), calibration=20)
    record = checked(
        tmp_path, model, data, scheme="given", quantized=given, limits=Limits(min_sqnr_db=20.0, min_coverage=0.0)
    )
    assert "depend on the batch" in " ".join(record.warnings)


class _Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(16, 32, batch_first=True), torch.nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]


class _Einsum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.head = torch.nn.Parameter(torch.randn(64, 64) / 8), torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(torch.einsum("bd,dk->bk", x, self.weight)))  # type: ignore[no-any-return]


_TORCH = {
    # The gates of 6 steps stay float: 6 * 4 * 32 * (16 + 32) MACs beside the 32 * 5 of the head.
    "an LSTM": (_Recurrent, (6, 16), 100 * 160 / (160 + 6 * 4 * 32 * 48), "FAIL"),
    # One of two products is generated code, of 64 * 64 MACs beside 64 * 16.
    "einsum": (_Einsum, (64,), 100 * 1024 / (1024 + 4096), "FAIL"),
}


@pytest.mark.parametrize("kind", _TORCH)
def test_what_inductor_leaves_in_float_counts_by_its_macs(tmp_path: Path, kind: str) -> None:
    """Static engines said 50 and 100 % of nodes (pytorch/executorch#10104), and passed."""
    torch.manual_seed(0)
    module, shape, pct, status = _TORCH[kind]
    model = Model.from_torch(module().eval(), (torch.zeros(2, *shape),), name="net")
    data = Dataset.from_arrays(numbers(40, *shape, seed=1), calibration=20)
    record = checked(tmp_path, model, data, backend="torch", scheme="weight-only", limits=_LIMITS)
    assert record.coverage
    assert record.coverage.pct == pytest.approx(pct)
    assert _status_of(record, "min_coverage") == status


def test_products_that_max_autotune_generates_are_counted(tmp_path: Path) -> None:
    """Linear layers (pytorch/ao#4566): the graph was said to have no node that could be quantized."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU()).eval()
    model = Model.from_torch(module, (torch.randn(2, 4, 32),), name="layer")
    data = Dataset.from_arrays(numbers(20, 4, 32), calibration=10)
    with torch._inductor.config.patch(max_autotune=True, max_autotune_gemm_backends="CPP,ATEN"):
        record = checked(tmp_path, model, data, backend="torch", limits=_LIMITS)
    assert record.coverage
    assert record.coverage.pct is not None
