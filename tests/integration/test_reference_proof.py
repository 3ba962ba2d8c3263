"""A reference proves itself: float kernels, scores above guessing, the same answer twice, and its precision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from pytest_quant.backends import get_backend
from pytest_quant.errors import ModelError
from pytest_quant.result import Status, Verdict
from pytest_quant.spec import Dataset, Limits, Model
from tests.support import layouts, models
from tests.support.in_process import run_here
from tests.support.measuring import accuracy_of, checked, numbers
from tests.support.third_party import register_backend

N = 40


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """One batch."""

    def __init__(self, samples: np.ndarray) -> None:
        self._batches = iter([{"x": samples}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the batch once."""
        return next(self._batches, None)


def status_of(verdicts: tuple[Verdict, ...] | None, limit: str) -> Status:
    """The status of one limit."""
    return next(verdict.status for verdict in verdicts or () if verdict.limit == limit)


WIDTH = 32
"""Features of a sample, as many as a block of weights that share a scale."""


def quantized_file(kind: str, folder: Path) -> Path:
    """Write a quantized model (n, 32) -> (n, 4) of ONNX Runtime's tools."""
    path = layouts.classifier(folder / "float.onnx", WIDTH)
    target = folder / f"{kind}.onnx"
    if kind in ("QDQ", "QOperator"):
        quantize_static(str(path), str(target), Reader(numbers(N, WIDTH)), quant_format=QuantFormat[kind])
    else:
        quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=WIDTH, is_symmetric=True)
        quantizer.process()
        quantizer.model.save_model_to_file(str(target))
    return target


NAMED = {
    "QDQ": "5 nodes of a quantized model: DequantizeLinear 'w_DequantizeLinear', ",
    "QOperator": "3 nodes of a quantized model: QuantizeLinear 'x_QuantizeLinear', QLinearMatMul 'scores_quant', ",
    "int4": "1 node of a quantized model: MatMulNBits 'scores_Q4'",
}


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize(
    ("backend", "scheme"),
    [("ort", None), ("ort", "static"), ("openvino", None), ("openvino", "static")],
)
def test_a_quantized_reference_is_an_error_that_says_where_it_belongs(
    kind: str, backend: str, scheme: str | None, tmp_path: Path
) -> None:
    """Its operators are named, whether or not the runtime folds them away, and the key that takes such a model."""
    model, samples = Model.from_onnx(quantized_file(kind, tmp_path)), numbers(N, WIDTH)
    dataset = Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=8)
    with pytest.raises(ModelError, match="is no FP32 model: it is quantized already") as raised:
        checked(tmp_path, model, dataset, scheme=scheme, backend=backend)
    assert str(raised.value.value).startswith(NAMED[kind])
    assert "give the float model as model=... or by quant_model, and this one as quantized=" in str(raised.value.fix)
    assert str(raised.value.fix).endswith("by Scores: pytest-quant guide models-and-data")


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_a_float_model_behind_a_picture_of_bytes_is_a_reference(backend: str, tmp_path: Path) -> None:
    """Its first node makes floats of uint8, and all weights are float: it is quantized as any other model."""
    graph = f"""(uint8[batch, {WIDTH}] x) => (float[batch, 4] y) {{
        [decode] floats = DequantizeLinear(x, scale, zero)
        [scores] y = MatMul(floats, w)
    }}"""
    scale, zero = np.array(1 / 64, np.float32), np.array(128, np.uint8)
    path = models.parsed(tmp_path / "model.onnx", graph, scale=scale, zero=zero, w=np.eye(WIDTH, 4, dtype=np.float32))
    samples = np.random.default_rng(0).integers(0, 256, (N, WIDTH)).astype(np.uint8)
    dataset = Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=8)
    record = checked(tmp_path, Model.from_onnx(path), dataset, backend=backend)
    assert accuracy_of(record).reference == pytest.approx(100.0, abs=5.0)
    assert record.coverage is not None
    assert (record.status, record.coverage.pct) == (Status.PASS, 100.0)


@pytest.mark.parametrize("backend", ["ort", "torch"])
def test_a_quantized_module_is_an_error_before_it_is_exported(backend: str, tmp_path: Path) -> None:
    """Weights of torchao, which PyTorch can neither digest nor export, are named with the key that takes them."""
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4)).eval()
    quantize_(module, Int8WeightOnlyConfig())
    dataset = Dataset.from_arrays(numbers(N, WIDTH), np.zeros(N, int), calibration=8)
    with pytest.raises(ModelError, match="is no FP32 model: it is quantized already") as raised:
        checked(tmp_path, Model.from_torch(module, (torch.zeros(2, WIDTH),)), dataset, backend=backend)
    assert raised.value.value == "1 part of a quantized model: Int8Tensor '0.weight'"


