"""Inputs that do not fit are told precisely: which one, what it is and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.fitting import fitting_batches, misfit
from pytest_quant.errors import DataError
from pytest_quant.spec import Signature, TensorInfo

SIGNATURE = Signature(
    inputs=(TensorInfo("image", "float32", (None, 3)), TensorInfo("text", "object", None)),
    outputs=(TensorInfo("y", "float32", (None,)),),
)
IMAGE, TEXT = np.zeros((2, 3), np.float32), np.array(["a", "b"])


def test_fitting_inputs() -> None:
    """Inputs that fit give nothing to tell; strings of any numpy kind are text."""
    assert misfit({"image": IMAGE, "text": TEXT}, SIGNATURE) is None
    assert misfit({"image": IMAGE[:0], "text": TEXT.astype(object)}, SIGNATURE) is None


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"imag": IMAGE, "text": TEXT}, ("no input 'imag'", "did you mean 'image'")),
        ({"text": TEXT}, ("input 'image' is missing", "text")),
        ({"image": IMAGE.astype(np.float64), "text": TEXT}, ("wrong dtype", "float64", "astype('float32')")),
        ({"image": IMAGE[0], "text": TEXT}, ("wrong rank", "(3,)", "(any, 3)")),
        ({"image": IMAGE[:, :2], "text": TEXT}, ("wrong shape", "(2, 2)", "(any, 3)")),
        ({"image": IMAGE, "text": np.arange(2)}, ("input 'text'", "int64", "object")),
    ],
)
def test_misfits(feeds: Feeds, words: tuple[str, ...]) -> None:
    """The error names the input, what it got and what is allowed."""
    found = str(misfit(feeds, SIGNATURE))
    assert all(word in found for word in words), found


def test_calibration_batches_fit() -> None:
    """They pass one by one; the first that does not fit ends them, and none at all is an error too."""
    signature = Signature((TensorInfo("x", "float32", (None, 3)),), ())
    good, bad = {"x": np.zeros((2, 3), np.float32)}, {"x": np.zeros((2, 4), np.float32)}
    assert list(fitting_batches([good, good], signature, "net")) == [good, good]
    batches = fitting_batches([good, bad], signature, "net")
    assert next(batches) is good
    with pytest.raises(DataError, match="'x'"):
        next(batches)
    with pytest.raises(DataError, match="calibration of net got no batch"):
        list(fitting_batches([], signature, "net"))
