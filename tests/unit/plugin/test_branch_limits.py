"""Limits by branch: the first line that fits adds what a mark does not set, and every verdict names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.plugin.against import Against
from pytest_quant.plugin.branch_limits import BranchLimits, find_limits, read_lines
from pytest_quant.plugin.controller import Controller
from pytest_quant.plugin.settings import Settings
from pytest_quant.report.failure import failure
from pytest_quant.result import AccuracyResult, NoBaseline, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict import judge
from tests.integration.projects import run_project, write_project
from tests.support import models
from tests.support.repository import ScratchRepository, make_repository, without_ci
from tests.unit.record.examples import a_check, a_record, found

LINES = (
    "release/*   max_slowdown=3   max_drop_increase=0.2 against_limit=2",
    "main max_slowdown=5% max_p50_increase=10",
    "* max_drop_increase=0.5pp",
)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with one commit on ``main``, of which no CI knows."""
    without_ci(monkeypatch)
    made = make_repository(tmp_path)
    made.commit("1")
    return made


def test_lines_are_read() -> None:
    """Numbers as a mark has them, with their unit or without, and blanks as one likes."""
    release, main, others = read_lines(LINES)
    assert (release.pattern, release.against_limit_pct) == ("release/*", 2.0)
    assert release.limits == {"max_slowdown": 3, "max_drop_increase": 0.2}
    assert main.limits == {"max_slowdown": 5, "max_p50_increase": 10}
    assert (others.limits, others.against_limit_pct) == ({"max_drop_increase": 0.5}, None)
    assert release.text == "release/* max_slowdown=3 max_drop_increase=0.2 against_limit=2"


@pytest.mark.parametrize(
    ("branch", "pattern"), [("main", "main"), ("release/1.2", "release/*"), ("feature/x", "*"), ("mainly", "*")]
)
def test_the_first_line_counts_that_fits(scratch: ScratchRepository, branch: str, pattern: str) -> None:
    """The whole name, and that line only."""
    if branch != "main":
        scratch.git("checkout", "-b", branch)
    found = find_limits(LINES, scratch.path)
    assert found.branch == branch
    assert found.line is not None
    assert found.line.pattern == pattern


