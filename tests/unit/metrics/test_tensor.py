"""SQNR, cosine and largest error against NumPy, at the edges too; outputs that cannot be compared, or are constant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_quant.metrics.tensor import (
    ConstantOutput,
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
    found = TensorError()
    found.add(reference, candidate, start)
    return found


@given(seed=st.integers(0, 1000), log_scale=st.integers(-6, 6))
def test_figures_equal_their_formulas_at_any_scale(seed: int, log_scale: int) -> None:
    """NumPy's norms, in float64, of float32 outputs."""
    random = np.random.default_rng(seed)
    r = (random.normal(size=(12, 3, 2)) * 10.0**log_scale).astype(np.float32)
    c = (r * (1 + 0.01 * random.normal(size=r.shape))).astype(np.float32)
    found, r64, c64 = compared(r, c), r.astype(np.float64), c.astype(np.float64)
    assert found.sqnr_db == pytest.approx(20 * np.log10(np.linalg.norm(r64) / np.linalg.norm(r64 - c64)))
    assert found.cosine == pytest.approx(np.vdot(r64, c64) / np.linalg.norm(r64) / np.linalg.norm(c64))
    assert found.max_abs_error == np.abs(r64 - c64).max()


@given(seed=st.integers(0, 1000), cut=st.integers(0, 12))
def test_chunks_give_what_the_whole_gives(seed: int, cut: int) -> None:
    """Sums add up, an empty chunk adds nothing, and of equal errors the first sample counts."""
    random = np.random.default_rng(seed)
    r, c = random.integers(-3, 3, size=(2, 12, 2)).astype(np.float32)
    whole, parts = compared(r, c), TensorError()
    for start, end in ((0, cut), (cut, 12)):
        parts.add(r[start:end], c[start:end], start)
    for figure in ("sqnr_db", "cosine", "max_abs_error", "sample", "equal"):
        assert getattr(parts, figure) == pytest.approx(getattr(whole, figure)), figure
    assert whole.sample == np.argmax(np.abs(r - c).max(axis=1))


@pytest.mark.parametrize("differs", [0, 1, 2])
def test_one_chunk_that_differs_makes_an_output_unequal(differs: int) -> None:
    """Whichever it is."""
    found = TensorError()
    for place in range(3):
        found.add(np.ones((2, 2)), np.full((2, 2), 2.0 if place == differs else 1.0), 2 * place)
    assert found.equal is False
    assert (found.max_abs_error, found.sample) == (1.0, 2 * differs)


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
    found = compared(np.array([reference]), np.array([candidate]))
    assert (found.sqnr_db, found.cosine, found.max_abs_error) == pytest.approx(figures)


@given(sample=st.integers(0, 11), value=st.integers(0, 5), start=st.integers(0, 100))
def test_the_sample_of_the_largest_error_is_exact(sample: int, value: int, start: int) -> None:
    """It is the index in the whole set, whatever the shape of a sample."""
    r = np.zeros((12, 3, 2), dtype=np.float32)
    c = r.copy()
    c[sample].flat[value] = -2.0
    found = compared(r, c, start)
    assert (found.max_abs_error, found.sample) == (2.0, start + sample)


@pytest.mark.parametrize(("dtype", "other"), [("int8", -128), ("uint8", 255), ("int64", -7), ("bool", 1)])
def test_integers_are_compared_in_float64(dtype: str, other: int) -> None:
    """The difference of extremes does not wrap around."""
    r, c = np.array([[127, 1]]).astype(dtype), np.array([[other, 1]]).astype(dtype)
    expected = abs(int(r[0, 0]) - int(c[0, 0]))
    assert compared(r, c).max_abs_error == expected


def test_equal_outputs_have_a_cosine_of_exactly_one() -> None:
    """Rounding in the norms would make a limit of 1 fail for outputs without any error."""
    r = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32)
    found = compared(r, r.copy())
    assert (found.equal, found.cosine, found.sqnr_db, found.max_abs_error) == (True, 1.0, None, 0.0)


@given(seed=st.integers(0, 200))
def test_cosine_never_leaves_its_range(seed: int) -> None:
    """Nearly parallel outputs do not round beyond 1."""
    r = np.random.default_rng(seed).normal(size=(5, 4))
    for factor in (3.0, -3.0):
        cosine = compared(r, factor * r).cosine
        assert cosine is not None
        assert -1.0 <= cosine <= 1.0


