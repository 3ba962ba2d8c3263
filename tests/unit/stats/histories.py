"""Sequences of figures as histories have them: noise of any kind, shifts, far values, values that repeat."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

_NOISES = ("normal", "heavy", "resembling", "rounded", "none")


@st.composite
def histories(draw: st.DrawFn, most: int) -> np.ndarray:
    """Return up to `most` values, with up to two shifts and two far values; of any origin and scale."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    n = draw(st.integers(6, most))
    noise = draw(st.sampled_from(_NOISES))
    values = random.standard_t(2, n) if noise == "heavy" else random.standard_normal(n)
    if noise == "resembling":
        values = np.convolve(random.standard_normal(n + 3), [1.0, 0.7, 0.5, 0.3], "valid")
    if noise in ("rounded", "none"):
        values = np.round(values) if noise == "rounded" else np.zeros(n)
    for at, shift in draw(st.lists(st.tuples(st.integers(0, n), st.sampled_from([0.7, -2.0, 5.0, 50.0])), max_size=2)):
        values[at:] += shift
    for at, far in draw(st.lists(st.tuples(st.integers(0, n - 1), st.sampled_from([8.0, -40.0, 1e6])), max_size=2)):
        values[at] += far
    return draw(st.sampled_from([0.0, 3.5, 1e9])) + values * draw(st.sampled_from([1.0, 1e-3, 1e-9, 1e5]))
