"""A comparison as text, comment and JSON, within their bounds whatever a test is called; see ``screens`` too."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from rich.cells import cell_len

from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Difference, Word
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.shards import Unreported
from pytest_quant.report.comparison_text import comparison_json, comparison_text, describe_differences, fault, verdict
from pytest_quant.report.pull_request import MARKER, MAX_CHARACTERS, run_comment
from pytest_quant.result import Resources
from tests.screens import regression, two_sides
from tests.unit.history.compare.launched import launch, record_of

_SCHEMA = json.loads(files("pytest_quant").joinpath("comparison_schema.json").read_text(encoding="utf-8"))
_NODES = ", ".join(f"node_{number}" for number in range(30))
_HOSTILE = "\x1b[31m\u202e|`<img src=x onerror=alert(1)>`| @team #1 [a](javascript:x) **b** -->\r\n"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    """Every figure is there all the same."""
    text = comparison_text(regression(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for figure in ("100.00 -> 95.00 %", "x2 -> x1.667", "candidate"):
        assert figure in text


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        (None, "fc1", "exclude none -> fc1"),
        ("fc1", "fc1, fc2", "exclude fc1 -> fc1, fc2"),
        (_NODES, _NODES + ", tail", "exclude node_0, no...28, node_29 -> node_0, no...de_29, tail"),
        (_NODES, _NODES.replace("14", "xx"), "exclude ... 3, node_14...28, node_29 -> ... 3, node_xx...28, node_29"),
        (_NODES, _NODES.replace("0", "x", 1), "exclude node_0, no...28, node_29 -> node_x, no...28, node_29"),
    ],
)
def test_two_long_values_are_shown_where_they_differ(base: str | None, head: str, shown: str) -> None:
    """Of a list of nodes the middle is left out, and one node more there would read as no change."""
    assert describe_differences([Difference("exclude", base, head)]) == shown


@pytest.mark.parametrize("color", [False, True])
def test_no_name_reaches_the_terminal_as_a_command(color: bool) -> None:
    """Our own colours are all there is."""
    text = comparison_text(regression(_HOSTILE), 100, color)
    ours = re.sub(r"\x1b\[[0-9;]*m", "", text) if color else text
    assert all(char.isprintable() or char == "\n" for char in ours)
    assert (re.search(r"\x1b\[31m\x1b\[1mregression\x1b", text) is not None) is color
    assert "\\x1b[31m\\u202e" in text.replace("\n", "").replace(" ", "")


def test_no_name_becomes_markup() -> None:
    """No tag, link, mention, reference or cell of a table comes from a name."""
    text = run_comment(None, [], compared=[regression(_HOSTILE)])
    assert "<img" not in text
    assert "@team" not in text
    assert "#1 " not in text
    assert "](" not in text
    assert set(re.findall(r"<[^>]*>", text)) <= {MARKER, "<br>", "<details>", "<summary>", "</summary>", "</details>"}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {5}


def test_what_never_reported_is_named_and_not_called_removed() -> None:
    """In the verdict, in the list of the terminal, and at the top of the comment, which fails."""
    kept, lost, gone = (record_of(f"test_{name}") for name in ("kept", "lost", "gone"))
    missing = Unreported(("3/8",), ("test_lost", "test_new"))
    result = compare(launch(kept, lost, gone), launch(kept, commit="head"), full_suite=True, unreported=missing)
    assert (result.verdict, result.exit_code) == (Word.REGRESSION, 1)
    assert [listed.nodeid for listed in result.missing] == ["test_gone"]
    text = comparison_text(result, 100)
    assert "REGRESSION: shard 3/8 and 2 tests never reported; 1 test removed" in text
    assert "never reported (2):\n    test_lost\n    test_new" in text
    comment = run_comment(None, [], failed=True, compared=[result])
    assert comment.splitlines()[1].startswith("**FAIL: ")
    assert "- never reported: test_lost\n- never reported: test_new" in comment
    shards = run_comment(None, [], failed=True, compared=[replace(result, removed=())])
    assert "- shard 3/8 and 2 tests never reported\n" in shards
    assert fault(result).startswith("shard 3/8 and 2 tests never reported; 1 test of the base")
    Draft202012Validator(_SCHEMA).validate(comparison_json(result))
    only = compare(launch(kept), launch(kept, commit="head"), full_suite=True, unreported=Unreported(("1/2", "2/2")))
    assert verdict(only).startswith("REGRESSION: shards 1/2, 2/2 never reported; ")
    assert only.exit_code == 1
    assert verdict(compare((), (), full_suite=True)) == "NOTHING TO COMPARE"


@pytest.mark.parametrize("tests", [0, 3, 400, 3000])
def test_a_comment_stays_below_its_limit(tests: int) -> None:
    """Rows that do not fit are counted, and no list is left open."""
    before = [
        replace(record_of(f"tests/{'x' * 150}.py::test_{i}"), resources=Resources(size_mb=1.0)) for i in range(tests)
    ]
    after = [replace(each, resources=Resources(size_mb=2.0)) for each in before]
    result = compare(launch(*before), launch(*after, commit="head"), full_suite=True)
    text = run_comment(None, [], compared=[result])
    assert len(text) <= MAX_CHARACTERS
    assert text.count("<details>") == text.count("</details>")
    shown = text.count("**regression**")
    left_out = re.search(r"(\d+) more are left out", text)
    # The list of what is unchanged is one more.
    assert shown + (int(left_out[1]) - 1 if left_out else 0) == tests


def test_json_is_what_its_schema_says() -> None:
    """Every field of every list, with and without a base."""
    Draft202012Validator.check_schema(_SCHEMA)
    empty: list[StoredCheck] = []
    sides = (two_sides(), two_sides(_HOSTILE), (empty, empty), (empty, two_sides()[1]))
    for result in (compare(*both) for both in sides):
        document = json.loads(json.dumps(comparison_json(result), allow_nan=False))
        Draft202012Validator(_SCHEMA).validate(document)
        assert len(document["rows"]) == len(result.rows)


@settings(max_examples=25)
@given(st.text(max_size=60), st.integers(30, 160))
def test_any_name_can_be_rendered(name: str, width: int) -> None:
    """Each form is made, within its bounds, whatever a test is called."""
    result = regression(name.encode("utf-8", "replace").decode())
    assert all(char.isprintable() or char == "\n" for char in comparison_text(result, width))
    assert len(run_comment(None, [], compared=[result])) <= MAX_CHARACTERS
    json.dumps(comparison_json(result), allow_nan=False)
