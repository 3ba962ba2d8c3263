"""What a product with packed weights multiplies: its attributes tell, and numbers prove it; its name tells neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.macs import INT8_OPS, NARROW_OPS, RanNode, kind_of, mark_weights, weights_in
from pytest_quant.backends.readback import Kind
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model
from tests.integration.projects import output, run_project, write_project
from tests.support.measuring import numbers
from tests.support.models import parsed

K, N, ROWS = 512, 16, 5


def packed(
    bits: int, level: int, block: int, *, zeros: str = "", order: bool = False, place: str = "", name: str = "mm"
) -> tuple[onnx.NodeProto, list[onnx.TensorProto], NDArray[np.float64]]:
    """Return a MatMulNBits of (rows, 512) by (512, 16), its tensors, and the weights (512, 16) that they mean."""
    rng = np.random.default_rng(bits + block)
    blocks, each = K // block, 8 // bits
    levels = rng.integers(0, 2**bits, size=(N, blocks, block)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, size=(N, blocks)).astype(np.float32)
    stored = sum(levels[..., part::each] << np.uint8(bits * part) for part in range(each))
    middle = 2 ** (bits - 1)
    tensors: dict[str, NDArray[Any]] = {"B": np.asarray(stored, np.uint8), "scales": scales.reshape(-1)}
    inputs = ["x", "B", "scales", "zeros" if zeros else "", "order" if order else ""]
    if zeros == "float":
        tensors["zeros"] = np.full(N * blocks, middle, np.float32)
    elif zeros:
        tensors["zeros"] = np.full((N, -(-blocks // each)), sum(middle << (bits * i) for i in range(each)), np.uint8)
    if order:
        tensors["order"] = (np.arange(K) // block).astype(np.int32)
    node = helper.make_node(
        "MatMulNBits", [f"{each}{place}" if each and each != "x" else each for each in inputs], [f"y{place}"], name,
        domain="com.microsoft", K=K, N=N, bits=bits, block_size=block, accuracy_level=level,
    )  # fmt: skip
    weights = ((levels.astype(np.float64) - middle) * scales[..., None]).reshape(N, K).T
    return node, [numpy_helper.from_array(array, f"{key}{place}") for key, array in tensors.items()], weights


def saved(path: Path, nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto]) -> Path:
    """Write a model of `nodes`, each of which reads ``x`` and gives an output."""
    results = [helper.make_tensor_value_info(node.output[0], 1, ["n", N]) for node in nodes]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", K])], results, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def read_back(path: Path, precision: str, x: NDArray[np.float32]) -> tuple[Coverage, dict[str, NDArray[np.float32]]]:
    """Open a file that arrives quantized; return its coverage and its outputs."""
    model = Model.from_onnx(path)
    with OrtEngine(EngineSpec("ort", precision, "qat", model, model), path) as engine:
        return engine.coverage({"x": x}), engine.run({"x": x})


@pytest.mark.parametrize(
    ("bits", "level", "block", "zeros", "order"),
    [
        (8, 4, 32, "", False),
        (8, 4, 128, "uint8", False),
        (8, 0, 32, "", False),
        (8, 1, 32, "", False),
        (8, 4, 512, "", False),
        (4, 4, 16, "", False),
        (4, 4, 256, "uint8", False),
        (4, 0, 32, "", False),
        (4, 4, 512, "", False),
        (4, 4, 32, "float", False),
        (4, 4, 32, "", True),
    ],
)
def test_numbers_tell_what_is_multiplied(
    bits: int, level: int, block: int, zeros: str, order: bool, tmp_path: Path
) -> None:
    """Where inputs are rounded to int8 in blocks, absolute maximum / 127, the product is int8; else it is float."""
    node, tensors, weights = packed(bits, level, block, zeros=zeros, order=order)
    path, x = saved(tmp_path / "m.onnx", [node], tensors), numbers(ROWS, K, seed=1)
    in_blocks = x.reshape(ROWS, K // block, block).astype(np.float64)
    step = np.abs(in_blocks).max(axis=2, keepdims=True) / 127
    rounded = (np.round(in_blocks / step) * step).reshape(ROWS, K) @ weights
    asked8, outputs = read_back(path, "int8", x)
    is_int8 = float(np.abs(outputs["y"] - rounded).max()) < 0.1 * float(np.abs(outputs["y"] - x @ weights).max())
    assert asked8.pct == (100.0 if is_int8 else 0.0)
    assert asked8.weights_pct == (100.0 if bits == 8 and not is_int8 else None)
    assert read_back(path, "int4", x)[0].pct == (100.0 if bits == 4 else 0.0)


@pytest.mark.parametrize("names", [("a", "b", "c"), ("", "", "")])
def test_nodes_of_one_operator_are_told_apart(names: tuple[str, str, str], tmp_path: Path) -> None:
    """Two of 8 bits, one of which is multiplied in float, and one of 4: with names and without."""
    made = [
        packed(bits, level, 32, place=place, name=name)
        for (bits, level), place, name in zip([(8, 4), (8, 0), (4, 0)], "012", names, strict=True)
    ]
    path = saved(
        tmp_path / "m.onnx", [node for node, _, _ in made], [each for _, tensors, _ in made for each in tensors]
    )
    result, _ = read_back(path, "int8", numbers(ROWS, K))
    assert result.pct == result.weights_pct == pytest.approx(100 / 3)
    assert read_back(path, "int4", numbers(ROWS, K))[0].pct == pytest.approx(100 / 3)


CONVOLUTION = """(float[n, 8] x) => (float[n, 1] y) <int64[1] axis = {1}, int64[1] last = {2}> {
    u = Unsqueeze(x, axis) w = DequantizeLinear<axis = 0>(W, scales) [conv] c = Conv(u, w) r = Relu(c)
    y = ReduceMean<axes = [2], keepdims = 0>(r) }"""


def test_weights_of_eight_bits_that_are_multiplied_in_float_are_said(pytester: pytest.Pytester) -> None:
    """A convolution has no such kernel: it makes floats of its weights. The file is small, and the limit is broken."""
    kernel = np.random.default_rng(0).integers(-127, 127, size=(1, 1, 3)).astype(np.int8)
    scales = np.full(1, 0.01, np.float32)
    parsed(pytester.path / "int8.onnx", CONVOLUTION, W=kernel, scales=scales)
    floats = CONVOLUTION.replace("w = DequantizeLinear<axis = 0>(W, scales)", "")
    parsed(pytester.path / "model.onnx", floats, w=0.01 * kernel.astype(np.float32))
    write_project(pytester, data="return Dataset.from_arrays(x)", mark="quantized='int8.onnx', min_sqnr_db=10")
    result, (check,) = run_project(pytester)
    assert check["status"] == "FAIL"
    assert (check["coverage"]["pct"], check["coverage"]["weights_pct"]) == (0.0, 100.0)
    text = " ".join(output(result).split())
    assert "100.00 % of the eligible MACs: weights in int8, computed in float" in text
    assert "speed and size are not" not in text


def test_products_whose_name_says_integers_multiply_bytes() -> None:
    """Weights of each such operator that the CPU has a kernel for are bytes; those of MatMulInteger16 are not."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    kernels = [each for each in get_all_opkernel_def() if each.provider == "CPUExecutionProvider"]
    for kernel in kernels:
        if kernel.op_name in INT8_OPS:
            types = {word for words in kernel.type_constraints.values() for word in words}
            assert types & {"tensor(int8)", "tensor(uint8)"}, kernel.op_name
            assert not types & {"tensor(int16)", "tensor(uint16)"}, kernel.op_name
    ran = RanNode("n", "MatMulInteger16", "CPUExecutionProvider", (("int16", (1, 4)),), (("int32", (1, 4)),))
    assert [kind_of(ran, precision) for precision in ("int8", "int4", "fp32")] == [Kind.OTHER] * 3


