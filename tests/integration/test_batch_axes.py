"""Samples on any axis, or on none: figures are those of one sample at a time, and nothing is compared by accident."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from pytest_quant.errors import DataError, ModelError, UsageError
from pytest_quant.metrics import Metric
from pytest_quant.spec import Dataset, Limits, Model
from tests.support import layouts, models
from tests.support.measuring import accuracy_of, checked, last_step, numbers

N = 40


def one_by_one(path: Path, samples: list[dict[str, np.ndarray]], output: str = "y") -> list[np.ndarray]:
    """Run onnxruntime alone on each sample, and return its output as the model gives it."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run([output], feeds)[0] for feeds in samples]


LAST = Metric(last_step, better="higher")


@pytest.mark.parametrize(
    ("write", "axes"),
    [
        (lambda path: layouts.time_major(path), None),
        (lambda path: layouts.time_major(path, ("a", "b")), {"x": 1}),
        (layouts.to_time_major, None),
    ],
    ids=["named", "told by the data", "output found by running"],
)
@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_time_major_outputs_meet_their_own_labels(
    write: Callable[[Path], Path], axes: dict[str, int | None] | None, backend: str, tmp_path: Path
) -> None:
    """Every label is the class of its own sample, so the reference is right on all of them, wherever the axis is.

    Outputs that met those of other samples would give about -3 dB: the noise then is the sum of two signals.
    """
    path = write(tmp_path / "model.onnx")
    steps = numbers(N, 5, 8)
    labels = steps[:, -1, :4].argmax(axis=1)
    given = steps if axes is None else np.moveaxis(steps, 0, 1)
    dataset = Dataset.from_arrays({"x": given}, labels, calibration=8, batch_axes=axes)
    record = checked(tmp_path, Model.from_onnx(path), dataset, metric=LAST, backend=backend)
    accuracy = accuracy_of(record)
    assert accuracy.reference == 100.0
    assert accuracy.n == N - 8
    assert accuracy.sqnr_db is not None
    assert accuracy.sqnr_db > 15


@pytest.mark.parametrize("form", ["shared", "each", "stream"])
def test_scalars_and_states_have_no_batch_axis(form: str, tmp_path: Path) -> None:
    """A sampling rate and a state [2, 1, 4] go in as they are: one for all samples, or one for each."""
    path = layouts.with_state(tmp_path / "model.onnx")
    audio, rate = numbers(N, 8), np.array(16000)
    states = numbers(1 if form == "shared" else N, 2, 1, 4, seed=1)
    each = np.broadcast_to(states, (N, 2, 1, 4))
    samples = [{"audio": a[None], "state": s, "rate": rate} for a, s in zip(audio, each, strict=True)]
    labels = np.array([int(y.argmax()) for y in one_by_one(path, samples)])
    if form == "stream":
        dataset = Dataset.from_iterable(
            [
                ({"audio": s["audio"][0], "state": s["state"], "rate": rate}, int(y))
                for s, y in zip(samples, labels, strict=True)
            ],
            calibration=8,
        )
    else:
        inputs = {"audio": audio, "state": states[0] if form == "shared" else states, "rate": rate}
        dataset = Dataset.from_arrays(inputs, labels, calibration=8)
    record = checked(tmp_path, Model.from_onnx(path), dataset, output="y")
    accuracy = accuracy_of(record)
    assert accuracy.reference == 100.0
    assert accuracy.n == N - 8


def test_weights_as_an_input_are_one_matrix_for_all(tmp_path: Path) -> None:
    """The matrix goes into every run as it is, and samples share runs."""
    path = layouts.weights_as_input(tmp_path / "model.onnx")
    samples, matrix = numbers(N, 8), np.eye(8, 4, dtype=np.float32)
    dataset = Dataset.from_arrays({"x": samples, "w": matrix}, samples[:, :4].argmax(axis=1), calibration=8)
    record = checked(tmp_path, Model.from_onnx(path), dataset)
    assert accuracy_of(record).reference == 100.0
    assert not any("sample by sample" in note for note in record.notes)


