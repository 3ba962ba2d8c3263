"""The encoding of labels: equal contents, and only they, share one, in every process."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data.batch import canonical_bytes
from pytest_quant.errors import DataError

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf")]),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["1", "1.0", "None", "a", "ab", ""]),
    st.binary(max_size=3),
    st.sampled_from([np.zeros(2), np.zeros((2, 1)), np.zeros(2, np.float32), np.zeros(2, np.int64), np.zeros(0)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", "ab", 1, "1"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def content(value: Any) -> object:
    """What is equal for equal contents, made of hashable values and by no bytes of ours."""
    if isinstance(value, Mapping):
        return ("dict", frozenset((content(name), content(item)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(content(item) for item in value))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, tuple(content(item) for item in value.ravel().tolist()))
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return (type(value).__name__, value)


@given(values=st.lists(VALUES, min_size=2, max_size=6))
def test_equal_contents_and_only_they_share_an_encoding(values: list[Any]) -> None:
    """Of any values as many encodings are different as there are contents."""
    encodings = {canonical_bytes(value, "label") for value in values}
    assert len(encodings) == len({content(value) for value in values})


@given(value=VALUES)
def test_the_order_of_names_does_not_count(value: Any) -> None:
    """Dicts are written as they come in one process and backwards in the other."""

    def backwards(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {name: backwards(inner[name]) for name in reversed(inner)}
        if isinstance(inner, (list, tuple)):
            return type(inner)(backwards(item) for item in inner)
        return inner

    assert canonical_bytes(backwards(value), "label") == canonical_bytes(value, "label")


def test_contents_that_only_join_to_the_same_text_differ() -> None:
    """Where a value ends is part of the content."""
    several = [["ab", "c"], ["a", "bc"], ["abc"], "abc", ["ab", ["c"]], [["ab"], "c"], [], [[]], ("ab", "c")]
    assert len({canonical_bytes(value, "label") for value in several}) == len(several)


def test_the_form_of_a_number_or_an_array_in_memory_does_not_count() -> None:
    """Numpy scalars, foreign byte order, other strides and fixed-width text hold the same contents."""
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    for same in (plain.astype(">f4"), np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2]):
        assert canonical_bytes(same, "label") == canonical_bytes(plain, "label")
    for of_numpy, own in ((np.float64(0.5), 0.5), (np.int8(3), 3), (np.bool_(True), True), (np.str_("a"), "a")):
        assert canonical_bytes(of_numpy, "label") == canonical_bytes(own, "label")
    assert canonical_bytes(np.array(["a", "b"]), "label") == canonical_bytes(np.array(["a", "b"], "U9"), "label")


def test_a_tensor_is_the_array_it_holds() -> None:
    """A DataLoader gives tensors of what arrays hold."""
    torch = pytest.importorskip("torch", reason="the tests' extra installs torch")
    boxes = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert canonical_bytes({"boxes": torch.from_numpy(boxes)}, "label") == canonical_bytes({"boxes": boxes}, "label")


def test_processes_agree() -> None:
    """Texts hash differently in each process; the encoding does not."""
    code = (
        "import hashlib, numpy as np; from pytest_quant.data.batch import canonical_bytes;"
        "v = {'b': ['x', 1, 0.5, None], 'a': (b'y', np.arange(3, dtype='i8')), 'c': {'z': True, 'w': 'ü'}};"
        "print(hashlib.sha256(canonical_bytes(v, 'label')).hexdigest())"
    )
    value = {"c": {"w": "ü", "z": True}, "a": (b"y", np.arange(3, dtype="i8")), "b": ["x", 1, 0.5, None]}
    expected = hashlib.sha256(canonical_bytes(value, "label")).hexdigest()
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == expected


@pytest.mark.parametrize("value", [{1, 2}, object(), np.longdouble(1), np.zeros(1, "f4,i4"), [{"a": {3}}]])
def test_other_types_are_refused(value: object) -> None:
    """What prints an address, or has no order, has no content that could be compared; what is allowed is told."""
    with pytest.raises(DataError, match="the label of sample 3 holds") as raised:
        canonical_bytes(value, "quant_data: the label of sample 3")
    assert "lists, tuples and dicts" in str(raised.value.allowed)
