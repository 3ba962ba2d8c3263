"""A test of the base that the head has no record of is called removed only where nothing else is known of it."""

from __future__ import annotations

import json
from dataclasses import replace
from shlex import split

import pytest

from pytest_quant.cli.accept import accept
from pytest_quant.history.baselines.acceptance import choose_series
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison, Word
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import Record, Run
from pytest_quant.report.comparison_text import comparison_json, fault, list_others, verdict
from pytest_quant.spec import SeriesKey
from tests.unit.history.compare.launched import key, launch, record_of
from tests.unit.record.examples import RUN

FILE = "tests/test_digits.py"
GONE, HERE = f"{FILE}::TestInt8::test_gone", f"{FILE}::test_here"
PLANNED = SeriesKey.parse(key(GONE)).planned


def lacking(run: Run, *, full_suite: bool = True, strict: bool = False) -> Comparison:
    """A base with two tests, and a head of that run with one of them."""
    head = [replace(check, run=run) for check in launch(record_of(HERE))]
    return compare(launch(record_of(GONE), record_of(HERE)), head, full_suite=full_suite, strict=strict)


def found(skipped: dict[str, str] | None = None, uncollected: dict[str, str] | None = None) -> Run:
    """A run of the head with these reasons."""
    return replace(RUN, id="head", commit="head", skipped=skipped or {}, uncollected=uncollected or {})


@pytest.mark.parametrize("where", [PLANNED, FILE, f"{FILE}::TestInt8", "tests", "."])
@pytest.mark.parametrize("full_suite", [True, False])
def test_what_was_skipped_is_named_with_its_reason(where: str, full_suite: bool) -> None:
    """Itself, its class, its file or a folder: it fails nothing, and nobody is told to accept that it is gone."""
    result = lacking(found(skipped={where: "no VNNI on this runner"}), full_suite=full_suite)
    assert (result.verdict, result.exit_code, fault(result)) == (Word.OK, 0, "")
    assert verdict(result).startswith("NO REGRESSION: 1 test skipped here, ")
    (listed,) = dict(list_others(result))["skipped here"]
    assert listed == f"{GONE} ort-int8-static  was PASS: no VNNI on this runner"
    assert '"skipped": "no VNNI on this runner"' in json.dumps(comparison_json(result)["removed"])


@pytest.mark.parametrize("where", [FILE, f"{FILE}::TestInt8", "tests", "."])
@pytest.mark.parametrize("full_suite", [True, False])
def test_what_cannot_be_collected_is_a_regression_of_its_own(where: str, full_suite: bool) -> None:
    """Also where a part of the suite was to run: this part was."""
    result = lacking(found(uncollected={where: "ModuleNotFoundError: No module named 'x'"}), full_suite=full_suite)
    assert (result.verdict, result.exit_code) == (Word.REGRESSION, 1)
    assert verdict(result).startswith("REGRESSION: 1 test not collected, ")
    assert fault(result) == "not collected: ModuleNotFoundError: No module named 'x'"


@pytest.mark.parametrize("where", ["tests/test_dig", "test_digits.py", f"{FILE}::TestInt", f"{FILE}::TestInt8::test"])
def test_what_something_else_says_is_no_reason(where: str) -> None:
    """Of another file, class or test whose name begins in the same way."""
    result = lacking(found(skipped={where: "x"}, uncollected={where: "x"}))
    assert verdict(result).startswith("REGRESSION: 1 test removed, ")


def test_another_engine_of_a_skipped_test_is_removed() -> None:
    """A mark's list that lost one, while the other is skipped here."""
    gone = replace(record_of(GONE), series=SeriesKey.parse(key(GONE))._replace(backend="openvino").text)
    head = [replace(check, run=found(skipped={PLANNED: "no VNNI"})) for check in launch(record_of(HERE))]
    result = compare(launch(record_of(GONE), gone, record_of(HERE)), head, full_suite=True)
    assert verdict(result).startswith("REGRESSION: 1 test removed, 1 test skipped here, ")


def test_a_new_test_is_not_a_skipped_one_under_another_name() -> None:
    """It has the same engine, and is none the less another."""
    new, run = record_of(f"{FILE}::test_new"), found(skipped={PLANNED: "no VNNI"})
    head = [replace(check, run=run) for check in launch(record_of(HERE), new)]
    result = compare(launch(record_of(GONE), record_of(HERE)), head, full_suite=True)
    assert ([each.nodeid for each in result.added], result.renamed) == ([new.nodeid], ())


