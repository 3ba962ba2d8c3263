"""Multiply-accumulates, by a profile or from the file, equal those of formulas and of torch's counter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.backends.onnx_files import model_file
from pytest_quant.backends.ort.macs import PRODUCT_OPS, Product, RanNode, find_products, kind_of, macs_of
from pytest_quant.backends.readback import Kind
from pytest_quant.testing.conformance.examples import conv, dense
from tests.support.models import parsed

torch = pytest.importorskip("torch")
SIZES = st.integers(1, 6)
Shape = tuple[int, ...]


def _node(op_type: str, inputs: list[Shape], output: Shape) -> RanNode:
    operands = tuple(("float", tuple(shape)) for shape in inputs)
    return RanNode("n", op_type, "CPUExecutionProvider", operands, (("float", tuple(output)),))


def _counted(call: object, *shapes: Shape) -> tuple[int, Shape]:
    """Return multiply-accumulates and the shape of the output of `call` on zeros."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        output = call(*(torch.zeros(shape) for shape in shapes))  # type: ignore[operator]
    return counter.get_total_flops() // 2, tuple(output.shape)


@settings(max_examples=25)
@given(SIZES, SIZES, SIZES, st.sampled_from([1, 2, 3]), st.integers(1, 3), st.integers(4, 9))
def test_convolution(n: int, channels: int, outputs: int, groups: int, kernel: int, size: int) -> None:
    """Float and int8 convolutions, groups included."""
    x, w = (n, channels * groups, size, size), (outputs * groups, channels, kernel, kernel)
    expected, output = _counted(lambda a, b: torch.nn.functional.conv2d(a, b, groups=groups, padding=1), x, w)
    for op_type in ("Conv", "FusedConv", "ConvInteger"):
        assert macs_of(_node(op_type, [x, w], output)) == expected
    assert macs_of(_node("QLinearConv", [x, (), (), w, (w[0],), (w[0],), (), ()], output)) == expected


@settings(max_examples=15)
@given(SIZES, SIZES, SIZES, st.integers(1, 3), st.integers(2, 6))
def test_transposed_convolution(n: int, channels: int, outputs: int, kernel: int, size: int) -> None:
    """Each input element meets each weight of its channel; torch counts the same for stride 1 and whole output."""
    x, w = (n, channels, size, size), (channels, outputs, kernel, kernel)
    expected, output = _counted(lambda a, b: torch.nn.functional.conv_transpose2d(a, b, stride=kernel), x, w)
    assert macs_of(_node("ConvTranspose", [x, w], output)) == expected


@settings(max_examples=25)
@given(SIZES, SIZES, SIZES, SIZES)
def test_products(batch: int, m: int, k: int, n: int) -> None:
    """Matrix products in two and three axes, with the left side transposed or not."""
    two, _ = _counted(torch.mm, (m, k), (k, n))
    for op_type in ("MatMul", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "FusedMatMul"):
        assert macs_of(_node(op_type, [(m, k), (k, n)], (m, n))) == two
    assert macs_of(_node("QLinearMatMul", [(m, k), (), (), (k, n), (n,), (n,), (), ()], (m, n))) == two
    assert macs_of(_node("MatMulNBits", [(m, k), (n, 1, 16), (n,)], (m, n))) == two
    for shape in ((m, k), (k, m)):
        assert macs_of(_node("Gemm", [shape, (k, n), (n,)], (m, n))) == two
    assert macs_of(_node("FusedMatMul", [(k, m), (k, n)], (m, n))) == two
    three, _ = _counted(torch.bmm, (batch, m, k), (batch, k, n))
    assert macs_of(_node("MatMul", [(batch, m, k), (batch, k, n)], (batch, m, n))) == three


def test_lstm() -> None:
    """An LSTM multiplies each step's input and state by the weights of four gates."""
    steps, batch, inputs, hidden = 7, 2, 5, 3
    node = _node(
        "LSTM", [(steps, batch, inputs), (1, 4 * hidden, inputs), (1, 4 * hidden, hidden)], (steps, 1, batch, hidden)
    )
    assert macs_of(node) == steps * batch * 4 * hidden * (inputs + hidden)


def test_attention() -> None:
    """Attention projects to Q, K and V, and multiplies scores and values of every pair of tokens."""
    batch, tokens, hidden = 2, 5, 8
    expected = batch * tokens * hidden * 3 * hidden + 2 * batch * tokens * tokens * hidden
    assert (
        macs_of(_node("Attention", [(batch, tokens, hidden), (hidden, 3 * hidden)], (batch, tokens, hidden)))
        == expected
    )


@pytest.mark.parametrize("op_type", ["MultiHeadAttention", "Einsum", "MoE"])
def test_unknown(op_type: str) -> None:
    """Where shapes do not tell there is no number, and none is made up."""
    assert macs_of(_node(op_type, [(2, 3, 4), (2, 3, 4)], (2, 3, 4))) is None
    assert macs_of(RanNode("n", "Conv", "CPU", (), ())) is None
    assert macs_of(_node("Conv", [(1, 1, 4, 4)], (1, 1, 4, 4))) is None


