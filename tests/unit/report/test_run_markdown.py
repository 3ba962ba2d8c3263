"""A run as a comment: the verdict first, then what is broken and why, and the rest folded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_quant.history.compare import compare, rule
from pytest_quant.record import Record
from pytest_quant.report.run_markdown import MARKER, Beside, Outcomes, run_markdown
from pytest_quant.result import Status, Verdict
from tests.unit.history.compare.launched import answered, answers, launch, record_of
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable


def _named(record: Record, number: int, name: str = "test_it") -> Record:
    return replace(record, nodeid=f"tests/test_it.py::{name}_{number}")


_BROKEN, _FINE, _ABSENT = _named(a_record(), 1), _named(a_pass(), 2), _named(unavailable(), 3)
_FAILED = Outcomes(failed=True, broken=frozenset([_BROKEN.nodeid]))


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_marker_and_the_verdict_come_first() -> None:
    """The same counts as in the terminal, behind a word that stands for the exit code."""
    lines = run_markdown(RUN, [_BROKEN, _FINE, _ABSENT], _FAILED).splitlines()
    assert lines[0] == MARKER == "<!-- pytest-quant comment -->"
    assert lines[1] == "**FAIL: 3 checks: 1 PASS, 1 UNAVAILABLE, 1 FAIL**"
    assert lines[3] == "commit c0ffeec0ffee (main), Some CPU"


def test_a_broken_limit_is_a_row_with_what_it_means() -> None:
    """Limit, allowed, observed, and one sentence; limits that hold and checks that pass are no rows."""
    (cells,) = _rows(run_markdown(RUN, [_BROKEN, _FINE], _FAILED))
    means = "the loss is real: chance alone would hardly give one like it"
    name = "tests/test_it.py::test_it_1 digits ort-int8-static"
    assert cells == ["**FAIL**", name, "max_drop", "1.0 pp", "4.23 pp", means]


def test_a_limit_without_a_sentence_says_its_reason() -> None:
    """As the verdict has it."""
    slow = Verdict("max_slowdown", 3, 7.5, Status.FAIL, "slowdown 7.50 % lies above 3 %")
    (cells,) = _rows(run_markdown(RUN, [replace(_BROKEN, verdicts=(slow,))], _FAILED))
    assert cells[2:] == ["max_slowdown", "3 %", "7.5 %", "slowdown 7.50 % lies above 3 %"]


def test_a_check_that_never_came_to_be_says_why() -> None:
    """The whole message on one line."""
    broken = replace(_ABSENT, status=Status.ERROR)
    (cells,) = _rows(run_markdown(RUN, [broken], Outcomes(failed=True, broken=frozenset([broken.nodeid]))))
    assert cells[0] == "**ERROR**"
    assert cells[3:5] == ["-", "-"]
    assert cells[5].startswith("backend 'ort-cuda' cannot run here: onnxruntime-gpu is not installed; next: ")


def test_a_test_that_fails_in_its_own_body_is_told() -> None:
    """Its record passed."""
    (cells,) = _rows(run_markdown(RUN, [_FINE], Outcomes(failed=True, broken=frozenset([_FINE.nodeid]))))
    assert cells[-1] == "the check passed, and the test itself failed"


def test_limits_that_fail_under_strict_only_are_rows_then() -> None:
    """A run that does not fail for them has no row."""
    open_limit = Verdict("max_drop", 1.0, 1.1, Status.INCONCLUSIVE, "too few samples")
    unsure = _named(a_record(status=Status.INCONCLUSIVE, verdicts=(open_limit,)), 1)
    lenient = run_markdown(RUN, [unsure], Outcomes())
    assert lenient.splitlines()[1] == "**INCONCLUSIVE: 1 check: 1 INCONCLUSIVE**"
    assert _rows(lenient) == []
    strict = run_markdown(RUN, [unsure], Outcomes(failed=True, broken=frozenset([unsure.nodeid])))
    assert strict.splitlines()[1] == "**FAIL: 1 check: 1 INCONCLUSIVE**"
    assert [cells[0] for cells in _rows(strict)] == ["**INCONCLUSIVE**"]


def test_the_word_agrees_with_the_exit_code() -> None:
    """Whatever fails the run: a check, a fault, a comparison, or a test without a mark."""
    assert run_markdown(RUN, [_FINE], Outcomes()).splitlines()[1] == "**PASS: 1 check: 1 PASS**"
    assert run_markdown(RUN, [_FINE, _ABSENT], Outcomes()).splitlines()[1].startswith("**UNAVAILABLE: 2 checks")
    others = run_markdown(RUN, [_FINE], Outcomes(failed=True)).splitlines()[1]
    assert others == "**FAIL: 1 check: 1 PASS; the run failed beside its checks**"
    fault = run_markdown(RUN, [_FINE], Outcomes(failed=True), faults=["--quant-json: /x cannot be written"])
    assert fault.splitlines()[1] == "**FAIL: 1 check: 1 PASS**"
    assert "- --quant-json: /x cannot be written" in fault.splitlines()
    assert run_markdown(None, [], Outcomes()).splitlines()[1] == "**PASS: no checks**"


def test_an_expected_failure_is_counted_as_one() -> None:
    """And is no row."""
    text = run_markdown(RUN, [_BROKEN], Outcomes(expected=frozenset([_BROKEN.nodeid])))
    assert text.splitlines()[1] == "**PASS: 1 check: 1 XFAIL**"
    assert _rows(text) == []


def test_the_rest_is_folded() -> None:
    """The screen of each failure, and the table of all checks with the lines below it."""
    text = run_markdown(RUN, [_BROKEN, _FINE, _ABSENT], _FAILED)
    assert re.search(r"<summary>\S+test_it_1 \S+ \S+: max_drop 4.23 > 1.0 pp</summary>", text)
    assert "1 of 2 limits broken" in text
    assert "<summary>3 checks: 1 PASS, 1 UNAVAILABLE, 1 FAIL</summary>" in text
    assert re.search(r"^test_it_2 .* PASS$", text, re.MULTILINE)
    assert "UNAVAILABLE: 1 check NOT RUN" in text
    assert text.index("| **FAIL**") < text.index("<details>")


def test_comparisons_stand_below_with_their_changed_rows() -> None:
    """Their headlines are in the verdict."""
    before, after = record_of("t.py::test_a", latency=False), record_of("t.py::test_a", latency=False)
    base, head = launch(answered(before, answers([]))), launch(answered(after, answers(range(20))), commit="head")
    found = compare(base, head)
    beside = Beside("base ba5e: merge base with main", found, rule(found))
    text = run_markdown(RUN, [_FINE], Outcomes(failed=True), [beside])
    assert re.fullmatch(r"\*\*FAIL: REGRESSION: 1 regression, .*; 1 check: 1 PASS\*\*", text.splitlines()[1])
    assert "base ba5e: merge base with main" in text.splitlines()
    assert [cells[0] for cells in _rows(text)] == ["**regression**"]
    assert "beside its checks" not in text
    both = run_markdown(RUN, [_BROKEN], _FAILED, [beside])
    assert both.splitlines()[1].startswith("**FAIL: 1 check: 1 FAIL; REGRESSION: 1 regression, ")


@pytest.mark.parametrize("tests", [1, 60, 600])
def test_it_stays_below_the_limit_of_a_comment(tests: int) -> None:
    """With a count of what is left out."""
    records = [_named(a_record(), number, "x" * 120) for number in range(tests)]
    text = run_markdown(RUN, records, Outcomes(failed=True, broken=frozenset(one.nodeid for one in records)))
    assert len(text) <= 60_000
    assert text.count("<details>") == text.count("</details>")
    left_out = sum(int(number) for number in re.findall(r"^(\d+) more are left out", text, re.MULTILINE))
    assert len(_rows(text)) + text.count("<details>") + left_out == 2 * tests + 1
    assert len(_rows(text)) >= min(tests, 80)


def test_no_name_becomes_a_command_or_a_tag() -> None:
    """Of a test, a branch, a message or a limit."""
    nasty = "::error::x\n##[error]y\n/merge\n<img src=x>|@team"
    verdict = Verdict(nasty, 1.0, 4.0, Status.FAIL, nasty)
    record = replace(a_record(verdicts=(verdict,)), nodeid=nasty, model=nasty, message=nasty)
    run = replace(RUN, branch=nasty, commit="/merge now")
    text = run_markdown(run, [record], Outcomes(failed=True, broken=frozenset([nasty])), faults=[nasty])
    folded = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "<img" not in folded
    assert "@team" not in folded
    for line in text.splitlines():
        assert not line.lstrip().startswith(("::", "/"))
        assert "##[" not in line
