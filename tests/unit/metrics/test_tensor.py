"""SQNR, cosine and largest error against NumPy, at the edges too; outputs that cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.metrics import tensor
from pytest_quant.metrics.tensor import (
    TensorError,
    check_reference,
    find_mismatch,
    find_unsound,
    sound_rows,
)
from pytest_quant.result import OutputFault
from tests.unit.metrics.scoring import said


def compared(reference: np.ndarray, candidate: np.ndarray, start: int = 0) -> TensorError:
    """Compare one chunk."""
    result = TensorError()
    result.add(reference, candidate, start)
    return result


@given(seed=st.integers(0, 1000), log_scale=st.integers(-6, 6))
def test_figures_equal_their_formulas_at_any_scale(seed: int, log_scale: int) -> None:
    """NumPy's norms, in float64, of float32 outputs."""
    random = np.random.default_rng(seed)
    r = (random.normal(size=(12, 3, 2)) * 10.0**log_scale).astype(np.float32)
    c = (r * (1 + 0.01 * random.normal(size=r.shape))).astype(np.float32)
    result, r64, c64 = compared(r, c), r.astype(np.float64), c.astype(np.float64)
    assert result.sqnr_db == pytest.approx(20 * np.log10(np.linalg.norm(r64) / np.linalg.norm(r64 - c64)))
    assert result.cosine == pytest.approx(np.vdot(r64, c64) / np.linalg.norm(r64) / np.linalg.norm(c64))
    assert result.max_abs_error == np.abs(r64 - c64).max()


@given(seed=st.integers(0, 1000), cut=st.integers(0, 12))
def test_chunks_give_what_the_whole_gives(seed: int, cut: int) -> None:
    """Sums add up, an empty chunk adds nothing, and of equal errors the first sample of the set counts."""
    random = np.random.default_rng(seed)
    r, c = random.integers(-3, 3, size=(2, 12, 2)).astype(np.float32)
    whole, parts = compared(r, c), TensorError()
    for start, end in ((0, cut), (cut, 12)):
        parts.add(r[start:end], c[start:end], start)
    for figure in ("sqnr_db", "cosine", "max_abs_error", "sample", "equal"):
        assert getattr(parts, figure) == pytest.approx(getattr(whole, figure)), figure
    assert whole.sample == np.argmax(np.abs(r - c).max(axis=1))


@pytest.mark.parametrize(
    ("reference", "candidate", "figures"),
    [
        ([3.0, 4.0], [3.0, 3.0], (10 * np.log10(25 / 1), 21 / np.sqrt(25 * 18), 1.0)),
        ([3.0, 4.0], [0.0, 0.0], (0.0, None, 4.0)),
        ([0.0, 0.0], [3.0, 4.0], (None, None, 4.0)),
        ([1.0, 0.0], [-1.0, 0.0], (10 * np.log10(1 / 4), -1.0, 2.0)),
        ([1.0, 0.0], [0.0, 2.0], (10 * np.log10(1 / 5), 0.0, 2.0)),
    ],
)
def test_figures_of_two_values(
    reference: list[float], candidate: list[float], figures: tuple[float | None, float | None, float]
) -> None:
    """By hand: signal over noise in dB, the cosine, the largest difference."""
    result = compared(np.array([reference]), np.array([candidate]))
    assert (result.sqnr_db, result.cosine, result.max_abs_error) == pytest.approx(figures)


@pytest.mark.parametrize(("dtype", "other"), [("int8", -128), ("uint8", 255), ("int64", -7), ("bool", 1)])
def test_integers_are_compared_in_float64(dtype: str, other: int) -> None:
    """The difference of extremes does not wrap around."""
    r, c = np.array([[127, 1]]).astype(dtype), np.array([[other, 1]]).astype(dtype)
    expected = abs(int(r[0, 0]) - int(c[0, 0]))
    assert compared(r, c).max_abs_error == expected


