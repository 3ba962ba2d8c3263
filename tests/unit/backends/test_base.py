"""Inputs that do not fit are told precisely."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.base import misfit
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
