"""``pytest-quant compare`` finds both sides, and its exit code says what came out; ``report`` makes a page of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.record import Record, build_failed_record
from pytest_quant.result import Hint, Status
from pytest_quant.spec import Model
from tests.support.pages import figures_of, ladder, rich_record, words_of
from tests.support.repository import ScratchRepository, make_branches, without_ci
from tests.unit.record.examples import RUN, a_check, a_pass, a_record, unavailable


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """``main`` with two commits, and ``topic`` one ahead of the second, checked out."""
    without_ci(monkeypatch)
    repository = make_branches(tmp_path / "project", shared=2)
    monkeypatch.chdir(repository.path)
    return repository


def _add(scratch: ScratchRepository, revision: str, records: list[Record], *, dirty: bool = False) -> str:
    commit = scratch.git("rev-parse", revision)
    store = open_store(scratch.path / ".quant" / "history.db")
    number = len(store.runs())
    run = replace(
        RUN,
        id=f"20260102T03040{number}Z-x",
        started_at=f"2026-01-02T03:04:0{number}+00:00",
        commit=commit,
        dirty=dirty,
        tree=None if dirty else scratch.git("rev-parse", f"{revision}^{{tree}}"),
    )
    store.append(run, records)
    return run.id


def _bigger() -> Record:
    record = a_pass()
    assert record.resources is not None
    return replace(record, resources=replace(record.resources, size_mb=1.0))


def _compare(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["compare", *arguments], catch_exceptions=False)


def test_the_base_is_the_merge_base(scratch: ScratchRepository) -> None:
    """Both sides are told, and a comparison without a change exits with 0."""
    fork, tip = (scratch.git("rev-parse", name) for name in ("main", "topic"))
    _add(scratch, "main", [a_pass()])
    _add(scratch, "topic", [a_pass()])
    done = _compare()
    base, head = done.stdout.splitlines()[:2]
    assert base == f"base {fork[:12]}: merge base with main"
    assert head == f"head HEAD ({tip[:12]}): 1 record of 1 run"
    assert "unchanged" in done.stdout
    assert done.exit_code == 0


def test_a_removed_test_fails_unless_it_was_accepted(scratch: ScratchRepository) -> None:
    """Under --partial it does not, and neither when somebody said that it should be gone."""
    _add(scratch, "main", [a_pass(), a_record(a_check(backend="trt"))])
    _add(scratch, "topic", [a_pass()])
    assert _compare().exit_code == 1
    assert _compare("--partial").exit_code == 0
    accepted = ["accept", "--removed", "--series", "trt-int8", "--reason", "replaced"]
    CliRunner().invoke(commands, accepted, catch_exceptions=False)
    assert _compare().exit_code == 0


def test_an_empty_commit_is_compared_with_its_own_runs(scratch: ScratchRepository) -> None:
    """Base and head have one content: each has its own runs, and one without any has those of the other."""
    _add(scratch, "topic", [a_pass()])
    scratch.git("commit", "--allow-empty", "-m", "empty")
    done = _compare("HEAD~1")
    assert done.exit_code == 0
    assert "NO REGRESSION" in done.stdout
    _add(scratch, "topic", [a_record()])
    assert _compare("HEAD~1").exit_code == 1


def test_json_is_one_document(scratch: ScratchRepository) -> None:
    """What both sides are goes to stderr; Markdown begins with the marker by which a job finds its comment."""
    _add(scratch, "main", [a_pass()])
    _add(scratch, "topic", [_bigger()])
    done = _compare("--json")
    document = json.loads(done.stdout)
    assert document["base"]["commit"] == scratch.git("rev-parse", "main")
    assert [row["quantity"] for row in document["rows"] if row["outcome"] == "changed" or row["change"]] == ["size"]
    assert done.stderr.startswith("base ")
    assert _compare("--markdown").stdout.startswith("<!--")
    assert json.loads(_compare("--markdown", "--json").stdout) == document


def test_revisions_can_be_named(scratch: ScratchRepository) -> None:
    """Base alone, or both, as two words or one."""
    _add(scratch, "main~1", [a_pass()])
    _add(scratch, "main", [a_pass()])
    _add(scratch, "topic", [a_record()])
    scratch.git("tag", "v1", "main~1")
    assert f"base {scratch.git('rev-parse', 'v1')[:12]}: v1" in _compare("v1").stdout
    done = _compare("v1", "main")
    assert f"head main ({scratch.git('rev-parse', 'main')[:12]})" in done.stdout
    assert done.exit_code == 0
    assert _compare("v1..main").stdout == done.stdout
    assert _compare("v1..").stdout == _compare("v1").stdout
    with pytest.raises(UsageError, match="more than two revisions"):
        _compare("v1..main", "topic")


def test_runs_can_be_named_without_a_repository(
    scratch: ScratchRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the beginning of their ids."""
    first, second = _add(scratch, "main", [a_pass()]), _add(scratch, "topic", [a_record()], dirty=True)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (scratch.path / ".quant").rename(tmp_path / ".quant")
    monkeypatch.chdir(tmp_path)
    done = _compare(first, second)
    assert done.exit_code == 1
    assert f"base run {first}" in done.stdout
    assert "changes that were not committed" in done.stdout
    with pytest.raises(UsageError, match="git knows no repository"):
        _compare()


