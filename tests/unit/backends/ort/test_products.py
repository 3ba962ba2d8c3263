"""Multiply-accumulates from the file and the shapes of the inputs, against the formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.ort.products import Product, find_products
from pytest_quant.testing.conformance.examples import conv, dense, tokens
from tests.support.models import parsed

SIZES = st.integers(1, 5)


def test_dense_layers(tmp_path: Path) -> None:
    """A product of (n, k) and (k, m) takes n k m, whatever the file says of its free axis."""
    path = tmp_path / "dense.onnx"
    onnx.save_model(dense().proto, path)
    found = find_products(path, dense().feeds(3, 0))
    assert [(one.name, one.macs) for one in found] == [("first", 3 * 64 * 32), ("second", 3 * 32 * 10)]


def test_a_convolution_and_the_gemm_behind_it(tmp_path: Path) -> None:
    """8 channels of 6 x 6 take 9 products each; the Gemm reads all 288 of them for 10 outputs."""
    path = tmp_path / "conv.onnx"
    onnx.save_model(conv().proto, path)
    found = find_products(path, conv().feeds(2, 0))
    assert [(one.name, one.macs) for one in found] == [("conv", 2 * 8 * 36 * 9), ("dense", 2 * 288 * 10)]


def test_two_free_axes(tmp_path: Path) -> None:
    """Batch and length both come from the feeds."""
    path = tmp_path / "tokens.onnx"
    onnx.save_model(tokens().proto, path)
    assert [product.macs for product in find_products(path, tokens(11).feeds(2, 0))] == [2 * 11 * 16 * 4]


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
    found = find_products(tmp_path / "m.onnx", {"x": np.ones((2, 9, 6), np.float32)})
    assert [one.macs for one in found] == [2 * 9 * 6 * 4]


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
    found = find_products(tmp_path / "m.onnx", {"x": np.ones((3, 4), np.float32)})
    assert found == [Product("last", ("y",), None)]


@given(
    batch=SIZES, channels=SIZES, groups=st.integers(1, 3), out=SIZES, kernel=st.integers(1, 3), size=st.integers(3, 7)
)
def test_grouped_convolutions(
    tmp_path_factory: pytest.TempPathFactory, batch: int, channels: int, groups: int, out: int, kernel: int, size: int
) -> None:
    """Each output element takes the channels of the group times the area of the kernel."""
    weights = f"float[{out * groups}, {channels}, {kernel}, {kernel}] w"
    text = f"(float[n, c, h, v] x, {weights}) => (float[n, d, i, j] y) {{ [c] y = Conv<group = {groups}>(x, w) }}"
    path = parsed(tmp_path_factory.getbasetemp() / "grouped.onnx", text)
    feeds = {"x": np.zeros((batch, channels * groups, size, size), np.float32)}
    side = size - kernel + 1
    expected = batch * out * groups * side * side * channels * kernel * kernel
    assert [product.macs for product in find_products(path, feeds)] == [expected]


def test_a_bias_names_the_kernel(tmp_path: Path) -> None:
    """OpenVINO fuses a product with the constant that is added, and calls the kernel by the addition."""
    path = tmp_path / "dense.onnx"
    onnx.save_model(dense().proto, path)
    first, second = find_products(path, dense().feeds(1, 0))
    assert first.is_called("bias/WithoutBiases")
    assert first.is_called("a")
    assert not second.is_called("bias")


def test_whom_a_kernel_answers_for() -> None:
    """A node is called by its name, by its name and more behind a slash, or by its output."""
    product = Product("conv", ("out",), 1)
    assert all(map(product.is_called, ["conv", "conv/WithoutBiases", "out"]))
    assert not any(map(product.is_called, ["conv2", "my/conv", "output", ""]))
    assert not Product("", ("out",), 1).is_called("/absolute")
