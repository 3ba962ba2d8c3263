"""Several marks on one test: the closest wins key by key, and each must be right in itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import Metric, UsageError
from pytest_quant.marks.check import combine, series_nodeid
from pytest_quant.marks.keys import KEYS, MarkKeys, describe
from pytest_quant.spec import Limits


def _combine(*marks: dict[str, object], parameter: dict[str, object] | None = None) -> MarkKeys:
    of_parameter = [] if parameter is None else [pytest.mark.quant(**parameter).mark]
    return combine([pytest.mark.quant(**mark).mark for mark in marks], of_parameter)


def test_the_closest_wins_key_by_key() -> None:
    """What the closest does not write comes from farther away."""
    keys = _combine({"max_drop": 1.0}, {"max_drop": 2.0, "min_agreement": 99}, {"min_speedup": 1.5})
    assert keys.limits == Limits(max_drop=1.0, min_agreement=99.0, min_speedup=1.5)


def test_a_parameter_is_closer_than_the_function() -> None:
    """``pytest.param`` marks one case, so it knows best."""
    assert _combine({"max_drop": 1.0}, parameter={"max_drop": 3.0}).limits.max_drop == 3.0


def test_none_takes_back_what_a_farther_mark_sets() -> None:
    """A class's limit can be lifted for one method."""
    assert _combine({"max_drop": None}, {"max_drop": 2.0}).limits.max_drop is None


def test_a_wrong_mark_is_an_error_even_where_a_closer_one_hides_it() -> None:
    """A mistake does not wait until somebody takes the closer mark away."""
    with pytest.raises(UsageError, match="max_drop must be"):
        _combine({"max_drop": 1.0}, {"max_drop": "much"})


@pytest.mark.parametrize("key", sorted(KEYS))
def test_an_unknown_key_names_the_nearest(key: str) -> None:
    """Every key is suggested for a typing error in it."""
    with pytest.raises(UsageError, match=f"has no key '{key}x'") as caught:
        _combine({f"{key}x": 1})
    assert f"did you mean '{key}'?" in str(caught.value)


def test_positional_arguments_are_refused() -> None:
    """A mark takes keys only."""
    with pytest.raises(UsageError, match="takes keys only"):
        combine([pytest.mark.quant("ort").mark])


def test_a_list_in_a_parameter_is_refused() -> None:
    """One case cannot become several."""
    with pytest.raises(UsageError, match=r"precision is a list in the mark of a pytest\.param"):
        _combine({}, parameter={"precision": ["fp32", "int8"]})


@pytest.mark.parametrize("key", ["backend", "precision", "scheme", "batch_size", "quantized"])
def test_a_parameter_cannot_change_what_a_list_parametrizes(key: str) -> None:
    """The test's id would name another engine than the one that runs."""
    values = {"backend": "ort", "precision": "int8", "scheme": "static", "batch_size": 2, "quantized": "q.onnx"}
    with pytest.raises(UsageError, match=f"a pytest.param sets {key}"):
        _combine({"precision": ["fp32", "int8"]}, parameter={key: values[key]})


def test_the_text_of_markers_has_every_key() -> None:
    """``pytest --markers`` documents the mark whole."""
    text = describe()
    assert all(f"\n  {key}: " in text for key in KEYS)


def test_min_accuracy_is_in_the_metrics_unit_wherever_that_is_named() -> None:
    """0.9 is a mistake for a share in percent, and a fine score for an error."""
    for metric in (None, "f1", Metric(len)):
        with pytest.raises(UsageError, match="write 90"):
            _combine({"min_accuracy": 0.9}, {"metric": metric})
    for metric in ("mae", Metric(len, unit="", scale=1)):
        assert _combine({"min_accuracy": 0.9}, {"metric": metric}).limits.min_accuracy == 0.9


def test_a_bare_callable_is_no_metric() -> None:
    """Nobody can tell whether more is better."""
    with pytest.raises(UsageError, match="Metric\\(fn, better='higher'"):
        _combine({"metric": len, "max_drop": 1.0})


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
