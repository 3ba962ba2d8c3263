"""Node ids without what our own lists add to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.marks.variants import series_nodeid


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a.py::test_a[ort-int8-static]", "a.py::test_a"),
        ("a.py::test_a[x-ort-int8-static]", "a.py::test_a[x]"),
        ("a.py::test_a[ort-int8-static-x]", "a.py::test_a[x]"),
        ("a.py::test_a[x]", "a.py::test_a[x]"),
        ("a.py::test_a", "a.py::test_a"),
    ],
)
def test_only_our_part_goes(nodeid: str, expected: str) -> None:
    """The author's own parameters stay."""
    assert series_nodeid(nodeid, "ort-int8-static") == expected


@given(st.text(min_size=1))
def test_without_a_list_nothing_goes(nodeid: str) -> None:
    """A test without a list of ours keeps its name, whatever it looks like."""
    assert series_nodeid(nodeid, None) == nodeid


@given(st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True))
def test_what_the_list_added_is_taken_off_again(own: str) -> None:
    """Adding the id and removing it gives the author's id back."""
    assert series_nodeid(f"a.py::test_a[{own}-ort-fp32]", "ort-fp32") == f"a.py::test_a[{own}]"
