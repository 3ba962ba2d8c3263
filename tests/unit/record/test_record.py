"""A record and its JSON: what is written is read again, by the shipped schema, and anything else is an error."""

from __future__ import annotations

import copy
import enum
import json
import math
from dataclasses import replace
from typing import Any

import execnet
import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.record import Json, Record, from_json, run_to_json, to_json
from pytest_quant.record.record import plain
from pytest_quant.result import Interval, Status, Verdict
from tests.json_schemas import DOCUMENTS, PACKAGE, RunDocument, schema_of, schema_text
from tests.unit.record.examples import ACCURACY, CAUSE, COVERAGE, RUN, a_record, unavailable
from tests.unit.record.strategies import records


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records)
def test_no_field_is_lost(record: Record) -> None:
    """JSON is where infinity and lone surrogates go; nothing else changes, written and read again and again."""
    written = to_json(record)
    read = from_json(json.loads(json.dumps(written, allow_nan=False)))
    again = to_json(read)
    assert again == written
    assert from_json(again) == read


def test_names_of_nodes_that_ran_as_asked_are_not_kept() -> None:
    """A large model has thousands of them; what is read back of the record equals it all the same."""
    record = a_record(coverage=replace(COVERAGE, asked_nodes=("conv", "fc")))
    assert "asked_nodes" not in str(to_json(record))
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize(
    "record",
    [a_record(), unavailable(), replace(a_record(), cause=CAUSE)],
    ids=["measured", "unavailable", "explained"],
)
def test_built_records_round_trip_exactly(record: Record) -> None:
    """What a session builds is already in its final form, which the transport of pytest-xdist carries."""
    written = to_json(record)
    assert from_json(written) == record
    assert execnet.loads(execnet.dumps(written)) == written


def test_a_cause_is_written_by_its_names() -> None:
    """Those that others read, and null without one; a record of before has none."""
    data: dict[str, Any] = to_json(replace(a_record(), cause=CAUSE))
    read = data["cause"]
    assert (read["stage"], read["nodes"], read["regains"]) == ("calibration", ["/conv1/Conv", "/fc/Gemm"], 3.93)
    assert read["text"] == "2 of 3 ranges do not fit the evaluation samples"
    assert read["ranges"][1] == {"nodes": ["/conv1/Conv", "/relu1/Relu"], "engine": [0.0, 255.0], "data": [-2.0, 2.0]}
    assert to_json(a_record())["cause"] is None
    del data["cause"]
    assert from_json(data).cause is None


def test_rows_are_objects_by_name_or_lists() -> None:
    """Outputs and operators by their names, a class as its four values in the order of the fields."""
    data: dict[str, Any] = to_json(a_record())
    assert data["coverage"]["by_op"]["MatMul"] == {
        "nodes": 2, "quantized_nodes": 2, "macs": None, "quantized_macs": None, "stands_for": "",
    }  # fmt: skip
    assert data["accuracy"]["by_output"]["scores"]["sqnr_db"] == 21.37
    assert data["accuracy"]["by_class"] == [[0, 182, 99.4505, 98.3516], [7, 178, 98.3146, 71.9101]]


def test_other_fields_are_ignored_and_missing_ones_have_their_default() -> None:
    """Documents of other versions have more or fewer."""
    data: dict[str, Any] = to_json(a_record())
    data["new"] = 1
    data["accuracy"]["new"] = {"x": 2}
    del data["hints"], data["accuracy"]["p_value"]
    record = a_record()
    assert from_json(data) == replace(record, accuracy=replace(ACCURACY, p_value=None))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_read_as_null(value: float) -> None:
    """Python reads such numbers of a file, though JSON has none."""
    data: dict[str, Any] = to_json(a_record())
    data["accuracy"]["drop"] = value
    assert from_json(data) == a_record(accuracy=replace(ACCURACY, drop=None))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("nodeid",), None, "check.nodeid is not"),
        (("batch_size",), 1.5, "check.batch_size is not"),
        (("status",), "PASSED", "check.status is not"),
        (("accuracy",), [], "check.accuracy is not"),
        (("accuracy", "drop"), "1", "check.accuracy.drop is not"),
        (("accuracy", "drop_ci"), [1.0, 2.0, 3.0], "check.accuracy.drop_ci is not"),
        (("accuracy", "drop_ci"), [1.0, None], r"check.accuracy.drop_ci\[1\] is not"),
        (("accuracy", "drop"), 10**400, "check"),
        (("coverage", "by_op"), {"Conv": 3}, r"check.coverage.by_op\[0\] is not"),
        (("accuracy", "by_class"), [[0, 182, 99.5]], r"check.accuracy.by_class\[0\] is not"),
        (("verdicts", 0, "reason"), 1, r"check.verdicts\[0\].reason is not"),
        (("cache", "engine"), None, "check.cache"),
        (("status",), "half a character: \ud800", "check is not"),
    ],
)
def test_a_wrong_field_is_named(path: tuple[str | int, ...], value: object, named: str) -> None:
    """The message says where, what is allowed, and the next step."""
    data: Any = to_json(a_record())
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(HistoryError, match=named) as caught:
        from_json(data)
    assert caught.value.fix == "import only files that pytest-quant wrote, unchanged"


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_NAMES = st.sampled_from(
    ["nodeid", "accuracy", "n", "coverage", "by_op", "by_output", "drop_ci", "latency", "verdicts"]
)


