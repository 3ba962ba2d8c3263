"""Sums of two products of u8 and s8: the largest there can be, and processes with kernels that add them in 16 bits."""

from __future__ import annotations

import platform
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_quant.backends.saturation import MOST, emulated_haswell, largest_pair, limited_onednn

_WEIGHTS = arrays.arrays(np.int8, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(-128, 127))


@given(_WEIGHTS)
def test_the_largest_sum_is_that_of_some_two_weights_of_an_output(weights: np.ndarray) -> None:
    """No two u8 values and two weights of one column have a larger sum, and some two have it, or it fits 16 bits."""
    columns = [[int(weight) for weight in column] for column in weights.T]
    pairs = [pair for column in columns for pair in (*((each, 0) for each in column), *combinations(column, 2))]
    sums = [a * pair[0] + b * pair[1] for pair in pairs for a in (0, 255) for b in (0, 255)]
    largest, found = max(map(abs, sums)), largest_pair(weights)
    assert found == largest if found > MOST else largest <= MOST


@pytest.mark.parametrize(
    ("weights", "fits"), [([64, 64], True), ([65, 64], False), ([-64, -64], True), ([127, -127], True)]
)
def test_seven_bits_fit_and_eight_do_not(weights: list[int], fits: bool) -> None:
    """255 * 128 is 32640, and 255 * 129 is 32895, which 16 bits do not hold; products of two signs cancel."""
    assert (largest_pair(np.array(weights, np.int8)[:, None]) <= MOST) is fits


def test_no_weights_have_no_sum() -> None:
    """A product over no channels adds nothing."""
    assert largest_pair(np.zeros((0, 3), np.int8)) == 0


def test_an_emulator_that_is_not_there_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason has the line that installs it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert emulated_haswell().missing.endswith("apt-get install qemu-user")


@pytest.mark.parametrize("older", [emulated_haswell, limited_onednn])
def test_on_other_processors_nothing_of_x86_runs(older: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """On ARM neither kernels of x86 nor packages for an emulator are there."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "this processor" in older().missing  # type: ignore[operator]