def test_a_dirty_run_is_a_head_and_never_a_base(scratch: ScratchRepository) -> None:
    """It is labelled, and compared with the clean records of its own commit where that is on the target branch."""
    scratch.git("checkout", "main")
    _add(scratch, "main", [a_pass()], dirty=True)
    done = _compare()
    assert "no base" in done.stdout
    assert "changes that were not committed" in done.stdout
    scratch.git("checkout", "topic")
    with pytest.raises(UsageError, match="there are no records of HEAD"):
        _compare()
    _add(scratch, "topic", [a_pass()])
    assert "no base" in _compare().stdout
    _add(scratch, "main", [a_pass()])
    assert "base " + scratch.git("rev-parse", "main")[:12] in _compare().stdout
    newest = _add(scratch, "topic", [a_record()], dirty=True)
    assert f"1 record of 1 run; left out: 1 newer, with uncommitted changes, the last {newest}\n" in _compare().stdout


def test_the_comment_opens_on_what_changed_and_says_why(
    scratch: ScratchRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then broken limits with what to try, errors with their text; the run of CI and its page are one click away."""
    monkeypatch.setenv("CI_PIPELINE_URL", "https://host/me/-/pipelines/8")
    monkeypatch.setenv("CI_JOB_URL", "https://host/me/-/jobs/9")
    other = replace(a_check(), nodeid="tests/test_b.py::test_b", series_nodeid="tests/test_b.py::test_b")
    unnamed = replace(other, candidate=replace(other.candidate, model=Model("quant_model")))
    error = build_failed_record(unnamed, status=Status.ERROR, message="quant_model raised: no such file").record
    hint = Hint("drop 4.23 -> 0.50 pp", "exclude=['/conv1']", "max_drop", 4.23, 0.5)
    _add(scratch, "main", [a_pass(), a_record(other, verdicts=(), status=Status.PASS)])
    _add(scratch, "topic", [replace(a_record(), hints=(hint,)), error])
    done = _compare("--markdown")
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[1][:24]) == (1, "**FAIL: REGRESSION: 3 re")
    assert lines[1].endswith("; 2 checks: 1 FAIL, 1 ERROR**")
    assert "(https://host/me/-/pipelines/8)" in lines[3]
    changed, limits = (next(n for n, line in enumerate(lines) if text in line) for text in ("base →", "what to try"))
    assert changed < limits
    (broken,) = [line for line in lines[limits:] if "| max_drop | 1.0 pp | 4.23 pp |" in line]
    assert broken.split("<br>")[1].startswith("try exclude=")
    (failed,) = [line for line in lines[limits:] if line.startswith("| **ERROR** | tests/test_b.py::test_b")]
    assert "quant_model raised: no such file" in failed
    assert "removed" not in done.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without git, whose history has two runs."""
    store = open_store(tmp_path / ".quant" / "history.db")
    store.append(RUN, [a_pass()])
    later = replace(RUN, id="20260203T000000Z-bb", started_at="2026-02-03T00:00:00+00:00", branch="topic")
    store.append(later, [rich_record(), unavailable(), *ladder()])
    monkeypatch.chdir(tmp_path)
    without_ci(monkeypatch)
    return tmp_path


def _report(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["report", *arguments], catch_exceptions=False)


def test_without_a_name_the_last_run_is_shown(project: Path) -> None:
    """The file has a name; there is no base without git, and the page says so."""
    assert _report().stdout.endswith("written: quant-report.html\n")
    said = _report("-o", "deep/out.html").stdout
    assert "20260203T000000Z-bb" in said
    assert said.splitlines()[-1] == "written: deep/out.html"
    html = (project / "deep" / "out.html").read_text("utf-8")
    assert "topic" in words_of(html)
    assert "There is no base to compare with" in words_of(html)
    assert {each.check for each in figures_of(html)} >= {0, 2}


@pytest.mark.parametrize("words", [(f"{RUN.id[:12]}..20260203T0",), (RUN.id[:12], "20260203T0")])
def test_two_runs_are_compared(project: Path, words: tuple[str, ...]) -> None:
    """The first is the base; figures of the comparison are those of both records."""
    _report(*words, "-o", "page.html")
    html = (project / "page.html").read_text("utf-8")
    assert "There is no base" not in words_of(html)
    assert "(main, 1 run)" in words_of(html)
    assert "(topic, 1 run)" in words_of(html)


def test_what_cannot_be_drawn_is_told(project: Path) -> None:
    """Nothing is written."""
    with pytest.raises(UsageError, match="there is no run"):
        _report("20250101T0000", "-o", "out.html")
    assert {file.name for file in project.iterdir()} == {".quant"}


def test_a_place_that_cannot_be_written_is_told(project: Path) -> None:
    """With the next step."""
    (project / "file").touch()
    with pytest.raises(UsageError, match=r"the page .* cannot be written") as caught:
        _report("-o", "file/page.html")
    assert "writable folder" in (caught.value.fix or "")