def test_equal_outputs_have_a_cosine_of_exactly_one() -> None:
    """Rounding in the norms would make a limit of 1 fail for outputs without any error."""
    r = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32)
    result = compared(r, r.copy())
    assert (result.equal, result.cosine, result.sqnr_db, result.max_abs_error) == (True, 1.0, None, 0.0)
    for factor in (3.0, -3.0):
        assert -1.0 <= (compared(r, np.float32(factor) * r).cosine or 0.0) <= 1.0


def test_infinities_do_not_hide_what_is_beside_them() -> None:
    """Masked scores, the same infinity on both sides, leave the finite values of their rows compared."""
    r = np.array([[-np.inf, 1.0, 2.0], [-np.inf, 3.0, 4.0]])
    c = np.array([[-np.inf, 1.0, 2.0], [-np.inf, 3.0, 4.5]])
    result = compared(r, c)
    assert (result.max_abs_error, result.sample, result.equal) == (0.5, 1, False)
    assert result.sqnr_db == pytest.approx(10 * np.log10(30 / 0.25))


def test_nothing_compared_is_not_identical() -> None:
    """Where no value is finite on both sides there is no figure, and no claim."""
    nothing = TensorError()
    lost = compared(np.full((2, 2), np.inf), np.zeros((2, 2)))
    for result in (nothing, lost):
        assert (result.equal is True, result.max_abs_error, result.sqnr_db, result.cosine) == (False, None, None, None)


@pytest.mark.parametrize(("candidate", "identical"), [("b", False), ("a", True)])
def test_outputs_of_text_are_equal_or_not(candidate: str, identical: bool) -> None:
    """They have no error that could be put in a number."""
    result = compared(np.array(["a"], dtype=object), np.array([candidate], dtype=object))
    assert (result.equal, result.max_abs_error) == (identical, None)


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 40), max_size=4), log_offset=st.integers(0, 6))
def test_figures_without_the_mean_over_samples(seed: int, cuts: list[int], log_offset: int) -> None:
    """NumPy's, of the whole arrays less their means, however they are cut into chunks and however far the offset."""
    random = np.random.default_rng(seed)
    r = random.normal(size=(40, 3, 2)) + 10.0**log_offset * random.choice([-1, 1], size=(3, 2))
    c = r + 0.1 * random.normal(size=r.shape) + random.normal(size=(3, 2))
    result = TensorError()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        result.add(r[start:end], c[start:end], start)
    r0, c0 = r - r.mean(axis=0), c - c.mean(axis=0)
    if np.sum(r0**2) / 39 >= np.sum(r**2) / 400:
        assert (result.centred_sqnr_db, result.centred_cosine) == (None, None)
        return
    assert result.centred_sqnr_db == pytest.approx(10 * np.log10(np.sum(r0**2) / np.sum((r0 - c0) ** 2)), abs=1e-5)
    assert result.centred_cosine == pytest.approx(np.vdot(r0, c0) / np.linalg.norm(r0) / np.linalg.norm(c0), abs=1e-6)


@pytest.mark.parametrize("samples", [[(3, 2), (3, 4)], [(1, 2)], [(0, 2)]])
def test_samples_without_a_mean(samples: list[tuple[int, int]]) -> None:
    """Of two sizes, only one, and none; a candidate that does not vary has no cosine with what varies."""
    result = TensorError()
    for shape in samples:
        result.add(np.full(shape, 100.0), np.full(shape, 99.0), 0)
    assert (result.centred_sqnr_db, result.centred_cosine) == (None, None)
    steady = compared(np.array([[100.0], [102.0]]), np.array([[101.0], [101.0]]))
    assert steady.centred_sqnr_db == pytest.approx(0.0)
    assert steady.centred_cosine == 0.0


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
    assert fault.detail == "finite, and the reference is infinite"


@pytest.mark.parametrize("dtype", ["int64", "bool", "U1"])
def test_what_cannot_be_nan_is_sound(dtype: str) -> None:
    """Integers and text are always finite."""
    values = np.array([["1"], ["0"]]).astype(dtype)
    check_reference("y", values, 0)
    assert sound_rows(values, values).all()