@given(st.recursive(_VALUES, lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner)))
def test_any_json_is_refused_without_another_error(data: object) -> None:
    """Any JSON may come along; a section may be anything too."""
    for document in (data, {**to_json(unavailable()), "accuracy": [data]}):
        with pytest.raises(HistoryError):
            from_json(document)


@pytest.mark.parametrize("allowed", [1, 1.0, 0.9999999])
def test_a_limit_comes_back_as_its_mark_has_it(allowed: float) -> None:
    """A message after reading writes what it wrote before."""
    verdict = Verdict("max_drop", allowed, 4.23, Status.FAIL, "too much")
    (result,) = from_json(json.loads(json.dumps(to_json(a_record(verdicts=(verdict,)))))).verdicts or ()
    assert repr(result.allowed) == repr(allowed)


def _types(value: Json) -> set[type]:
    children: list[Json] = []
    if isinstance(value, dict):
        children = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        children = value
    return {type(value)}.union(*(_types(child) for child in children))


_SCALARS = hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biuf" and dtype.itemsize <= 8)


@given(_SCALARS.flatmap(lambda dtype: hnp.arrays(dtype.newbyteorder("="), ())))
def test_a_numpy_scalar_becomes_the_number_it_holds(array: np.ndarray[Any, Any]) -> None:
    """Whether an array without axes or a scalar, numpy's own conversion gives the same."""
    expected = array.item()
    if isinstance(expected, float) and not math.isfinite(expected):
        expected = None
    for value in (array, array[()]):
        result = plain(value, "x")
        assert result == expected
        assert type(result) is type(expected)


def test_a_torch_scalar_becomes_the_number_it_holds() -> None:
    """Without this package importing torch."""
    assert plain(torch.tensor(0.5), "x") == 0.5


@pytest.mark.parametrize(
    "value",
    [np.zeros(2), np.array("2020-01-01", "datetime64[D]"), 1j, object(), {1, 2}, b"bytes", np.longdouble("0.1"), int],
)
def test_anything_else_is_a_clear_error(value: object) -> None:
    """The message names the figure and its type, and says what to return."""
    with pytest.raises(UsageError, match=r"accuracy\.drop") as caught:
        plain({"drop": value}, "accuracy")
    assert type(value).__name__ in str(caught.value)
    assert "float(value)" in str(caught.value)


_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(Status),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(_TREES)
def test_what_is_plain_survives_json(value: object) -> None:
    """JSON without NaN gives back the same, and only the seven exact types occur."""
    result = plain(value, "x")
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert _types(result) <= {type(None), bool, int, float, str, list, dict}


@pytest.mark.parametrize("interval", [Interval(math.nan, 1.0), Interval(0.0, math.inf)])
def test_half_an_interval_is_none(interval: Interval) -> None:
    """An interval without one of its ends tells nothing."""
    assert plain(interval, "x") is None


def test_subclasses_become_the_type_itself() -> None:
    """The transport of pytest-xdist refuses subclasses, which `json` would let through."""

    class Number(enum.IntEnum):
        ONE = 1

    assert _types(plain([Number.ONE, Status.FAIL, np.str_("a"), np.float64(0.5)], "x")) == {list, int, str, float}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_shipped_schema_is_the_generated_one(name: str) -> None:
    """A field that was added is described; otherwise run: python -m tests.json_schemas."""
    assert (PACKAGE / name).read_text("utf-8") == schema_text(*DOCUMENTS[name])


WRONG = {
    "precision": ("int7",),
    "scheme": ("guessed",),
    "batch_size": (0,),
    "threads": (0,),
    "calibration_samples": (-1,),
    "cache": ({"engine": "found", "reference": "hit"},),
    "accuracy.n": (-1,),
    "accuracy.confidence": (1,),
    "accuracy.agreement_pct": (100.5,),
    "accuracy.p_value": (1.5,),
    "accuracy.better": ("bigger",),
    "coverage.pct": (-1,),
    "coverage.not_quantizable": ({"Softmax": 101},),
    "latency.rounds": (-1,),
}


def test_a_value_that_cannot_be_is_not_described() -> None:
    """The schema says more than the types: bounds of counts and percentages, and lists of words."""
    schema = jsonschema.Draft202012Validator(schema_of(RunDocument))
    assert schema.is_valid(run_to_json(RUN, [a_record()]))
    for place, values in WRONG.items():
        for value in values:
            document: Any = copy.deepcopy(run_to_json(RUN, [a_record()]))
            *outer, last = place.split(".")
            section = document["checks"][0]
            for name in outer:
                section = section[name]
            section[last] = value
            assert not schema.is_valid(document), place