def test_infinities_do_not_hide_what_is_beside_them() -> None:
    """Masked scores, the same infinity on both sides, leave the finite values of their rows compared."""
    r = np.array([[-np.inf, 1.0, 2.0], [-np.inf, 3.0, 4.0]])
    c = np.array([[-np.inf, 1.0, 2.0], [-np.inf, 3.0, 4.5]])
    found = compared(r, c)
    assert (found.max_abs_error, found.sample, found.equal) == (0.5, 1, False)
    assert found.sqnr_db == pytest.approx(10 * np.log10(30 / 0.25))


def test_nothing_compared_is_not_identical() -> None:
    """Where no value is finite on both sides there is no figure, and no claim."""
    nothing = TensorError()
    lost = compared(np.full((2, 2), np.inf), np.zeros((2, 2)))
    for found in (nothing, lost):
        assert (found.equal is True, found.max_abs_error, found.sqnr_db, found.cosine) == (False, None, None, None)


@pytest.mark.parametrize(("candidate", "identical"), [("b", False), ("a", True)])
def test_outputs_of_text_are_equal_or_not(candidate: str, identical: bool) -> None:
    """They have no error that could be put in a number."""
    found = compared(np.array(["a"], dtype=object), np.array([candidate], dtype=object))
    assert (found.equal, found.max_abs_error) == (identical, None)


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 40), max_size=4), log_offset=st.integers(0, 6))
def test_figures_without_the_mean_over_samples(seed: int, cuts: list[int], log_offset: int) -> None:
    """NumPy's, of the whole arrays less their means, however they are cut into chunks and however far the offset."""
    random = np.random.default_rng(seed)
    r = random.normal(size=(40, 3, 2)) + 10.0**log_offset * random.choice([-1, 1], size=(3, 2))
    c = r + 0.1 * random.normal(size=r.shape) + random.normal(size=(3, 2))
    found = TensorError()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        found.add(r[start:end], c[start:end], start)
    r0, c0 = r - r.mean(axis=0), c - c.mean(axis=0)
    if np.sum(r0**2) / 39 >= np.sum(r**2) / 400:
        assert (found.centred_sqnr_db, found.centred_cosine) == (None, None)
        return
    assert found.centred_sqnr_db == pytest.approx(10 * np.log10(np.sum(r0**2) / np.sum((r0 - c0) ** 2)), abs=1e-5)
    assert found.centred_cosine == pytest.approx(np.vdot(r0, c0) / np.linalg.norm(r0) / np.linalg.norm(c0), abs=1e-6)


@pytest.mark.parametrize("samples", [[(3, 2), (3, 4)], [(1, 2)], [(0, 2)]])
def test_samples_without_a_mean(samples: list[tuple[int, int]]) -> None:
    """Of two sizes, only one, and none."""
    found = TensorError()
    for shape in samples:
        found.add(np.full(shape, 100.0), np.full(shape, 99.0), 0)
    assert (found.centred_sqnr_db, found.centred_cosine) == (None, None)


def test_a_candidate_that_does_not_vary_has_no_cosine_with_what_varies() -> None:
    """By hand: 100 and 102 about 101, and 101 twice."""
    found = compared(np.array([[100.0], [102.0]]), np.array([[101.0], [101.0]]))
    assert found.centred_sqnr_db == pytest.approx(0.0)
    assert found.centred_cosine == 0.0


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
    """What it is in place of what; the first sample of the chunk stands for all."""
    assert find_mismatch("y", F32, candidate, 7) == OutputFault("y", kind, 7, detail)


def test_texts_are_of_one_kind_whatever_holds_them() -> None:
    """Objects and NumPy's texts of any length; two texts of other lengths too."""
    texts = np.array([["a", "b"]])
    assert find_mismatch("y", texts, texts.astype(object), 0) is None
    assert find_mismatch("y", texts, np.array([["abc", "b"]]), 0) is None
    assert find_mismatch("y", F32, F32.copy(), 0) is None


def test_outputs_that_are_not_finite() -> None:
    """The reference's stop everything; the candidate's are a fault that says which side is not."""
    spoiled = F32.copy()
    spoiled[1, 1] = np.nan
    assert said(lambda: check_reference("y", spoiled, 10)) == (
        "the reference gives NaN in output 'y'\n  got: sample 11\n"
        "  next: check the model and the sample in FP32 first; where NaN is meant, export the model without this "
        "output, or with numbers in place of NaN: torch.nan_to_num(x), or Where(IsNaN(x), 0, x) in ONNX"
    )
    sound = np.array([True, False, True])
    expected = OutputFault("y", "not finite", 11, "NaN or Inf where the reference is finite")
    assert find_unsound("y", spoiled, sound, 10) == expected
    expected = OutputFault("y", "not finite", 11, "finite where the reference is infinite")
    assert find_unsound("y", F32, sound, 10) == expected
    assert find_unsound("y", spoiled, np.ones(3, dtype=bool), 10) is None