def outlier_classifier(path: Path) -> Path:
    """(n, 8) -> (n, 4), a matrix product that dynamic quantization takes."""
    graph = "(float[batch, 8] x) => (float[batch, 4] y) { [scores] y = MatMul(x, w) }"
    return models.parsed(path, graph, w=numbers(8, 4, seed=3))


@pytest.mark.parametrize("timed", [1, 4])
def test_dynamic_ranges_are_those_of_the_batch_that_runs(timed: int, tmp_path: Path) -> None:
    """Ranges span a run, so one sample a thousand times larger ruins its neighbours; at batch size 1 there are none.

    The expected outputs are those of the built engine in onnxruntime alone, in runs of the timed size.
    """
    path = outlier_classifier(tmp_path / "model.onnx")
    samples = numbers(N, 8)
    samples[::4] *= 1000
    record = checked(
        tmp_path,
        Model.from_onnx(path),
        Dataset.from_arrays(samples),
        scheme="dynamic",
        batch_size=timed,
        limits=Limits(max_abs_error=1e9, min_sqnr_db=0.0, min_agreement=1.0),
    )
    engine = next((tmp_path / "cache" / "engine").glob("*/files/model.onnx"))
    quantized = onnxruntime.InferenceSession(str(engine), providers=["CPUExecutionProvider"])
    runs = [quantized.run(None, {"x": samples[i : i + timed]})[0] for i in range(0, N, timed)]
    exact = samples.astype(np.float64) @ numbers(8, 4, seed=3).astype(np.float64)
    agreement = 100 * np.mean(np.concatenate(runs).argmax(axis=1) == exact.argmax(axis=1))
    assert accuracy_of(record).agreement_pct == pytest.approx(agreement, abs=1e-9)
    assert bool(agreement > 90) == (timed == 1)
    assert any(f"evaluated in batches of {timed}" in note for note in record.notes)


def test_an_output_that_all_samples_of_a_fixed_batch_share(tmp_path: Path) -> None:
    """Without a word it is an error, for its axes count no samples; with None every sample has all of it."""
    path = layouts.with_anchors(tmp_path / "model.onnx")
    samples = numbers(N, 8)
    labels = samples[:, :4].argmax(axis=1)
    with pytest.raises(ModelError, match="no axis of output 'anchors' counts samples") as raised:
        checked(tmp_path, Model.from_onnx(path), Dataset.from_arrays(samples, labels), scheme=None)
    assert "batch_axes={'anchors': None}" in str(raised.value.fix)
    model = Model.from_onnx(path, batch_axes={"anchors": None})
    record = checked(tmp_path, model, Dataset.from_arrays(samples, labels), scheme=None)
    accuracy = accuracy_of(record)
    assert (accuracy.n, accuracy.reference, accuracy.identical) == (N, 100.0, True)


def test_an_axis_that_counts_nothing_is_refused(tmp_path: Path) -> None:
    """A named axis of an output is tried before it is believed; a name must be one of the model's."""
    path = layouts.to_time_major(tmp_path / "model.onnx")
    dataset = Dataset.from_arrays(numbers(N, 5, 8), calibration=8, batch_axes={"y": 0})
    with pytest.raises(ModelError, match="batch_axes says that axis 0 of output 'y'") as raised:
        checked(tmp_path, Model.from_onnx(path), dataset, limits=Limits(min_sqnr_db=10))
    assert raised.value.value == "shape (5, 32, 4) for a batch of 32, (5, 8, 4) for 8"
    assert raised.value.allowed == "axis 1"
    dataset = Dataset.from_arrays(numbers(N, 5, 8), batch_axes={"yy": 0})
    with pytest.raises(DataError, match="batch_axes names an input or output that the model does not have"):
        checked(tmp_path, Model.from_onnx(path), dataset)


@pytest.mark.parametrize("axes", [{"x": -1}, {"x": True}, {"x": "1"}, {1: 1}, ["x"]])
def test_only_whole_numbers_from_0_and_none_are_axes(axes: Any) -> None:
    """In the data and in the model."""
    with pytest.raises(UsageError, match="batch_axes"):
        Dataset.from_arrays(numbers(2, 2), batch_axes=axes)
    with pytest.raises(UsageError, match="batch_axes"):
        Model.from_onnx("m", batch_axes=axes)
