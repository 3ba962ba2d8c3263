"""What keeps an output from being compared, and which sample shows it first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import ModelError
from pytest_quant.metrics.tensor import check_reference, find_mismatch, find_unsound, sound_rows

N = 9


@given(row=st.integers(0, N - 1), later=st.integers(0, N - 1), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_sample_that_is_not_finite_is_named(row: int, later: int, bad: float) -> None:
    """By its index in the whole set; every such sample is told apart from the sound ones."""
    r = np.ones((N, 2, 2), dtype=np.float32)
    c = r.copy()
    c[[row, later], 1, 0] = bad
    sound = sound_rows(r, c)
    fault = find_unsound("y", c, sound, start=100)
    assert fault is not None
    assert (fault.kind, fault.sample) == ("not finite", 100 + min(row, later))
    assert set(np.flatnonzero(~sound)) == {row, later}


def test_the_same_infinity_on_both_sides_is_sound() -> None:
    """A model that masks scores is not broken; one that masks others is."""
    r = np.array([[-np.inf, 1.0], [np.inf, 1.0], [-np.inf, 1.0]])
    c = np.array([[-np.inf, 1.0], [-np.inf, 1.0], [0.0, 1.0]])
    assert sound_rows(r, c).tolist() == [True, False, False]
    fault = find_unsound("y", c, np.array([True, True, False]), start=0)
    assert fault is not None
    assert fault.detail == "finite where the reference is infinite"


@pytest.mark.parametrize("dtype", ["int64", "bool", "U1"])
def test_what_cannot_be_nan_is_sound(dtype: str) -> None:
    """Integers and text are always finite."""
    values = np.array([["1"], ["0"]]).astype(dtype)
    check_reference("y", values, 0)
    assert sound_rows(values, values).all()


def test_nan_in_the_reference_names_output_and_sample() -> None:
    """It is not the candidate's fault."""
    r = np.ones((N, 2))
    r[4, 1] = np.nan
    with pytest.raises(ModelError, match=r"'logits'[\s\S]*sample 24"):
        check_reference("logits", r, start=20)


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        (None, "missing"),
        (np.ones((N, 3), dtype=np.float32), "other shape"),
        (np.ones((), dtype=np.float32), "other shape"),
        (np.ones((N, 2)), "other dtype"),
    ],
)
def test_another_kind_of_output_is_a_mismatch(candidate: np.ndarray | None, kind: str) -> None:
    """Missing, of another shape, or of another dtype."""
    fault = find_mismatch("y", np.ones((N, 2), dtype=np.float32), candidate, start=7)
    assert fault is not None
    assert (fault.output, fault.kind, fault.sample) == ("y", kind, 7)