NO_PRODUCTS = """
    ConvStateReplay DequantizeLinear DynamicQuantizeLinear GatedDeltaNetStateReplay GemmaRotaryEmbedding
    LinearAttentionGate LinearClassifier LinearRegressor MelWeightMatrix MoEGroupRouter PackedSparseAttentionIndexer
    PackedSparseAttentionIndexerMerge QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear
    RegexFullMatch SparseAttentionIndexer
"""
"""Operators whose name has such a word and which multiply no matrices of the network."""

ABSENT = "DisentangledAttention_TRT GRUUnit"
"""Operators that ONNX Runtime declares for plugins of others, and has no kernels for."""


def test_every_fused_product_of_the_runtime_is_a_product() -> None:
    """Whatever ONNX Runtime declares that is named for one; an unknown one would leave the compute without a word."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    words = ("Attention", "Conv", "DeltaNet", "GRU", "Gemm", "LSTM", "Linear", "Mat", "MoE", "RNN", "UpProj")
    named = {each.name for each in get_all_operator_schema() if any(word in each.name for word in words)}
    assert named - PRODUCT_OPS - {*NO_PRODUCTS.split(), *ABSENT.split()} == set()


@pytest.mark.parametrize(
    ("op_type", "precision", "kind"),
    [
        ("LongformerAttention", "int8", Kind.OTHER),
        ("LongformerAttention", "fp32", Kind.ASKED),
        ("QOrderedMatMul", "int8", Kind.ASKED),
        ("MatMulNBitsMlp", "int4", Kind.ASKED),
        ("GemmFloat8", "int8", Kind.OTHER),
        ("MatMulPacked", "fp32", Kind.OTHER),
    ],
)
def test_fused_products_count_in_their_own_precision(op_type: str, precision: str, kind: Kind) -> None:
    """A float attention is float, packed weights are no float32."""
    assert kind_of(_node(op_type, [(1, 4)], (1, 4)), precision) is kind


def test_a_convolution_and_the_gemm_behind_it(tmp_path: Path) -> None:
    """8 channels of 6 x 6 take 9 products each; the Gemm reads all 288 of them for 10 outputs."""
    result = find_products(model_file(conv().write(tmp_path)), conv().feeds(2, 0))
    assert [(each.name, each.macs) for each in result] == [("conv", 2 * 8 * 36 * 9), ("dense", 2 * 288 * 10)]


def test_a_shape_that_is_computed_from_sizes(tmp_path: Path) -> None:
    """As PyTorch exports `expand`: sizes of -1 are replaced in the graph, where inference by ONNX loses track."""
    parsed(
        tmp_path / "m.onnx",
        """(float[n, t, 6] x, float[6, 4] w) => (float[n, t, 4] y)
        <int64[3] ones = {1, 1, 1}, int64 minus = {-1}, float[6] row = {1, 1, 1, 1, 1, 1}> {
            sizes = Shape(x)
            same = Mul(ones, minus)
            free = Equal(sizes, same)
            wanted = Where(free, ones, sizes)
            a = Expand(row, wanted)
            [last] y = MatMul(a, w)
        }""",
    )
    result = find_products(tmp_path / "m.onnx", {"x": np.ones((2, 9, 6), np.float32)})
    assert [each.macs for each in result] == [2 * 9 * 6 * 4]


def test_a_shape_that_the_data_decide(tmp_path: Path) -> None:
    """Behind NonZero nobody knows the sizes, and no number is invented."""
    parsed(
        tmp_path / "m.onnx",
        """(float[3, k] x, float[3, 2] w) => (float[3, m] y) {
            where = NonZero(x)
            f = Cast<to = 1>(where)
            [last] y = MatMul(w, f)
        }""",
    )
    result = find_products(tmp_path / "m.onnx", {"x": np.ones((3, 4), np.float32)})
    assert result == [Product("last", ("y",), None)]


def test_a_bias_names_the_kernel(tmp_path: Path) -> None:
    """OpenVINO fuses a product with the constant that is added, and calls the kernel by the addition."""
    first, second = find_products(model_file(dense().write(tmp_path)), dense().feeds(1, 0))
    assert first.is_called("bias/WithoutBiases")
    assert first.is_called("a")
    assert not second.is_called("bias")


def test_whom_a_kernel_answers_for() -> None:
    """A node is called by its name, by its name and more behind a slash, or by its output."""
    product = Product("conv", ("out",), 1)
    assert all(map(product.is_called, ["conv", "conv/WithoutBiases", "out"]))
    assert not any(map(product.is_called, ["conv2", "my/conv", "output", ""]))
    assert not Product("", ("out",), 1).is_called("/absolute")
