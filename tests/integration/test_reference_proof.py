"""A reference proves itself: float kernels, scores above guessing, and the same answer to the same question."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from pytest_quant.errors import ModelError
from pytest_quant.result import Status, Verdict
from pytest_quant.spec import Dataset, Limits, Model
from tests.integration.checks import checked, numbers
from tests.support import layouts

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


@pytest.mark.parametrize("scheme", [None, "dynamic"])
def test_a_quantized_reference_is_an_error_that_says_where_it_belongs(scheme: str | None, tmp_path: Path) -> None:
    """Integer kernels in the FP32 engine are named, and the key that takes such a model is told."""
    path = layouts.classifier(tmp_path / "float.onnx")
    quantize_static(str(path), str(tmp_path / "int8.onnx"), Reader(numbers(N, 8)))
    model = Model.from_onnx(tmp_path / "int8.onnx")
    samples = numbers(N, 8)
    with pytest.raises(ModelError, match="does not compute in FP32") as raised:
        checked(
            tmp_path, model, Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=8), scheme=scheme
        )
    assert "quantized=" in str(raised.value.fix)
    assert "scores" in str(raised.value.value)


@pytest.mark.parametrize("limit", ["max_drop", "min_ratio"])
def test_a_reference_that_guesses_has_nothing_to_lose(limit: str, tmp_path: Path) -> None:
    """With labels that are never its answer the reference scores 0, and a drop of 0 tells nothing."""
    path = layouts.classifier(tmp_path / "model.onnx")
    samples = numbers(N, 8)
    wrong = (samples[:, :4].argmax(axis=1) + 1) % 4
    limits = Limits(max_drop=5.0) if limit == "max_drop" else Limits(min_ratio=0.9)
    record = checked(tmp_path, Model.from_onnx(path), Dataset.from_arrays(samples, wrong), scheme=None, limits=limits)
    assert status_of(record.verdicts, limit) is Status.INCONCLUSIVE
    assert any("the reference itself scores 0 %, and guessing gives 25 %" in note for note in record.notes)


def test_a_reference_above_guessing_is_judged(tmp_path: Path) -> None:
    """Half of the labels right is twice as much as guessing among four gives."""
    path = layouts.classifier(tmp_path / "model.onnx")
    samples = numbers(N, 8)
    labels = samples[:, :4].argmax(axis=1)
    labels[::2] = (labels[::2] + 1) % 4
    record = checked(tmp_path, Model.from_onnx(path), Dataset.from_arrays(samples, labels), scheme=None)
    assert record.status is Status.PASS


def test_a_constant_reference_is_told_and_passes_no_limit_on_the_score(tmp_path: Path) -> None:
    """It is right on every sample of one class, so that the score alone looks good."""
    path = layouts.constant(tmp_path / "model.onnx")
    dataset = Dataset.from_arrays(numbers(N, 8), np.zeros(N, int))
    record = checked(tmp_path, Model.from_onnx(path), dataset, scheme=None)
    assert record.status is Status.INCONCLUSIVE
    assert "the reference gives every sample the same 'y'" in record.notes


def test_an_engine_that_differs_from_itself_decides_nothing_that_this_could_flip(tmp_path: Path) -> None:
    """Noise as large as the scores makes two evaluations differ, whether or not the same seed made the first equal."""
    path = layouts.noisy(tmp_path / "model.onnx")
    samples = numbers(N, 8)
    dataset = Dataset.from_arrays(samples, samples[:, :4].argmax(axis=1), calibration=8)
    for _ in ("cold", "warm"):
        record = checked(tmp_path, Model.from_onnx(path), dataset, limits=Limits(min_agreement=99.0))
        assert status_of(record.verdicts, "min_agreement") is not Status.PASS
        assert any(
            "ort-fp32 is nondeterministic: two runs of the same batch differ by" in note for note in record.notes
        )


def test_a_limit_far_from_the_noise_is_judged(tmp_path: Path) -> None:
    """An error of a million is never reached, whatever the noise."""
    path = layouts.noisy(tmp_path / "model.onnx")
    dataset = Dataset.from_arrays(numbers(N, 8), calibration=8)
    record = checked(tmp_path, Model.from_onnx(path), dataset, limits=Limits(max_abs_error=1e6))
    assert status_of(record.verdicts, "max_abs_error") is Status.PASS
