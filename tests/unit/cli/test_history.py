"""``pytest-quant history`` and ``import``."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import open_store
from pytest_quant.record import run_from_json
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

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


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments, catch_exceptions=False)


def test_runs_are_listed_newest_first(project: Path) -> None:
    """Id, time, commit, branch and counts under a head; the folder is found from inside the project."""
    head, first, second = _run("history").stdout.splitlines()
    assert head.split() == ["run", "started", "commit", "branch", "checks"]
    assert [first.index(part) for part in (_LATER.started_at, "c0ffee", "1 PASS")] == [
        head.index(name) for name in ("started", "commit", "checks")
    ]
    assert first.startswith(_LATER.id)
    assert "1 PASS, 1 UNAVAILABLE" in first
    assert "c0ffeec0ffee dirty" in first
    assert second.split() == [RUN.id, RUN.started_at, "c0ffeec0ffee", "main", "1", "FAIL"]


def test_escapes_in_a_branch_show(project: Path) -> None:
    """Its name is somebody else's text."""
    assert "to\\x1b[31mpic" in _run("history").stdout


def test_last_limits_the_list(project: Path) -> None:
    """To the newest."""
    assert len(_run("history", "--last", "1").stdout.splitlines()) == 1 + 1
    assert _run("history", "--last", "0").exit_code == 2


def test_one_run_shows_its_checks(project: Path) -> None:
    """By the beginning of its id; without colours where the output is no terminal."""
    shown = _run("history", RUN.id[:10]).stdout
    assert "97.78 -> 93.55" in shown
    assert "FAIL" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(("run", "message"), [("2026", "2 runs begin with"), ("2025", "there is no run")])
def test_a_run_that_cannot_be_told_is_an_error(project: Path, run: str, message: str) -> None:
    """None or several begin so."""
    with pytest.raises(UsageError, match=message):
        _run("history", run)


def test_json_is_the_documents_of_the_runs(project: Path) -> None:
    """One in each line, newest first."""
    documents = [run_from_json(json.loads(line)) for line in _run("history", "--json").stdout.splitlines()]
    assert documents == [(_LATER, (a_pass(), unavailable())), (RUN, (a_record(),))]
    (line,) = _run("history", RUN.id, "--json").stdout.splitlines()
    assert run_from_json(json.loads(line))[0] == RUN


def test_a_history_elsewhere_is_named(project: Path, tmp_path: Path) -> None:
    """By file or by URL."""
    place = tmp_path / ".quant" / "history.db"
    assert _run("history", "--history", f"sqlite:///{place}").stdout == _run("history").stdout
    with pytest.raises(UsageError, match="no history yet"):
        _run("history", "--history", str(tmp_path / "other.db"))


def test_a_corrupt_history_is_an_error(project: Path) -> None:
    """And no empty list."""
    place = project / ".quant" / "history.db"
    place.write_bytes(b"damaged " * 1000)
    with pytest.raises(HistoryError, match="not a database"):
        _run("history")


def test_what_json_prints_can_be_imported(project: Path, tmp_path: Path) -> None:
    """A history moves to another place that way."""
    file = tmp_path / "all.jsonl"
    file.write_text(_run("history", "--json").stdout)
    moved = tmp_path / "moved.db"
    _run("history", "import", str(file), "--history", str(moved))
    assert open_store(moved).runs() == open_store(project / ".quant" / "history.db").runs()


def test_a_series_is_shown_without_numpy(project: Path) -> None:
    """Loading it would take a tenth of the half second that 10 000 points may take."""
    code = "import sys; from pytest_quant.cli import commands; commands(standalone_mode=False); print(*sys.modules)"
    command = [sys.executable, "-c", code, "history", "digits", "ort-int8-static"]
    printed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    table, _, modules = printed.rstrip().rpartition("\n")
    assert "c0ffee" in table
    assert "sqlalchemy" in modules.split()
    assert "numpy" not in modules.split()