def test_a_test_that_another_run_of_the_head_has_is_compared() -> None:
    """A runner without VNNI skips it, and another one does not."""
    head = [replace(check, run=found(skipped={PLANNED: "no VNNI"})) for check in launch(record_of(HERE))]
    result = compare(launch(record_of(GONE), record_of(HERE)), [*head, *launch(record_of(GONE), commit="head")])
    assert result.removed == ()


def test_under_strict_a_skipped_test_decides_nothing() -> None:
    """Exit code 3, also where the head has no record at all; without it there is nothing to compare."""
    run = found(skipped={PLANNED: "no VNNI"})
    assert (lacking(run, strict=True).verdict, lacking(run, strict=True).exit_code) == (Word.INCONCLUSIVE, 3)
    base = launch(record_of(GONE))
    assert compare(base, [], runs=[run], full_suite=True, strict=True).exit_code == 3
    assert verdict(compare(base, [], runs=[run], full_suite=True)) == "NOTHING TO COMPARE: 1 test skipped here"


def a_part(*records: Record, commit: str, partial: bool = True) -> list[StoredCheck]:
    """A run that pytest was given node ids for, or one of the whole suite."""
    run = replace(RUN, id=f"{commit}-{partial}", commit=commit, partial=partial)
    return [StoredCheck(run, record) for record in records]


def test_a_test_that_the_head_did_not_run_is_not_removed() -> None:
    """What its run says counts, unless the user says that it was all of the suite, or another run of it was."""
    base, here = launch(record_of(GONE), record_of(HERE)), record_of(HERE)
    head = a_part(here, commit="head")
    part = compare(base, head)
    assert (part.verdict, fault(part), part.notes) == (Word.OK, "", ("the head ran a part of the suite",))
    assert verdict(part).startswith("NO REGRESSION: 1 test not run here, ")
    assert dict(list_others(part))["not run here"] == [f"{GONE} ort-int8-static  was PASS"]
    for result in (
        compare(base, head, full_suite=True),
        compare(base, [*head, *a_part(here, commit="head", partial=False)]),
    ):
        assert verdict(result).startswith("REGRESSION: 1 test removed, ")
        assert result.notes == ()


def test_a_test_that_the_base_did_not_run_is_not_added() -> None:
    """It may be older; after another run of the base, of the whole suite, it is new."""
    kept, other = record_of(HERE), record_of(GONE)
    head, base = launch(kept, replace(other, backend="trt"), commit="head"), a_part(kept, commit="base")
    result = compare(base, head)
    assert verdict(result).endswith(", 1 test without a record in the base")
    assert "added" not in dict(list_others(result))
    assert result.notes == ("the base ran a part of the suite",)
    assert verdict(compare([*base, *a_part(kept, commit="base", partial=False)], head)).endswith(", 1 test added")


def test_a_test_that_the_head_did_not_run_has_no_other_name_there() -> None:
    """Another test of the same engine, which the base did not run, is not compared with it."""
    base, head = a_part(record_of(GONE), commit="base"), a_part(record_of(HERE), commit="head")
    result = compare(base, head)
    assert (result.renamed, result.rows) == ((), ())
    assert verdict(result) == (
        "NO REGRESSION: 1 test not run here, 1 test without a record in the base, no series that both have"
    )


def test_a_removal_that_was_accepted_is_not_that_of_a_partial_run() -> None:
    """Both are listed apart."""
    result = lacking(found())
    accepted = replace(result, removed=tuple(replace(each, accepted="replaced") for each in result.removed))
    assert "1 test removed (accepted)" in verdict(accepted)
    assert "partial" not in verdict(accepted)


@pytest.mark.parametrize("more", [0, 2])
def test_the_command_for_what_is_gone_takes_its_name(more: int) -> None:
    """As it is printed, but for the reason; of a test with blanks and quotes in its parameters too."""
    names = [f"{FILE}::test_gone[it's a; b]", *(f"{FILE}::test_gone{number}" for number in range(more))]
    result = compare(launch(*map(record_of, names), record_of(HERE)), launch(record_of(HERE)), full_suite=True)
    said = fault(result).partition("; if that is meant, for each: ")[2]
    assert said.startswith("pytest-quant accept ")
    given = accept.make_context("accept", split(said)[2:]).params
    assert (given["removed"], given["reason"]) == (True, "WHY")
    assert choose_series([key(name) for name in names], given["texts"]) == [key(names[0])]