def watch(reference: np.ndarray, candidate: np.ndarray, step: int = 1000) -> ConstantOutput:
    """Compare both in chunks of `step` samples."""
    found = ConstantOutput()
    for start in range(0, len(reference), step):
        found.add(reference[start : start + step], candidate[start : start + step])
    return found


def constant_fault(reference: np.ndarray, candidate: np.ndarray, step: int = 1000) -> OutputFault | None:
    """Return the fault of an output ``y``."""
    return watch(reference, candidate, step).fault("y")


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Values of a network's head."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 4), st.integers(1, 4)),
    value=st.sampled_from([0.0, 0.5, -3.25]),
    step=st.integers(1, 30),
)
def test_one_value_everywhere_is_named(shape: tuple[int, int, int], value: float, step: int) -> None:
    """However the samples are cut, and of one sample too; the message has the value and the reference's range."""
    r = noise(*shape)
    assume(r.size > 1 and r.max() - r.min() > 0.1 * np.abs(r).max())
    found = constant_fault(r, np.full_like(r, value), step)
    assert found is not None
    assert (found.output, found.kind) == ("y", "constant")
    assert found.detail == f"{value:.4g} everywhere, where the reference goes from {r.min():.4g} to {r.max():.4g}"


@given(n=st.integers(2, 30), step=st.integers(1, 30))
def test_the_same_output_for_every_sample_is_named(n: int, step: int) -> None:
    """Its values may differ from each other; none of them says anything about the sample."""
    r = noise(n, 6)
    found = constant_fault(r, np.repeat(noise(1, 6, seed=1), n, axis=0), step)
    assert found is not None
    assert found.kind == "constant"
    assert "same for every sample" in found.detail


def test_the_same_output_of_one_sample_is_no_fault() -> None:
    """What a second sample would give nobody knows."""
    assert constant_fault(noise(1, 6), noise(1, 6, seed=1)) is None


@given(
    n=st.integers(1, 8),
    values=st.integers(1, 5),
    log_spread=st.floats(-8, 1),
    offset=st.floats(-3, 3),
    wider=st.floats(1.0, 2.0),
    seed=st.integers(0, 1000),
)
def test_rounding_to_int8_is_never_a_fault(
    n: int, values: int, log_spread: float, offset: float, wider: float, seed: int
) -> None:
    """Of any tiny output, also one that hardly varies, with a range that calibration saw up to twice as wide."""
    r = (offset + 10.0**log_spread * noise(n, values, seed=seed)).astype(np.float32)
    scale = np.float32(wider * np.abs(r).max() / 127)
    assume(scale > 0)
    assert constant_fault(r, (np.rint(r / scale) * scale).astype(np.float32)) is None