F32 = np.ones((3, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("candidate", "kind", "detail"),
    [
        (None, "missing", "the candidate does not give it"),
        (F32[:, :1], "other shape", "(3, 1) in place of (3, 2)"),
        (F32[0, 0], "other shape", "() in place of (3, 2)"),
        (F32.astype(np.int8), "other dtype", "int8 in place of float32"),
        (F32.astype(str), "other dtype", "<U32 in place of float32"),
    ],
)
def test_another_kind_of_output(candidate: np.ndarray | None, kind: str, detail: str) -> None:
    """What it is in place of what, for the chunk's first sample; texts are of one kind whatever holds them."""
    assert find_mismatch("y", F32, candidate, 7) == OutputFault("y", kind, 7, detail)
    texts = np.array([["a", "b"]])
    for same, other in ((F32, F32.copy()), (texts, texts.astype(object)), (texts, np.array([["abc", "b"]]))):
        assert find_mismatch("y", same, other, 0) is None


def test_outputs_that_are_not_finite() -> None:
    """The reference's stop everything; the candidate's are a fault that says which side is not."""
    spoiled = F32.copy()
    spoiled[1, 1] = np.nan
    assert said(lambda: check_reference("y", spoiled, 10)).startswith(
        "the reference gives NaN in output 'y'\n  got: sample 11\n"
    )
    sound = np.array([True, False, True])
    expected = OutputFault("y", "not finite", 11, "NaN or Inf, and the reference is finite")
    assert find_unsound("y", spoiled, sound, 10) == expected
    expected = OutputFault("y", "not finite", 11, "finite, and the reference is infinite")
    assert find_unsound("y", F32, sound, 10) == expected
    assert find_unsound("y", spoiled, np.ones(3, dtype=bool), 10) is None


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 40)),
    block=st.integers(1, 60),
    log_offset=st.integers(-1, 3),
    holes=st.booleans(),
)
def test_large_outputs_are_compared_in_parts(
    seed: int, shape: tuple[int, int], block: int, log_offset: int, holes: bool
) -> None:
    """In whole samples or in parts of one, figures are those of all values; around the mean, in whole samples."""
    random = np.random.default_rng(seed)
    r = random.normal(size=shape) + 10.0**log_offset
    c = r + 0.1 * random.normal(size=shape)
    if holes:
        r[random.random(size=shape) < 0.2] = np.inf
    whole, parts = compared(r, c), TensorError()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor, "_BLOCK", block)
        parts.add(r, c, 0)
        figures = ["sqnr_db", "cosine", "max_abs_error", "sample", "equal"]
        figures += [] if holes or shape[1] > block else ["centred_sqnr_db", "centred_cosine"]
        for figure in figures:
            assert getattr(parts, figure) == pytest.approx(getattr(whole, figure), nan_ok=True), figure


def test_of_very_large_samples_the_same_values_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of ten thousand values tell the figures without the mean, within what a thousand can."""
    random = np.random.default_rng(0)
    r = 100.0 + random.normal(size=(8, 10_000))
    c = r + 0.1 * random.normal(size=r.shape)
    exact = compared(r, c)
    monkeypatch.setattr(tensor, "_BLOCK", 1000)
    drawn = TensorError()
    for row in range(8):
        drawn.add(r[row : row + 1], c[row : row + 1], row)
    assert exact.centred_sqnr_db == pytest.approx(20.0, abs=0.1)
    assert drawn.centred_sqnr_db == pytest.approx(exact.centred_sqnr_db, abs=0.5)
    assert drawn.sqnr_db == pytest.approx(exact.sqnr_db)
    assert drawn.sample == exact.sample
    # A mean with half of the energy is no offset, however many of the values are kept.
    half = compared(r - 99.0, c - 99.0)
    assert (half.sqnr_db is not None, half.centred_sqnr_db) == (True, None)