@pytest.mark.parametrize(
    ("op_type", "settings", "kinds"),
    [
        ("QMoE", {"expert_weight_bits": 8}, (Kind.OTHER, Kind.OTHER)),
        ("QMoE", {}, (Kind.OTHER, Kind.ASKED)),
        ("MatMulNBitsMlp", {"bits": 8, "accuracy_level": 4, "block_size": 32}, (Kind.OTHER, Kind.OTHER)),
        ("MatMulNBits", {"block_size": 32}, (Kind.OTHER, Kind.ASKED)),
        ("MatMulNBits", {"block_size": 32, "bits": 8, "accuracy_level": 4}, (Kind.ASKED, Kind.OTHER)),
    ],
)
def test_bits_of_every_packed_operator_are_read(
    op_type: str, settings: dict[str, int], kinds: tuple[Kind, Kind]
) -> None:
    """Four bits where nothing is said; what only a GPU runs, or another provider does, is no product of integers."""
    assert op_type in NARROW_OPS
    node = helper.make_node(op_type, ["x", "B", "s"], ["y"], "n", domain="com.microsoft")
    node.attribute.extend(helper.make_attribute(key, value) for key, value in settings.items())
    model = helper.make_model(helper.make_graph([node], "g", [], []))
    for provider in ("CPUExecutionProvider", "CUDAExecutionProvider"):
        run = [RanNode("n", op_type, provider, (("float", (1, 4)),), (("float", (1, 4)),))]
        (ran,) = mark_weights(run, weights_in(model, run))
        found = tuple(kind_of(ran, precision) for precision in ("int8", "int4"))
        assert found == (kinds if provider.startswith("CPU") else (Kind.OTHER, kinds[1]))