@pytest.mark.parametrize(("value", "told"), [(0.0, True), (0.9995, False)])
def test_zeros_are_no_rounding_of_a_reference_that_hardly_varies(value: float, told: bool) -> None:
    """One value near it is."""
    r = np.linspace(0.999, 1.0, 50, dtype=np.float32)[:, None]
    assert (constant_fault(r, np.full_like(r, value)) is not None) is told


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("share", "told"), [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("everywhere", [True, False])
def test_two_steps_of_int8_are_the_edge_of_rounding(everywhere: bool, share: float, told: bool, sign: float) -> None:
    """2/127 of the largest value, whatever its sign: over all values, or over the samples of each value."""
    spread = share * 2 / 127
    if everywhere:
        r, c = sign * np.array([[1.0], [1.0 - spread], [1.0]]), np.full((3, 1), sign * 0.99)
    else:
        r = sign * np.array([[1.0, 0.4], [1.0 - spread, 0.4], [1.0, 0.4]])
        c = np.full((3, 2), [sign * 0.99, 0.3])
    found = constant_fault(r, c, 2)
    if not told:
        assert found is None
        return
    low, high = sorted((sign, sign * (1.0 - spread)))
    detail = (
        f"{sign * 0.99:.4g} everywhere, where the reference goes from {low:.4g} to {high:.4g}"
        if everywhere
        else "the same for every sample, where the reference's are not"
    )
    assert found == OutputFault("y", "constant", 0, detail)


@pytest.mark.parametrize(("others", "told"), [(9, False), (10, True)])
def test_decisions_that_tell_samples_apart_are_counted_value_by_value(others: int, told: bool) -> None:
    """A value that is the same for all samples tells none apart, however often the candidate has another."""
    r, c = np.zeros((500, 3), dtype=np.int64), np.zeros((500, 3), dtype=np.int64)
    r[:others, 1], r[:, 2], c[:, 2] = 1, 5, 7
    found = constant_fault(r, c, 64)
    assert found == (
        OutputFault("y", "constant", 0, "the same for every sample, where the reference's are not") if told else None
    )


def test_a_decision_everywhere_is_told_with_the_count() -> None:
    """As it is written, without digits after the point."""
    r = (np.arange(500) < 30).astype(np.int64)
    found = constant_fault(r, np.full_like(r, 12345), 64)
    assert found == OutputFault("y", "constant", 0, "12345 everywhere, where 500 values of the reference are others")


def test_one_sample_that_differs_is_enough() -> None:
    """Wherever it stands in a chunk."""
    c = np.zeros((30, 3), dtype=np.float32)
    c[17, 1] = 0.5
    assert constant_fault(noise(30, 3), c, 10) is None


DECISIONS = [np.int64, np.int8, np.bool_, np.float32, np.str_, np.object_]


@pytest.mark.parametrize("dtype", DECISIONS)
@pytest.mark.parametrize("reference", [[0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 1, 0, 1, 0, 1, 0, 1]])
def test_few_decisions_may_all_be_the_same(dtype: type, reference: list[int]) -> None:
    """Three samples of one class are a few flips at the worst, whatever kind of value says so."""
    r: np.ndarray = np.array(reference).astype(bool).astype(dtype)
    for decision in (r.min(keepdims=True), r.max(keepdims=True)) if dtype is not np.str_ else (r[:1], r[1:2]):
        assert constant_fault(r, np.repeat(decision, len(r))) is None


@pytest.mark.parametrize("dtype", DECISIONS)
@pytest.mark.parametrize(("others", "told"), [(9, False), (10, True), (500, True)])
def test_ten_lost_decisions_are_no_chance(dtype: type, others: int, told: bool) -> None:
    """Class ids, flags and texts that are always the same, where the reference has ten others or more."""
    r: np.ndarray = (np.arange(1000) < others).astype(dtype)
    found = constant_fault(r, np.repeat(r[-1:], len(r)), 64)
    assert (found is not None) is told
    if found is not None:
        assert f"{others} values of the reference are others" in found.detail


@pytest.mark.parametrize("reference", [np.zeros((20, 3), np.float32), np.full((20, 3), 7), noise(1, 3).repeat(20, 0)])
@pytest.mark.parametrize("value", [0, 5])
def test_where_the_reference_is_constant_nothing_is_lost(reference: np.ndarray, value: int) -> None:
    """Limits on the error judge such an output; a grid of anchors, for example."""
    candidate = reference + reference.dtype.type(value)
    assert constant_fault(reference, candidate) is None
    assert watch(reference, candidate).reference_constant


def test_zeros_beside_a_grid_are_a_fault() -> None:
    """An output that is the same for every sample still tells something by its values."""
    grid = noise(1, 30).repeat(5, 0)
    assert constant_fault(grid, np.zeros_like(grid)) is not None


@pytest.mark.parametrize(
    ("reference", "constant"),
    [
        (noise(1, 3), False),
        (np.ones((1, 3)), True),
        (noise(5, 3), False),
        (np.array([[1.0], [1.0], [1.5]]), False),
        (np.zeros((0, 3)), False),
    ],
)
def test_a_constant_reference_is_told(reference: np.ndarray, constant: bool) -> None:
    """It varies with the first sample that differs; nothing at all is no constant."""
    assert watch(reference, noise(*reference.shape), 1).reference_constant is constant


def test_masked_scores_do_not_hide_a_dead_output() -> None:
    """The same infinity on both sides is no error, and not what the output tells."""
    r = noise(20, 6)
    r[:, 0] = -np.inf
    c = np.zeros_like(r)
    c[:, 0] = -np.inf
    found = constant_fault(r, c)
    assert found is not None


def test_outputs_of_changing_shapes_are_compared() -> None:
    """As many boxes as each sample has: nothing that is the same for every one."""
    found = ConstantOutput()
    for boxes in (1, 4, 2):
        found.add(noise(1, boxes, seed=boxes), noise(1, boxes, seed=boxes + 1))
    assert found.fault("y") is None
