"""ONNX files as people have them, and what ONNX Runtime and OpenVINO made of them: noise, errors, or another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from pytest_quant import Dataset, Model
from pytest_quant.record import Record
from pytest_quant.spec import EngineSpec, Limits
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.openvino_traps.graphs import normal, quantized, write
from tests.support.measuring import checked, numbers
from tests.support.models import parsed

_TWO_LAYERS = """(float[ROWS, 16] x) => (float[ROWS, 10] y) {
    [fc1] a = Gemm<FACTORS>(x, W, b) [relu] r = Relu(a) [fc2] y = MatMul(r, V) }"""
_WIDE = normal(64, seed=3, scale=2.0)
_GEMMS: dict[str, tuple[str, str, NDArray[np.float32]]] = {
    "scalar": ("n", "alpha = 1.0", np.array(0.5, np.float32)),
    "(1,)": ("n", "alpha = 1.0", np.array([0.5], np.float32)),
    "(1, 1)": ("n", "alpha = 1.0", np.array([[0.5]], np.float32)),
    "(m, 1)": ("4", "alpha = 1.0", np.full((4, 1), 0.5, np.float32)),
    "(m, n)": ("4", "alpha = 1.0", np.stack([_WIDE] * 4)),
    "beta": ("n", "beta = 0.25", _WIDE),
    "alpha": ("n", "alpha = 0.5", _WIDE),
}


def _sqnr_db(record: Record) -> float:
    assert record.accuracy is not None
    assert record.accuracy.sqnr_db is not None
    return record.accuracy.sqnr_db


def _ready(folder: Path, model: Model, file: Model, dataset: Dataset, precision: str, backend: str = "ort") -> Record:
    """Check a file that arrived as it is, with the limits that a mark without limits has."""
    spec = EngineSpec(backend, precision, "given", model, file)
    limits = Limits(default_min_coverage=50.0 if precision.startswith("int") else None)
    return checked(folder, model, dataset, backend=backend, candidate=spec, limits=limits)


@pytest.mark.parametrize("form", _GEMMS)
def test_gemm_constants_are_folded(tmp_path: Path, form: str) -> None:
    """A bias of any shape (microsoft/onnxruntime#24815), alpha and beta (#28130): errors, float layers, or -2.6 dB."""
    rows, factors, bias = _GEMMS[form]
    text = _TWO_LAYERS.replace("ROWS", rows).replace("FACTORS", factors)
    model = write(tmp_path / "gemm.onnx", text, W=normal(16, 64), V=normal(64, 10, seed=1), b=bias)
    record = checked(tmp_path, model, Dataset.from_arrays(numbers(120, 16), calibration=60), limits=Limits())
    assert record.coverage is not None
    assert record.coverage.pct == 100.0
    assert _sqnr_db(record) > 25


@pytest.fixture
def product(tmp_path: Path) -> Model:
    """One matrix product."""
    text = "(float[n, 256] x) => (float[n, 64] y) { [fc] y = MatMul(x, W) }"
    return write(tmp_path / "fp32.onnx", text, W=normal(256, 64))


_ROWS = Dataset.from_arrays(numbers(100, 256))


@pytest.mark.parametrize("level", [0, 4])
def test_a_file_of_four_bits_is_judged_as_int4(tmp_path: Path, product: Model, level: int) -> None:
    """MatMulNBits of Olive and ORT GenAI (microsoft/onnxruntime#28551): int4 was refused, and int8 found 0 %."""
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=level)
    quantizer = MatMulNBitsQuantizer(onnx.load(str(product.path)), algo_config=config)
    quantizer.process()
    file = tmp_path / "int4.onnx"
    quantizer.model.save_model_to_file(str(file))
    record = _ready(tmp_path, product, Model.from_onnx(file), _ROWS, "int4")
    assert record.coverage is not None
    assert (record.status, record.coverage.pct, record.scheme) == ("PASS", 100.0, "given")
    as_int8 = _ready(tmp_path, product, Model.from_onnx(file), _ROWS, "int8")
    assert as_int8.coverage is not None
    assert any("precision='int4'" in note for note in as_int8.coverage.notes)
    # Level 4 multiplies integers of eight bits, whatever is stored.
    assert as_int8.status == ("PASS" if level == 4 else "FAIL")


@pytest.mark.parametrize("mode", ["INT4_SYM", "INT4_ASYM"])
def test_an_ir_of_four_bits_is_judged_as_int4(tmp_path: Path, product: Model, mode: str) -> None:
    """nncf.compress_weights (openvinotoolkit/nncf#2760): 0 % of int8, and "layers with int8 weights"."""
    nncf, openvino = pytest.importorskip("nncf"), pytest.importorskip("openvino")
    model = openvino.Core().read_model(str(product.path))
    narrow = nncf.compress_weights(model, mode=nncf.CompressWeightsMode[mode], group_size=32, all_layers=True)
    file = tmp_path / "int4.xml"
    openvino.save_model(narrow, file)
    spec = EngineSpec("openvino", "int4", "given", product, Model(file.stem, file))
    with quantized(spec) as engine:
        assert engine.coverage({"x": numbers(1, 256)}).pct == 100.0
        assert not any("int8" in note for note in engine.notes)
    with quantized(EngineSpec("openvino", "int8", "given", product, Model(file.stem, file))) as engine:
        assert engine.coverage({"x": numbers(1, 256)}).pct == 0.0
        assert any("precision='int4'" in note for note in engine.notes)


