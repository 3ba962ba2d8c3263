"""Names of the candidate's inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.errors import ModelError
from pytest_quant.measure.outputs import Chunk
from pytest_quant.measure.sides import match_names, renamed
from pytest_quant.spec import Signature, TensorInfo


def tensors(*names: str) -> tuple[TensorInfo, ...]:
    """Return float tensors called `names`."""
    return tuple(TensorInfo(name, "float32", (None, 2)) for name in names)


def test_equal_names_match_whatever_their_order() -> None:
    """Names win over positions."""
    assert match_names(tensors("a", "b"), tensors("b", "a"), "output") == {"a": "a", "b": "b"}


def test_other_names_match_by_position_when_the_counts_agree() -> None:
    """An export that renamed its outputs still compares."""
    assert match_names(tensors("a", "b"), tensors("x", "y"), "output") == {"a": "x", "b": "y"}


def test_a_missing_output_is_an_error_that_names_it() -> None:
    """Nothing goes uncompared in silence."""
    with pytest.raises(ModelError, match="missing: b"):
        match_names(tensors("a", "b"), tensors("a"), "output")


def test_renamed_outputs_carry_the_names_of_the_reference() -> None:
    """What the candidate calls x is compared with what the reference calls a."""
    chunk = Chunk({"x": np.ones((1, 2))}, None, 0, 1)
    (result,) = renamed(iter([chunk]), Signature((), tensors("a")), Signature((), tensors("x")))
    assert list(result.outputs) == ["a"]
