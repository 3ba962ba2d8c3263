"""Names of the candidate's inputs and outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends.feeds import match_inputs, match_names
from pytest_quant.errors import ModelError
from pytest_quant.spec import TensorInfo


def tensors(*names: str) -> tuple[TensorInfo, ...]:
    """Return float tensors called `names`."""
    return tuple(TensorInfo(name, "float32", (None, 2)) for name in names)


def test_equal_names_match_and_others_do_by_position() -> None:
    """Names win, whatever their order; an export that renamed its outputs still compares where the counts agree."""
    assert match_names(tensors("a", "b"), tensors("b", "a"), "output") == {"a": "a", "b": "b"}
    assert match_names(tensors("a", "b"), tensors("x", "y"), "output") == {"a": "x", "b": "y"}


def test_a_missing_output_is_an_error_that_names_it() -> None:
    """Nothing goes uncompared in silence."""
    with pytest.raises(ModelError, match="missing: b"):
        match_names(tensors("a", "b"), tensors("a"), "output")


@pytest.mark.parametrize("name", ["a", "x"])
def test_tensors_of_different_ranks_belong_to_different_networks(name: str) -> None:
    """Of one name or in one place; a rank that a file leaves open is no difference."""
    pictures = TensorInfo(name, "float32", (None, 2, 8, 8))
    with pytest.raises(ModelError, match=f"input '{name}' has 4 axes, the reference's 'a' 2") as raised:
        match_inputs(tensors("a"), (pictures,))
    assert raised.value.value == "shapes (any, 2, 8, 8) and (any, 2)"
    assert match_inputs(tensors("a"), (replace(pictures, shape=None),)) == {"a": name}
    assert match_names(tensors("a"), (pictures,), "output") == {"a": name}, "what a file says of outputs may be wrong"
