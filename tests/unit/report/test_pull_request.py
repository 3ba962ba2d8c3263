"""A run as a comment: its word agrees with the exit code, it is never too long, and nothing in it acts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_quant.record import Record
from pytest_quant.report.pull_request import Outcomes, run_comment
from pytest_quant.result import Status, Verdict
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable


def _named(record: Record, number: int, name: str = "test_it") -> Record:
    return replace(record, nodeid=f"tests/test_it.py::{name}_{number}")


_FINE, _ABSENT = _named(a_pass(), 2), _named(unavailable(), 3)


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_limits_that_fail_under_strict_only_are_rows_then() -> None:
    """A run that does not fail for them has no row."""
    open_limit = Verdict("max_drop", 1.0, 1.1, Status.INCONCLUSIVE, "too few samples")
    unsure = _named(a_record(status=Status.INCONCLUSIVE, verdicts=(open_limit,)), 1)
    lenient = run_comment(RUN, [unsure], Outcomes())
    assert lenient.splitlines()[1] == "**INCONCLUSIVE: 1 check: 1 INCONCLUSIVE**"
    assert _rows(lenient) == []
    strict = run_comment(RUN, [unsure], Outcomes(failed=True, broken=frozenset([unsure.nodeid])))
    assert strict.splitlines()[1] == "**FAIL: 1 check: 1 INCONCLUSIVE**"
    assert [cells[0] for cells in _rows(strict)] == ["**INCONCLUSIVE**"]


def test_the_word_agrees_with_the_exit_code() -> None:
    """Whatever fails the run: a check, a fault, a comparison, or a test without a mark."""
    assert run_comment(RUN, [_FINE], Outcomes()).splitlines()[1] == "**PASS: 1 check: 1 PASS**"
    assert run_comment(RUN, [_FINE, _ABSENT], Outcomes()).splitlines()[1].startswith("**UNAVAILABLE: 2 checks")
    others = run_comment(RUN, [_FINE], Outcomes(failed=True)).splitlines()[1]
    assert others == "**FAIL: 1 check: 1 PASS; pytest failed for another reason than a check**"
    fault = run_comment(RUN, [_FINE], Outcomes(failed=True), faults=["--quant-json: /x cannot be written"])
    assert fault.splitlines()[1] == "**FAIL: 1 check: 1 PASS**"
    assert "- --quant-json: /x cannot be written" in fault.splitlines()


@pytest.mark.parametrize("tests", [1, 60, 600])
def test_it_stays_below_the_limit_of_a_comment(tests: int) -> None:
    """With a count of what is left out."""
    records = [_named(a_record(), number, "x" * 120) for number in range(tests)]
    text = run_comment(RUN, records, Outcomes(failed=True, broken=frozenset(record.nodeid for record in records)))
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
    text = run_comment(run, [record], Outcomes(failed=True, broken=frozenset([nasty])), faults=[nasty])
    folded = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "<img" not in folded
    assert "@team" not in folded
    for line in text.splitlines():
        assert not line.lstrip().startswith(("::", "/"))
        assert "##[" not in line
