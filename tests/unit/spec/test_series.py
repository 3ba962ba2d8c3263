"""Keys of series: what makes another one, and how they are read back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.errors import HistoryError
from pytest_quant.spec import Check, LatencyPlan, Model, SeriesKey
from tests.unit.record.examples import a_check, a_record

_TEXT = st.text()
_MAYBE = st.none() | _TEXT


@given(st.builds(SeriesKey, _TEXT, _TEXT, _TEXT, _MAYBE, _MAYBE, st.integers(), _MAYBE))
def test_a_key_is_read_back_from_its_text(key: SeriesKey) -> None:
    """Whatever the names contain; the text is ASCII, which every database stores."""
    assert SeriesKey.parse(key.text) == key
    assert key.text.isascii()


def test_a_key_reads_well() -> None:
    """Commands show it so, and search in it."""
    shown = str(SeriesKey.parse(a_record().series))
    assert shown == "tests/test_digits.py::test_int8 digits ort-int8-static batch 1 top1"


def _changed(check: Check) -> list[Check]:
    candidate = check.candidate
    return [
        replace(check, series_nodeid="other"),
        replace(check, candidate=replace(candidate, model=Model("other"))),
        replace(check, candidate=replace(candidate, backend="other")),
        replace(check, candidate=replace(candidate, precision="int4")),
        replace(check, candidate=replace(candidate, scheme="dynamic")),
        replace(check, batch_size=8),
    ]


def test_every_part_of_the_key_makes_another_series() -> None:
    """Records of int4 and int8 must not be compared."""
    check = a_check()
    keys = {SeriesKey.from_check(other, "top1") for other in [check, *_changed(check)]} | {
        SeriesKey.from_check(check, "mae")
    }
    assert len(keys) == 8


def test_the_batch_size_counts_when_latency_is_off() -> None:
    """A run without latency adds to the series of the runs with it."""
    timed = replace(a_check(), batch_size=8, latency=LatencyPlan(batch_size=8))
    assert SeriesKey.from_check(replace(timed, latency=None), "top1") == SeriesKey.from_check(timed, "top1")
    assert a_record(replace(timed, latency=None), latency=None).batch_size == 8


@given(st.text(), st.text(), st.text(), st.text())
def test_no_two_series_share_a_key(node: str, model: str, other_node: str, other_model: str) -> None:
    """Whatever separators the names contain."""
    first = SeriesKey.from_check(replace(a_check(model=model), series_nodeid=node), None)
    second = SeriesKey.from_check(replace(a_check(model=other_model), series_nodeid=other_node), None)
    assert (first == second) is ((node, model) == (other_node, other_model))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "not JSON",
        "{}",
        "[" * 100_000,
        '["test", "model", "ort", "int8", "static", 1]',
        '["test", "model", "ort", "int8", "static", "1", "top1"]',
        '["test", null, "ort", "int8", null, 1, null]',
    ],
)
def test_a_key_that_is_no_series_is_refused(key: str) -> None:
    """The message shows it and says what it is made of."""
    with pytest.raises(HistoryError, match=r"(?s)a series key cannot be read.*batch size and metric"):
        SeriesKey.parse(key)
