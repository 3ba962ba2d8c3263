"""An output that is the same for every sample where the reference varies is a fault; rounding is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_quant.metrics.tensor import ConstantOutput
from pytest_quant.result import OutputFault


def watch(reference: np.ndarray, candidate: np.ndarray, step: int = 1000) -> ConstantOutput:
    """Compare both in chunks of `step` samples."""
    result = ConstantOutput()
    for start in range(0, len(reference), step):
        result.add(reference[start : start + step], candidate[start : start + step])
    return result


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
    result = constant_fault(r, np.full_like(r, value), step)
    assert result is not None
    assert (result.output, result.kind) == ("y", "constant")
    assert result.detail == f"{value:.4g} everywhere, where the reference goes from {r.min():.4g} to {r.max():.4g}"


@given(n=st.integers(2, 30), step=st.integers(1, 30))
def test_the_same_output_for_every_sample_is_named(n: int, step: int) -> None:
    """Its values may differ from each other; none of them says anything about the sample."""
    r = noise(n, 6)
    result = constant_fault(r, np.repeat(noise(1, 6, seed=1), n, axis=0), step)
    assert result is not None
    assert result.kind == "constant"
    assert "same for every sample" in result.detail


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


@pytest.mark.parametrize(("value", "faulty"), [(0.0, True), (0.9995, False)])
def test_zeros_are_no_rounding_of_a_reference_that_hardly_varies(value: float, faulty: bool) -> None:
    """One value near it is."""
    r = np.linspace(0.999, 1.0, 50, dtype=np.float32)[:, None]
    assert (constant_fault(r, np.full_like(r, value)) is not None) is faulty


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("share", "faulty"), [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("everywhere", [True, False])
def test_two_steps_of_int8_are_the_edge_of_rounding(everywhere: bool, share: float, faulty: bool, sign: float) -> None:
    """2/127 of the largest value, whatever its sign: over all values, or over the samples of each value."""
    spread = share * 2 / 127
    if everywhere:
        r, c = sign * np.array([[1.0], [1.0 - spread], [1.0]]), np.full((3, 1), sign * 0.99)
    else:
        r = sign * np.array([[1.0, 0.4], [1.0 - spread, 0.4], [1.0, 0.4]])
        c = np.full((3, 2), [sign * 0.99, 0.3])
    result = constant_fault(r, c, 2)
    if not faulty:
        assert result is None
        return
    low, high = sorted((sign, sign * (1.0 - spread)))
    detail = (
        f"{sign * 0.99:.4g} everywhere, where the reference goes from {low:.4g} to {high:.4g}"
        if everywhere
        else "the same for every sample, where the reference's are not"
    )
    assert result == OutputFault("y", "constant", 0, detail)


@pytest.mark.parametrize(("others", "faulty"), [(9, False), (10, True)])
def test_decisions_that_tell_samples_apart_are_counted_value_by_value(others: int, faulty: bool) -> None:
    """A value that is the same for all samples tells none apart, however often the candidate has another."""
    r, c = np.zeros((500, 3), dtype=np.int64), np.zeros((500, 3), dtype=np.int64)
    r[:others, 1], r[:, 2], c[:, 2] = 1, 5, 7
    result = constant_fault(r, c, 64)
    assert result == (
        OutputFault("y", "constant", 0, "the same for every sample, where the reference's are not") if faulty else None
    )


DECISIONS = [np.int64, np.int8, np.bool_, np.float32, np.str_, np.object_]


@pytest.mark.parametrize("dtype", DECISIONS)
@pytest.mark.parametrize(
    ("n", "others", "faulty"), [(3, 2, False), (1000, 9, False), (1000, 10, True), (1000, 500, True)]
)
def test_ten_lost_decisions_are_no_chance(dtype: type, n: int, others: int, faulty: bool) -> None:
    """Class ids, flags and texts that are always the same: fewer may be flips, whatever kind of value says so."""
    r: np.ndarray = (np.arange(n) < others).astype(bool).astype(dtype)
    result = constant_fault(r, np.repeat(r[-1:], len(r)), 64)
    assert (result is not None) is faulty
    if result is not None:
        assert f"{others} values of the reference are others" in result.detail


def test_some_constants_are_a_fault_and_one_other_sample_is_none() -> None:
    """An output that is the same for every sample tells something by its values; infinities tell nothing."""
    grid = noise(1, 30).repeat(5, 0)
    assert constant_fault(grid, np.zeros_like(grid)) is not None
    r = noise(20, 6)
    r[:, 0] = -np.inf
    c = np.zeros_like(r)
    c[:, 0] = -np.inf
    assert constant_fault(r, c) is not None
    c[17, 1] = 0.5
    assert constant_fault(r, c, 10) is None


@pytest.mark.parametrize("reference", [np.zeros((20, 3), np.float32), np.full((20, 3), 7), noise(1, 3).repeat(20, 0)])
@pytest.mark.parametrize("value", [0, 5])
def test_where_the_reference_is_constant_nothing_is_lost(reference: np.ndarray, value: int) -> None:
    """Limits on the error judge such an output; a grid of anchors, for example."""
    candidate = reference + reference.dtype.type(value)
    assert constant_fault(reference, candidate) is None
    assert watch(reference, candidate).reference_constant


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


def test_outputs_of_changing_shapes_are_compared() -> None:
    """As many boxes as each sample has: nothing that is the same for every one."""
    result = ConstantOutput()
    for boxes in (1, 4, 2):
        result.add(noise(1, boxes, seed=boxes), noise(1, boxes, seed=boxes + 1))
    assert result.fault("y") is None
