"""Names of the candidate's inputs and outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends.feeds import describe_tensor, match_inputs, match_names
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
    with pytest.raises(ModelError, match=f"candidate's input '{name}' .* the reference's input 'a' takes") as raised:
        match_inputs(tensors("a"), (pictures,), {})
    assert raised.value.value == "candidate: float32 (any, 2, 8, 8); reference: float32 (any, 2)"
    assert match_inputs(tensors("a"), (replace(pictures, shape=None),), {}) == {"a": name}
    assert match_names(tensors("a"), (pictures,), "output") == {"a": name}, "what a file says of outputs may be wrong"


NCHW = TensorInfo("x", "float32", (None, 3, 16, 24))
APART = {
    "layout": replace(NCHW, shape=(None, 16, 24, 3)),
    "height and width": replace(NCHW, shape=(None, 3, 24, 16)),
    "one size": replace(NCHW, shape=(None, 3, 16, 16)),
    "type": replace(NCHW, dtype="uint8"),
}


@pytest.mark.parametrize("other", APART.values(), ids=APART)
def test_inputs_that_take_no_array_in_common_are_told_of_both_models(other: TensorInfo) -> None:
    """What fits one of them does not fit the other, whichever is changed: the text names both, and what to do."""
    with pytest.raises(ModelError, match=r"the candidate's input 'x' .* the reference's input 'x' takes") as raised:
        match_inputs((NCHW,), (other,), {"x": 0})
    shapes = f"{other.dtype} {describe_tensor(other)}", "float32 (any, 3, 16, 24)"
    assert raised.value.value == "candidate: {}; reference: {}".format(*shapes)
    assert "export both models with one layout" in (raised.value.fix or "")


def test_inputs_that_take_one_array() -> None:
    """A free size takes any, floats are cast, texts have two names, and another batch is cut another way."""
    texts = TensorInfo("x", "object", (None,)), TensorInfo("x", "str", (None,))
    for ours, theirs, axis in (
        (NCHW, replace(NCHW, shape=(1, 3, None, None)), 0),
        (NCHW, replace(NCHW, dtype="float16"), 0),
        (*texts, 0),
        (replace(NCHW, shape=(1, 3, 16, 24)), replace(NCHW, shape=(8, 3, 16, 24)), 0),
        (replace(NCHW, shape=(3, 1, 16, 24)), replace(NCHW, shape=(3, 8, 16, 24)), 1),
    ):
        assert match_inputs((ours,), (theirs,), {"x": axis}) == {"x": "x"}
    with pytest.raises(ModelError, match="does not take"):
        match_inputs((replace(NCHW, shape=(1, 3, 16, 24)),), (replace(NCHW, shape=(8, 3, 16, 24)),), {"x": None})
