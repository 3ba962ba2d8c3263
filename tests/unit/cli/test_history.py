"""``pytest-quant history`` of runs, of series and of changes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run, run_from_json
from tests.unit.record.examples import ACCURACY, RUN, a_check, a_pass, a_record, unavailable

_SCORES = (97.5, 97.5, 97.5, 97.5, 95.0, 95.0, 95.0)
_DYNAMIC = a_check(scheme="dynamic")


def _day(number: int, branch: str = "main") -> Run:
    started = f"2026-01-{number + 1:02}T00:00:00+00:00"
    return replace(RUN, id=f"run-{branch}-{number}", started_at=started, commit=f"{number:040x}", branch=branch)


def _scored(score: float) -> Record:
    return a_record(accuracy=replace(ACCURACY, candidate=score, drop=97.78 - score))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Seven commits on main that lose 2.5 points at the fifth, one on another branch, and two series."""
    store = open_store(tmp_path / ".quant" / "history.db")
    for number, score in enumerate(_SCORES):
        store.append(_day(number), [_scored(score), a_record(_DYNAMIC)])
    store.append(_day(9, "top\x1b[31mic"), [_scored(50.0)])
    monkeypatch.chdir(tmp_path)
    return store


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["history", *arguments], catch_exceptions=False)


def test_series_are_listed(store: Store) -> None:
    """With their points and their newest run."""
    head, *lines = _run("--series").stdout.splitlines()
    assert head.split() == ["newest", "points", "series"]
    assert len(lines) == 2
    assert any("8 points" in line and "ort-int8-static" in line and "2026-01-10" in line for line in lines)
    assert any("7 points" in line and "ort-int8-dynamic" in line for line in lines)
    listed = [json.loads(line) for line in _run("--series", "--json").stdout.splitlines()]
    assert {each["key"] for each in listed} == {each.key for each in store.series()}


def test_a_series_is_a_table(store: Store) -> None:
    """One row for each point, oldest first."""
    lines = _run("digits static", "--branch", "main").stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("2026-")]
    assert [row[0][:10] for row in rows] == [f"2026-01-0{number}" for number in range(1, 8)]
    assert [row[6] for row in rows] == ["97.50"] * 4 + ["95.00"] * 3


def test_last_branch_and_since_choose_points(store: Store) -> None:
    """The newest ones, of one branch, from one day on."""

    def days(*options: str) -> list[str]:
        return [line[8:10] for line in _run("static", *options).stdout.splitlines() if line.startswith("2026-")]

    assert days("--last", "2") == ["07", "10"]
    assert days("--branch", "main", "--last", "2") == ["06", "07"]
    assert days("--since", "2026-01-06") == ["06", "07", "10"]
    assert days("--branch", "none") == []


def test_json_has_every_column(store: Store) -> None:
    """One document with the points, oldest first."""
    document = json.loads(_run("static", "--branch", "main", "--json").stdout)
    assert document["engine_id"] == "ort-int8-static"
    assert [point["candidate"] for point in document["points"]] == list(_SCORES)
    assert document["points"][0]["status"] == "FAIL"


def test_a_key_is_a_name_too(store: Store) -> None:
    """And so is the beginning of a run's id, for the run."""
    key = store.series()[0].key
    assert _run(key).stdout.splitlines()[0].startswith("tests/test_digits.py")
    assert _run("run-main-3").stdout.splitlines()[1].startswith("run-main-3")


def test_a_name_that_several_have_lists_them(store: Store) -> None:
    """As the list of all does, and so does the list of some."""
    assert _run("digits").stdout == _run("--series").stdout == _run("--series", "digits").stdout
    assert _run("digits", "--json").stdout == _run("--series", "--json").stdout
    assert len(_run("--series", "dynamic").stdout.splitlines()) == 1 + 1


def test_words_need_no_quotes(store: Store) -> None:
    """In any order, with options between them."""
    assert _run("digits", "static").stdout == _run("digits static").stdout == _run("static", "digits").stdout
    assert _run("list", "static", "digits").stdout == _run("static", "digits").stdout
    assert _run("static", "--last", "2", "digits").stdout == _run("digits static", "--last", "2").stdout
    assert _run("changes", "int8", "dynamic").stdout == _run("changes", "dynamic").stdout


