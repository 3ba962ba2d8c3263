"""The JSON Schemas that are shipped are those of the types."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from pytest_quant.record import run_to_json
from tests.json_schemas import DOCUMENTS, PACKAGE, RunDocument, schema_of, schema_text
from tests.unit.record.examples import RUN, a_record

_DEFINITIONS: dict[str, Any] = schema_of(RunDocument)["$defs"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_shipped_schema_is_the_generated_one(name: str) -> None:
    """A field that was added is described; otherwise run: python -m tests.json_schemas."""
    assert (PACKAGE / name).read_text("utf-8") == schema_text(DOCUMENTS[name])


def test_a_field_has_the_words_of_its_docstring() -> None:
    """Of the entry that names it, on one line, with null as JSON calls it."""
    described = _DEFINITIONS["Coverage"]["properties"]
    assert described["pct"]["description"] == "0..100; null when nothing was eligible."


def test_rows_with_a_name_are_an_object_by_it() -> None:
    """And the row itself has the name no more."""
    by_op = _DEFINITIONS["Coverage"]["properties"]["by_op"]
    assert (by_op["type"], by_op["additionalProperties"]) == ("object", {"$ref": "#/$defs/OpCoverage"})
    assert "op_type" not in _DEFINITIONS["OpCoverage"]["properties"]


def test_a_row_that_is_a_list_has_its_names_as_titles() -> None:
    """In the order of the values, each with what it says."""
    items = _DEFINITIONS["ClassScore"]["prefixItems"]
    assert [item["title"] for item in items] == ["label", "n", "reference", "candidate"]
    assert items[2]["maximum"] == 100
    assert all("description" in item for item in items)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("precision",), "int7"),
        (("scheme",), "guessed"),
        (("batch_size",), 0),
        (("threads",), 0),
        (("calibration_samples",), -1),
        (("cache",), {"engine": "built"}),
        (("cache",), {"engine": "found", "reference": "hit"}),
        (("accuracy", "n"), -1),
        (("accuracy", "confidence"), 1),
        (("accuracy", "agreement_pct"), 100.5),
        (("accuracy", "p_value"), 1.5),
        (("accuracy", "better"), "bigger"),
        (("coverage", "pct"), -1),
        (("coverage", "not_quantizable"), {"Softmax": 101}),
        (("latency", "rounds"), -1),
    ],
)
def test_a_value_that_cannot_be_is_not_described(place: tuple[str, ...], value: object) -> None:
    """The schema says more than the types: bounds of counts and percentages, and lists of words."""
    document: Any = copy.deepcopy(run_to_json(RUN, [a_record()]))
    schema = jsonschema.Draft202012Validator(schema_of(RunDocument))
    assert schema.is_valid(document)
    *outer, last = place
    section = document["checks"][0]
    for name in outer:
        section = section[name]
    section[last] = value
    assert not schema.is_valid(document)