_CELL = """(float[n, 10, 12] x) => (float[n, 6] y) <int64[1] zero = {0}> {
    [turn] t = Transpose<perm = [1, 0, 2]>(x) [cell] u, h = KIND<hidden_size = 24>(t, W, RINPUTS)
    [squeeze] s = Squeeze(h, zero) [fc] y = MatMul(s, V) }"""


@pytest.mark.parametrize(("kind", "gates", "biased"), [("GRU", 3, True), ("LSTM", 4, True), ("LSTM", 4, False)])
def test_recurrent_cells_in_openvino_stay_in_float(tmp_path: Path, kind: str, gates: int, biased: bool) -> None:
    """Each cell with a bias did not compile (openvinotoolkit/nncf#2105), and was called GRUSequence_43790."""
    pytest.importorskip("nncf")
    weights: dict[str, Any] = {"W": normal(1, gates * 24, 12), "R": normal(1, gates * 24, 24), "V": normal(24, 6)}
    text = _CELL.replace("KIND", kind).replace("INPUTS", ", B" if biased else "")
    model = write(tmp_path / "cell.onnx", text, **weights, **({"B": normal(1, 2 * gates * 24)} if biased else {}))
    spec = EngineSpec("openvino", "int8", "static", model)
    x = {"x": numbers(4, 10, 12, seed=9)}
    with quantized(spec, lambda seed: {"x": numbers(8, 10, 12, seed=seed)}) as engine:
        outputs, coverage = engine.run(x), engine.coverage(x)
        assert any(note.endswith("no int8 kernel: cell") for note in engine.notes)
    assert coverage.float_nodes == ("cell",)
    assert (coverage.scheme_pct, list(coverage.not_quantizable)) == (100.0, ["recurrent cells"])
    with quantized(EngineSpec("openvino", "fp32", None, model)) as engine:
        assert sqnr_db(engine.run(x), outputs) > 20


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_transposed_convolution_of_groups_builds(tmp_path: Path, per_channel: bool) -> None:
    """With a bias and scales for each channel it was an error that named no node (NVIDIA/TensorRT#1934)."""
    text = """(float[n, 3, 8, 8] x) => (float[n, 24, 16, 16] y) { [conv] c = Conv<pads = [1, 1, 1, 1]>(x, w)
        [relu] r = Relu(c) [up] y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1], group = 4>(r, u, b) }"""
    model = write(tmp_path / "up.onnx", text, w=normal(16, 3, 3, 3), u=normal(16, 6, 4, 4), b=normal(24))
    dataset = Dataset.from_arrays(numbers(40, 3, 8, 8), calibration=10)
    record = checked(tmp_path, model, dataset, options=(("per_channel", per_channel),), limits=Limits())
    assert _sqnr_db(record) > 15
    assert any("cannot take up" in note for note in record.notes) is per_channel


def _halves(path: Path, model: Model, scales: bool) -> Model:
    """Write the matrix product with halves as inputs, outputs and weights; with `scales` between Q/DQ pairs."""
    weight = onnx.numpy_helper.to_array(onnx.load(str(model.path)).graph.initializer[0])
    if not scales:
        text = "(float16[n, 256] x) => (float16[n, 64] y) { [fc] y = MatMul(x, W) }"
        return write(path, text, W=weight.astype(np.float16))
    text = """(float16[n, 256] x) => (float16[n, 64] y) <int8 zero = {0}> {
        xq = QuantizeLinear(x, xs, zero) xd = DequantizeLinear(xq, xs, zero)
        wq = QuantizeLinear(W, ws, zero) wd = DequantizeLinear(wq, ws, zero) [fc] y = MatMul(xd, wd) }"""
    constants = {"W": weight, "xs": np.array(4.5 / 127), "ws": np.array(np.abs(weight).max() / 127)}
    return Model.from_onnx(
        parsed(path, text, 19, **{name: each.astype(np.float16) for name, each in constants.items()})
    )


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_file_of_halves_beside_a_model_of_float32(tmp_path: Path, product: Model, precision: str) -> None:
    """Data of each type were refused by one of the two (NVIDIA/Model-Optimizer#869), and fp16 was no candidate."""
    file = _halves(tmp_path / "half.onnx", product, scales=precision == "int8")
    record = checked(
        tmp_path,
        product,
        _ROWS,
        candidate=EngineSpec("ort", precision, "given", product, file),
        limits=Limits(min_sqnr_db=20.0),
    )
    assert record.status == "PASS"
    assert any("inputs are cast to it" in note for note in record.notes)