@pytest.mark.parametrize(("words", "kind"), [(["--series"], "series"), (["changes"], "series"), ([], "run")])
def test_an_unknown_name_tells_the_nearest(store: Store, words: list[str], kind: str) -> None:
    """An empty answer would look like one."""
    with pytest.raises(UsageError, match=f"there is no {kind} 'dynmic'") as caught:
        _run(*words, "dynmic")
    assert "ort-int8-dynamic" in str(caught.value)


def test_changes_are_named_by_their_commits(store: Store) -> None:
    """The only one: 2.5 points at the fifth commit of the main branch; the other branch is not looked at."""
    document = json.loads(_run("changes", "--json").stdout)
    assert (document["branch"], document["series"]) == ("main", 2)
    (change,) = document["changes"]
    assert (change["last_good"], change["first_bad"]) == (f"{3:040x}", f"{4:040x}")
    assert (change["size"], change["improved"], change["probable"]) == (-2.5, False, True)
    shown = _run("changes").stdout
    assert "WORSE" in shown
    assert "-2.5 points" in shown
    assert "probable until 5" in shown
    assert shown.splitlines()[-1] == "1 change in 2 series on main"


_LATER = replace(
    RUN, id="20260203T000000Z-bb", started_at="2026-02-03T00:00:00+00:00", dirty=True, branch="to\x1b[31mpic"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two runs, seen from a folder inside it."""
    store = open_store(tmp_path / ".quant" / "history.db")
    store.append(RUN, [a_record()])
    store.append(_LATER, [a_pass(), unavailable()])
    inner = tmp_path / "tests" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return tmp_path


def test_runs_are_listed_newest_first(project: Path) -> None:
    """Id, time, commit, branch and counts under a head; the folder is found from inside the project."""
    head, first, second = _run().stdout.splitlines()
    assert head.split() == ["run", "started", "commit", "branch", "checks"]
    assert [first.index(part) for part in (_LATER.started_at, "c0ffee", "1 PASS")] == [
        head.index(name) for name in ("started", "commit", "checks")
    ]
    assert first.startswith(_LATER.id)
    assert "1 PASS, 1 UNAVAILABLE" in first
    assert "c0ffeec0ffee dirty" in first
    assert second.split() == [RUN.id, RUN.started_at, "c0ffeec0ffee", "main", "1", "FAIL"]


def test_one_run_shows_its_checks(project: Path) -> None:
    """By the beginning of its id; without colours where the output is no terminal."""
    shown = _run(RUN.id[:10]).stdout
    assert "97.78 -> 93.55" in shown
    assert "FAIL" in shown
    assert "\x1b" not in shown


def test_an_expected_failure_of_a_run_is_none(store: Store) -> None:
    """Its row has the word that the table at the end of the run had."""
    store.append(_day(10), [replace(_scored(50.0), expected=True)])
    assert re.findall(r"  (\w*FAIL)$", _run(_day(10).id).stdout, re.MULTILINE) == ["XFAIL"]


def test_json_is_the_documents_of_the_runs(project: Path) -> None:
    """One in each line, newest first."""
    documents = [run_from_json(json.loads(line)) for line in _run("--json").stdout.splitlines()]
    assert documents == [(_LATER, (a_pass(), unavailable())), (RUN, (a_record(),))]
    (line,) = _run(RUN.id, "--json").stdout.splitlines()
    assert run_from_json(json.loads(line))[0] == RUN


def test_a_series_is_shown_without_numpy(project: Path) -> None:
    """Loading it would take a tenth of the half second that 10 000 points may take."""
    code = "import sys; from pytest_quant.cli import commands; commands(standalone_mode=False); print(*sys.modules)"
    command = [sys.executable, "-c", code, "history", "digits", "ort-int8-static"]
    printed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    table, _, modules = printed.rstrip().rpartition("\n")
    assert "c0ffee" in table
    assert "sqlalchemy" in modules.split()
    assert "numpy" not in modules.split()
