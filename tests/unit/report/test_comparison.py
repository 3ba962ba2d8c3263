"""A comparison as text, Markdown and JSON."""

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

from pytest_quant.history.compare import Comparison, compare, rule
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Json, Record
from pytest_quant.report.comparison_document import comparison_json
from pytest_quant.report.comparison_markdown import MARKER, comparison_markdown
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.report.markdown import MAX_CHARACTERS
from pytest_quant.result import Resources
from tests.unit.history.compare.launched import answered, answers, launch, launches, record_of, timed

_SCHEMA = json.loads(files("pytest_quant").joinpath("comparison_schema.json").read_text(encoding="utf-8"))
_A, _B, _C, _D = (f"tests/test_{name}.py::test_{name}" for name in "abcd")


def _record(nodeid: str, wrong: int = 0, model: str = "digits", ms: float = 0.5) -> Record:
    record = answered(record_of(nodeid, latency=True), answers(range(wrong)))
    return timed(replace(record, model=model), ms)


def _sides(hostile: str = "") -> tuple[list[StoredCheck], list[StoredCheck]]:
    """A regression, an unchanged test, one removed, one added, one renamed, one re-versioned."""
    base, head = [], []
    for index, noise in enumerate((1.0, 1.001, 0.999, 1.002, 0.998)):
        kept = _record(_A + hostile, ms=0.5 * noise)
        base += launch(
            kept, _record(_B, model="b"), _record(_C, model="c"), _record(_D, model="d"), run=str(index), commit="ba5e"
        )
        changed = replace(_record(_A + hostile, 20, ms=0.6 * noise), calibration="entropy" + hostile)
        other = replace(_record(_D, model="d"), digests={"data": "new"})
        head += launch(
            changed, _record("tests/test_new_name.py::test_b", model="b"), other, _record("tests/x.py::new", model="x"),
            run=str(index), commit="4ead",
        )  # fmt: skip
    return base, head


def _story(hostile: str = "") -> Comparison:
    return compare(*_sides(hostile))


def _text(comparison: Comparison, width: int, color: bool = False) -> str:
    return comparison_text(comparison, rule(comparison, full_suite=True), width, color)


def _markdown(comparison: Comparison) -> str:
    return comparison_markdown(comparison, rule(comparison, full_suite=True))


def _json(comparison: Comparison) -> dict[str, Json]:
    return comparison_json(comparison, rule(comparison, full_suite=True))


def test_the_verdict_comes_first() -> None:
    """Which commits, with how many launches, and what came out."""
    lines = _text(_story(), 120).splitlines()
    assert lines[0] == "ba5e (main, 5 launches) -> 4ead (main, 5 launches)"
    assert lines[1].startswith("REGRESSION: 3 regressions, ")
    for word in ("1 test added", "1 test removed", "1 test renamed", "accuracy of 1 test NOT COMPARED"):
        assert word in lines[1]


def test_changed_rows_have_their_figures_and_what_differs() -> None:
    """Base, head, change, interval, p, counts, which side moved, and the calibration beside it."""
    text = _text(_story(), 120)
    assert re.search(r"regression +accuracy +100\.00 -> 95\.00 % +-5\.00 \[-\d\.\d\d, -\d\.\d\d\] pp +\S+e-", text)
    assert "20 lost, 0 won of 400 samples" in text
    assert re.search(r"regression +speedup +x2 -> x1\.667 +-16\.67 \[", text)
    assert "p50 of candidate +20.00 %, reference 0.00 %; moved: candidate; 5 -> 5 launches" in text
    assert text.count("differs: calibration minmax -> entropy") == 1


def test_rows_that_did_not_change_are_one_line() -> None:
    """Counted by quantity; their test is not named."""
    found = _story()
    unchanged = sum(row.outcome.value == "unchanged" for row in found.rows)
    (line,) = (line for line in _text(found, 200).splitlines() if " unchanged: " in line and "status" in line)
    assert line.startswith(f"{unchanged} unchanged: ")


def test_every_list_is_shown() -> None:
    """Added, removed, renamed and re-versioned tests by their names."""
    text = _text(_story(), 200)
    assert f"renamed (1):\n    {_B} -> tests/test_new_name.py::test_b" in text
    assert f"removed (1):\n    {_C}" in text
    assert "added (1):\n    tests/x.py::new" in text
    assert f"accuracy NOT COMPARED (1):\n    {_D}" in text
    assert "other evaluation data" in text


def test_rows_that_could_not_be_told_share_their_reason() -> None:
    """Forty tests with one launch a side are one list of ten with a count, not forty reasons."""
    records = [_record(f"tests/test_x.py::test_{index}") for index in range(40)]
    text = _text(compare(launch(*records), launch(*records, commit="head")), 120)
    assert text.count("are needed to judge") == 1
    assert "(40):" in text
    assert "and 30 more" in text