def test_a_float_model_with_integers_is_a_reference(tmp_path: Path) -> None:
    """Indices, masks and products of whole numbers are no quantization."""
    graph = """(int32[batch, 2] ids) => (float[batch, 4] y) {
        [cast] long = Cast <to = 7> (ids)
        [integer_product] mixed = MatMul(long, mixing)
        [lookup] rows = Gather(table, mixed)
        [sum] y = ReduceSum <keepdims = 0> (rows, axis)
    }"""
    mixing, axis = np.array([[0, 1], [1, 0]]), np.array([1])
    path = models.parsed(tmp_path / "tokens.onnx", graph, mixing=mixing, table=numbers(16, 4), axis=axis)
    samples = np.random.default_rng(0).integers(0, 16, (N, 2)).astype(np.int32)
    record = checked(tmp_path, Model.from_onnx(path), Dataset.from_arrays(samples), scheme=None, limits=Limits())
    assert record.status is Status.PASS


@pytest.mark.parametrize("scheme", [None, "static"])
def test_what_noise_could_flip_is_open_with_a_cold_and_a_warm_cache(scheme: str | None, tmp_path: Path) -> None:
    """Each engine agrees with itself on a half of the samples: no limit on agreement says something of the scheme."""
    samples = numbers(200, 8)
    dataset = Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=8)
    model = Model.from_onnx(layouts.noisy(tmp_path / "model.onnx"))
    for built in ("built", "hit"):
        record = checked(tmp_path, model, dataset, scheme=scheme, limits=Limits(min_agreement=60.0))
        assert record.cache is not None
        assert record.cache["reference"] == built
        assert status_of(record.verdicts, "min_agreement") is Status.INCONCLUSIVE
        assert any("in the top-1 class of" in note for note in record.notes)


BACKEND = """
import os
from dataclasses import replace

from pytest_quant.readers import FLAG, Key
from pytest_quant.testing import NumpyBackend


class Rounding(NumpyBackend):
    offer = replace(
        NumpyBackend.offer,
        precisions={**NumpyBackend.offer.precisions, "fp16": (None,)},
        options={"tf32": Key("tf32", FLAG, "products may round their inputs")},
    )

    def before_loading(self, spec):
        os.environ["LOADED_FOR"] = spec.id
"""

SUITE = """
import os
import pytest
from pytest_quant import Dataset
from tests.support import models


@pytest.fixture
def quant_model(tmp_path):
    return models.select_first(tmp_path / "model.onnx")


@pytest.fixture
def quant_data():
    return Dataset.from_arrays(*models.samples(12))


def test_plain():
    assert "LOADED_FOR" not in os.environ


@pytest.mark.quant(backend="rounding", precision="fp32", reference_precision="fp16")
def test_half(quant):
    assert os.environ["LOADED_FOR"] == "rounding-fp32"
    assert quant.latency.reference_precision == "fp16"
    assert quant.reference.spec.precision == "fp32"


@pytest.mark.quant(backend="rounding", precision="fp32")
def test_exact(quant):
    assert quant.latency.tf32 is False
"""


@pytest.fixture
def rounding(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A third party's backend for a device that has TF32 and FP16, and a suite for it."""
    pytester.mkdir("site")
    pytester.makepyfile(**{"site/rounding": BACKEND})
    register_backend(pytester.path / "site", "rounding", "rounding:Rounding")
    monkeypatch.syspath_prepend(pytester.path / "site")
    monkeypatch.setenv("LOADED_FOR", "nobody")
    monkeypatch.delenv("LOADED_FOR")
    pytester.makepyfile(test_it=SUITE)
    get_backend.cache_clear()
    yield
    get_backend.cache_clear()


@pytest.mark.usefixtures("rounding")
def test_the_state_is_told_and_recorded(pytester: pytest.Pytester) -> None:
    """In the lines below the table, and in the record of each check."""
    result = run_here(pytester, "--quant-json=run.json", "--quant-max-time=0.5", "-k", "half or exact")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines_random(["latency reference fp16: 1 check", "latency reference fp32, TF32 off: 1 check"])
    half, exact = json.loads((pytester.path / "run.json").read_text("utf-8"))["checks"]
    assert (half["reference"], exact["reference"]) == ("rounding-fp32", "rounding-fp32")
    outcome = [(each["latency"]["reference_precision"], each["latency"]["tf32"]) for each in (half, exact)]
    assert outcome == [("fp16", None), ("fp32", False)]


@pytest.mark.usefixtures("rounding")
def test_the_process_is_prepared_for_what_will_run_only(pytester: pytest.Pytester) -> None:
    """Once the tests are chosen, and before the first of them."""
    run_here(pytester, "-k", "plain").assert_outcomes(passed=1, deselected=2)


@pytest.mark.usefixtures("rounding")
def test_a_precision_that_is_unknown_or_not_offered_ends_the_collection(pytester: pytest.Pytester) -> None:
    """With what was meant, or what there is."""
    for precision, words in (
        ("fp61", "unknown reference_precision 'fp61'*did you mean 'fp16'"),
        ("bf16", "backend 'rounding' has no bf16 to compare latency with*allowed: fp32, tf32, fp16"),
    ):
        pytester.makepyfile(test_it=SUITE.replace('reference_precision="fp16"', f'reference_precision="{precision}"'))
        result = run_here(pytester)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        text = " ".join(result.stdout.str().split())
        for part in words.split("*"):
            assert part in text, text
