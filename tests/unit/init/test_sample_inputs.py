"""Samples that are written for an input have its type and shape, and values that it can take."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.init.sample_inputs import CALIBRATION, SAMPLES, described, input_line, is_scores
from pytest_quant.spec import TensorInfo


def made(tensor: TensorInfo, rows: dict[str, int] | None = None) -> NDArray[np.generic]:
    """Run the line that is written, as a conftest would."""
    names = {"np": np, "rng": np.random.default_rng(0)}
    found: NDArray[np.generic] = eval(input_line(tensor, rows or {}), names)  # noqa: S307 - a line of ours
    return found


@pytest.mark.parametrize(
    "kind", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint16", "bool", "object"]
)
@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((None, 1, 8, 8), (SAMPLES, 1, 8, 8)),
        ((8, 3), (SAMPLES, 3)),
        ((None, None), (SAMPLES, 16)),
        ((None, 3, None, None), (SAMPLES, 3, 224, 224)),
        ((None,), (SAMPLES,)),
        (None, (SAMPLES, 16)),
    ],
    ids=str,
)
def test_they_have_the_type_and_the_shape(
    kind: str, shape: tuple[int | None, ...] | None, wanted: tuple[int, ...]
) -> None:
    """The first axis counts the samples; a free one gets a usual size."""
    if np.prod(wanted) > 10**6 and kind != "float32":
        pytest.skip("one type of large pictures is enough")
    samples = made(TensorInfo("x", kind, shape))
    assert samples.shape == wanted
    assert samples.dtype == np.dtype(kind)


def test_a_number_for_all_samples_has_no_axis() -> None:
    """A sampling rate, for one."""
    assert made(TensorInfo("rate", "int64", ())).shape == ()
    assert made(TensorInfo("rate", "float32", ())).shape == ()


def test_token_ids_lie_within_the_table() -> None:
    """A larger one would be an error of the runtime."""
    ids = made(TensorInfo("ids", "int64", (None, 64)), {"ids": 300})
    assert 2 < ids.max() < 300
    assert ids.min() >= 0


def test_an_index_that_nothing_is_known_of_is_small() -> None:
    """Every table has two rows; a mask lets everything through."""
    assert set(np.unique(made(TensorInfo("types", "int64", (None, 64))))) == {0, 1}
    assert set(np.unique(made(TensorInfo("attention_mask", "int64", (None, 64))))) == {1}


def test_there_are_enough_to_calibrate_and_to_evaluate() -> None:
    """Samples that calibrate are not evaluated."""
    assert 0 < CALIBRATION < SAMPLES


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (TensorInfo("image", "float32", (None, 1, 8, 8)), "image float32 (n, 1, 8, 8)"),
        (TensorInfo("ids", "int64", (4, None)), "ids int64 (4, ?)"),
        (TensorInfo("y", "float32", (None,)), "y float32 (n,)"),
        (TensorInfo("rate", "int64", ()), "rate int64 ()"),
        (TensorInfo("x", "float32", None), "x float32, of any shape"),
    ],
)
def test_a_tensor_is_told_in_a_line(tensor: TensorInfo, text: str) -> None:
    """With n for the samples and a question mark for other free axes."""
    assert described(tensor) == text


@pytest.mark.parametrize(
    ("tensor", "scores"),
    [
        (TensorInfo("y", "float32", (None, 10)), True),
        (TensorInfo("y", "float16", (1, 2)), True),
        (TensorInfo("y", "float32", (None, 1)), False),
        (TensorInfo("y", "float32", (None, None)), False),
        (TensorInfo("y", "int64", (None, 10)), False),
        (TensorInfo("y", "float32", (None, 10, 4)), False),
        (TensorInfo("y", "float32", None), False),
    ],
)
def test_scores_of_classes_are_known(tensor: TensorInfo, scores: bool) -> None:
    """Floats (n, classes), of two classes at least."""
    assert is_scores(tensor) is scores