@pytest.mark.parametrize("variable", ["GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"])
def test_a_pull_request_is_judged_by_where_it_goes(
    scratch: ScratchRepository, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Not by the name of its own branch."""
    scratch.git("checkout", "-b", "feature/x")
    monkeypatch.setenv(variable, "release/2")
    assert find_limits(LINES, scratch.path).told().startswith("quant_branch_limits: release/* max_slowdown=3")


def test_that_no_line_holds_is_told(scratch: ScratchRepository, tmp_path: Path) -> None:
    """Because none fits, or because the branch is not known."""
    assert find_limits(["other max_slowdown=1"], scratch.path).told() == (
        "quant_branch_limits: no line is for the branch 'main'"
    )
    scratch.git("checkout", "--detach")
    assert find_limits(LINES, scratch.path).told() == (
        "quant_branch_limits: the branch is not known, so that no line holds"
    )


WRONG = [
    ("main", "there is no limit behind the pattern"),
    ("main max_drop=1", "there is no limit 'max_drop' for a branch"),
    ("main max_slowdwon=1", "did you mean 'max_slowdown'?"),
    ("main max_slowdown", "max_slowdown must be a number"),
    ("main max_slowdown=fast", "max_slowdown must be a number"),
    ("main max_slowdown=3ms", "max_slowdown is in %"),
    ("main max_slowdown=-1", "max_slowdown must be finite and at least 0"),
    ("main max_slowdown=1 max_slowdown=2", "max_slowdown stands there twice"),
    ("main against_limit=0", "against_limit: 0 is not a percentage above 0"),
    ("main \x1b[31m=1", "\\x1b[31m"),
]


@pytest.mark.parametrize(("line", "words"), WRONG)
def test_a_wrong_line_ends_the_run_before_it_begins(line: str, words: str) -> None:
    """It is quoted, and what is allowed is said."""
    with pytest.raises(pytest.UsageError) as caught:
        read_lines([line])
    assert words in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert str(caught.value).startswith("ini option quant_branch_limits, line '")


def test_a_wrong_line_is_a_usage_error_of_pytest(pytester: pytest.Pytester) -> None:
    """With its exit code."""
    pytester.makeini("[pytest]\nquant_branch_limits =\n    main max_slowdwon=1\n")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*quant_branch_limits, line 'main max_slowdwon=1'*", "*did you mean 'max_slowdown'*"])


def _limits(*lines: str) -> BranchLimits:
    return BranchLimits("main", read_lines(lines)[0])


def test_a_limit_of_the_mark_stays() -> None:
    """The stricter one and the looser one alike; what it does not set is added, with its line."""
    check = replace(a_check(), limits=Limits(max_slowdown=1.0))
    applied = _limits("main max_slowdown=9 max_drop_increase=0.5").applied(check, speed=True)
    assert (applied.limits.max_slowdown, applied.limits.max_drop_increase) == (1.0, 0.5)
    assert dict(applied.limit_sources) == {
        "max_drop_increase": "quant_branch_limits: main max_slowdown=9 max_drop_increase=0.5"
    }


def test_a_backend_without_a_speed_gets_no_limit_on_it() -> None:
    """A mark could not set one there either."""
    applied = _limits("main max_slowdown=9 max_drop_increase=0.5").applied(a_check(), speed=False)
    assert (applied.limits.max_slowdown, applied.limits.max_drop_increase) == (None, 0.5)


def test_no_line_changes_nothing() -> None:
    """Of a branch without one."""
    assert BranchLimits("x", None).applied(a_check(), speed=True) == a_check()


def test_the_verdict_names_the_line() -> None:
    """In the record, and on the screen of a failure; one of the mark names none."""
    source = "quant_branch_limits: main max_drop_increase=0.5"
    check = _limits("main max_drop_increase=0.5").applied(replace(a_check(), limits=Limits(max_drop=1.0)), speed=True)
    drop, increase = judge(found(check), NoBaseline("why"))
    assert (drop.limit, drop.source) == ("max_drop", "")
    assert (increase.limit, increase.status, increase.source) == ("max_drop_increase", Status.NO_BASELINE, source)
    text = " ".join(failure(a_record(check, verdicts=(drop, increase))).split())
    assert f"(set by {source})" in text
    assert text.count("set by") == 1


def test_a_check_without_a_score_is_not_held_to_one() -> None:
    """The setting is for all checks, and not all have a score; a mark that asks for one is told."""
    unscored = AccuracyResult(n=10)
    check = _limits("main max_drop_increase=0.5").applied(a_check(), speed=True)
    assert judge(found(check, accuracy=unscored)) == ()
    own = replace(a_check(), limits=Limits(max_drop_increase=0.5))
    (verdict,) = judge(found(own, accuracy=unscored))
    assert verdict.status is Status.INCONCLUSIVE


OPTION = "--quant-against-limit"
ORDER = [
    ((), "", "main max_slowdown=3", None, OPTION),
    ((), "quant_against_limit = 8\n", "main max_slowdown=3", 8.0, OPTION),
    ((), "quant_against_limit = 8\n", "main against_limit=2", 2.0, "quant_branch_limits: main against_limit=2"),
    ((f"{OPTION}=7",), "quant_against_limit = 8\n", "main against_limit=2", 7.0, OPTION),
]


@pytest.mark.parametrize(("args", "ini", "line", "expected", "named"), ORDER)
def test_the_limit_of_against_is_the_closest(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    ini: str,
    line: str,
    expected: float | None,
    named: str,
) -> None:
    """The command line, then the line of the branch, then the ini file; the report names it."""
    without_ci(monkeypatch)
    make_repository(pytester.path).commit("1")
    pytester.makeini(f"[pytest]\n{ini}quant_branch_limits =\n    {line}\n")
    config = pytester.parseconfig(*args)
    assert Settings.from_config(config).against_limit_pct == expected
    assert Against(config, Controller(config))._limit_option() == named


def test_a_run_says_which_line_holds(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line of its own, in the record, and in the comment; a new project has no baseline yet."""
    without_ci(monkeypatch)
    make_repository(pytester.path).commit("1")
    line = "main max_drop_increase=0.5"
    pytester.makeini(f"[pytest]\nquant_branch_limits =\n    {line}\n")
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    result, (check,) = run_project(pytester, "--quant-markdown=quant.md")
    told = f"quant_branch_limits: {line} (for the branch 'main', where a mark sets none)"
    result.stdout.fnmatch_lines([told.replace("[", "[[]")])
    (verdict,) = [one for one in check["verdicts"] if one["limit"] == "max_drop_increase"]
    assert (verdict["allowed"], verdict["source"]) == (0.5, f"quant_branch_limits: {line}")
    assert verdict["status"] == "NO_BASELINE"
    assert f"- {told}" in (pytester.path / "quant.md").read_text().splitlines()