def test_no_baseline_says_so() -> None:
    """A base without records."""
    found = compare([], _sides()[1])
    assert _text(found, 100).splitlines()[1] == "NO BASELINE"
    assert _json(found)["verdict"] == "no_baseline"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    """Every figure is there all the same."""
    text = _text(_story(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for figure in ("100.00 -> 95.00 %", "x2 -> x1.667", "candidate"):
        assert figure in text


_HOSTILE = "\x1b[31m\u202e|`<img src=x onerror=alert(1)>`| @team #1 [a](javascript:x) **b** -->\r\n"


@pytest.mark.parametrize("color", [False, True])
def test_no_name_reaches_the_terminal_as_a_command(color: bool) -> None:
    """Our own colours are all there is."""
    text = _text(_story(_HOSTILE), 100, color)
    ours = re.sub(r"\x1b\[[0-9;]*m", "", text) if color else text
    assert all(char.isprintable() or char == "\n" for char in ours)
    assert (re.search(r"\x1b\[1;31mregression\x1b", text) is not None) is color
    assert "\\x1b[31m\\u202e" in text.replace("\n", "").replace(" ", "")


def test_no_name_becomes_markup() -> None:
    """No tag, link, mention, reference or cell of a table comes from a name."""
    text = _markdown(_story(_HOSTILE))
    assert "<img" not in text
    assert "@team" not in text
    assert "#1 " not in text
    assert "](" not in text
    assert set(re.findall(r"<[^>]*>", text)) <= {MARKER, "<br>", "<details>", "<summary>", "</summary>", "</details>"}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {5}


def test_markdown_has_the_marker_then_the_verdict() -> None:
    """The marker finds the comment again; unchanged rows are folded."""
    lines = _markdown(_story()).splitlines()
    assert lines[0] == MARKER == "<!-- pytest-quant compare -->"
    assert lines[1].startswith("**REGRESSION: 3 regressions")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(_story().changed)
    assert lines.count("</details>") == sum(line.startswith("<details>") for line in lines) >= 5


@pytest.mark.parametrize("tests", [0, 3, 400, 3000])
def test_markdown_stays_below_the_limit_of_a_comment(tests: int) -> None:
    """Rows that do not fit are counted, and no list is left open."""
    before = [
        replace(record_of(f"tests/{'x' * 150}.py::test_{i}"), resources=Resources(size_mb=1.0)) for i in range(tests)
    ]
    after = [replace(one, resources=Resources(size_mb=2.0)) for one in before]
    text = _markdown(compare(launch(*before), launch(*after, commit="head")))
    assert len(text) <= MAX_CHARACTERS
    assert text.count("<details>") == text.count("</details>")
    shown = text.count("**regression**")
    left_out = re.search(r"(\d+) more are left out", text)
    assert shown + (int(left_out[1]) if left_out else 0) == tests


def test_json_is_what_its_schema_says() -> None:
    """Every field of every list, with and without a base."""
    Draft202012Validator.check_schema(_SCHEMA)
    for found in (_story(), _story(_HOSTILE), compare([], []), compare([], _sides()[1])):
        document = json.loads(json.dumps(_json(found), allow_nan=False))
        Draft202012Validator(_SCHEMA).validate(document)


def test_json_has_every_row() -> None:
    """Unchanged ones too; an interval is a list of two."""
    found = _story()
    document = _json(found)
    rows = document["rows"]
    assert isinstance(rows, list)
    assert len(rows) == len(found.rows)
    assert document["verdict"] == "regression"
    (first,) = (one for one in rows if isinstance(one, dict) and one["quantity"] == "accuracy" and one["lost"])
    assert (first["base"], first["head"], first["lost"], first["won"]) == (100.0, 95.0, 20, 0)
    assert isinstance(first["interval"], list)
    assert len(first["interval"]) == 2


@settings(max_examples=25)
@given(st.text(max_size=60), st.integers(30, 160))
def test_any_name_can_be_rendered(name: str, width: int) -> None:
    """Each form is made, within its bounds, whatever a test is called."""
    found = _story(name.encode("utf-8", "replace").decode())
    assert all(char.isprintable() or char == "\n" for char in _text(found, width))
    assert len(_markdown(found)) <= MAX_CHARACTERS
    json.dumps(_json(found), allow_nan=False)


def test_advisory_rows_say_so() -> None:
    """In the place of a p value."""
    base, head = [_record(_A)], [_record(_A, ms=0.8)]
    text = _text(compare(launches(base), launches(head, commit="head")), 120)
    assert re.search(r"worse +speedup .* advisory", text)
    assert "NO REGRESSION: 1 worse that does not gate" in text


def test_a_digest_is_told_in_words() -> None:
    """What changed has a name, and no row of letters; one that only one side recorded is no change."""
    base = replace(_record(_A), resources=Resources(size_mb=1.0), digests={"model": "a" * 64, "data": "1"})
    head = replace(base, resources=Resources(size_mb=2.0), digests={"model": "b" * 64, "data": "1", "engine": "c" * 64})
    text = _text(compare(launch(base), launch(head, commit="head")), 200)
    assert "differs: model file changed; engine not recorded at the base" in text
    assert not re.search(r"[abc]{8}", text)
