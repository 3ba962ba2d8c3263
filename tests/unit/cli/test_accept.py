"""``pytest-quant accept`` shows what changes in the file, and refuses what must not become a baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.errors import UsageError
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.record import Record, Run
from tests.support.repository import ScratchRepository, make_repository, without_ci
from tests.unit.record.examples import RUN, a_check, a_pass, a_record, unavailable, with_accuracy


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository with one commit, seen from a folder inside it."""
    without_ci(monkeypatch)
    repository = make_repository(tmp_path / "project")
    repository.commit("1")
    inner = repository.path / "tests"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return repository


def _trt() -> Record:
    passed = a_pass()
    trt = a_record(a_check(backend="trt"))
    return replace(passed, backend="trt", series=trt.series)


def _add(scratch: ScratchRepository, records: list[Record]) -> Run:
    return _add_run(scratch, replace(RUN, commit=scratch.git("rev-parse", "HEAD")), records)


def _add_run(scratch: ScratchRepository, run: Run, records: list[Record]) -> Run:
    open_store(scratch.path / ".quant" / "history.db").append(run, records)
    return run


def _accept(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["accept", "--reason", "why not", *arguments], catch_exceptions=False)


def test_the_commit_checked_out_is_accepted(scratch: ScratchRepository) -> None:
    """Every series of it; the diff shows each line that is new; a dry run of a run's id writes nothing."""
    run = _add(scratch, [a_pass(), _trt()])
    assert "nothing was written" in _accept(run.id[:12], "--dry-run").stdout
    assert not (scratch.path / NAME).exists()
    shown = _accept().stdout
    entries = read_baselines(scratch.path / NAME)
    assert [(entry.series.backend, entry.run, entry.drop, entry.reason) for entry in entries.values()] == [
        ("ort", run.id, 0.28, "why not"),
        ("trt", run.id, 0.28, "why not"),
    ]
    added = [line[1:] for line in shown.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == (scratch.path / NAME).read_text().splitlines()
    assert shown.startswith(f"accepting HEAD ({(run.commit or '')[:12]}): 2 records of 1 run\n")
    assert "2 series accepted" in shown
    assert "\x1b" not in shown


def test_only_the_lines_that_change_are_shown(scratch: ScratchRepository) -> None:
    """As a reviewer will see them."""
    _add(scratch, [a_pass()])
    _accept()
    better = with_accuracy(a_pass(), drop=0.1, candidate=97.68)
    second = scratch.commit("2")
    _add_run(scratch, replace(RUN, id="20260203T000000Z-bb", commit=second), [better])
    shown = _accept().stdout.splitlines()
    assert "-drop = 0.28" in shown
    assert "+drop = 0.1" in shown
    assert not any(line.startswith(("-speedup", "+speedup", "-test", "+test")) for line in shown)


def test_a_run_without_latency_takes_none_away(scratch: ScratchRepository) -> None:
    """As one of ``--quant-no-latency``; the line that says so counts the series."""
    _add(scratch, [a_pass(), _trt()])
    _accept()
    timed = read_baselines(scratch.path / NAME)
    untimed = [replace(with_accuracy(record, drop=0.1), latency=None) for record in (a_pass(), _trt())]
    _add_run(scratch, replace(RUN, id="20260203T000000Z-bb", commit=scratch.commit("2")), untimed)
    shown = _accept().stdout
    after = read_baselines(scratch.path / NAME)
    assert [entry.drop for entry in after.values()] == [0.1, 0.1]
    assert [entry.latency for entry in after.values()] == [entry.latency for entry in timed.values()]
    assert "stays as accepted before: 2 series" in shown
    assert "stays as accepted before" not in _accept("--removed", "--series", "trt-int8").stdout


def test_some_series_are_accepted_and_the_others_stay(scratch: ScratchRepository) -> None:
    """By a part of their name."""
    _add(scratch, [a_pass(), _trt()])
    _accept("--series", "trt-int8")
    (entry,) = read_baselines(scratch.path / NAME).values()
    assert entry.series.backend == "trt"
    _accept("--series", "ort-int8", "--reason", "another")
    assert [baseline.reason for baseline in read_baselines(scratch.path / NAME).values()] == ["another", entry.reason]


def test_outside_of_git_the_step_is_one_of_accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of runs can be compared there, and no run without a commit can be accepted."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    open_store(tmp_path / ".quant" / "history.db").append(replace(RUN, commit=None), [a_pass()])
    with pytest.raises(UsageError, match="git init, git add and git commit make; only pytest-quant compare does"):
        _accept()


@pytest.mark.parametrize(
    ("run", "records", "message"),
    [
        ({}, [a_record()], "FAIL never becomes a baseline"),
        ({"dirty": True}, [a_pass()], "not committed"),
        ({}, [replace(a_pass(), stands_in=True)], "Dataset.placeholder"),
        ({}, [unavailable()], "nothing was measured"),
        ({}, [], "there are no records"),
    ],
)
def test_what_is_refused_leaves_the_file_alone(
    scratch: ScratchRepository, run: dict[str, bool], records: list[Record], message: str
) -> None:
    """A failed record, a dirty run, random numbers, a run in which nothing ran, a commit without any."""
    dirty = run.get("dirty", False)
    _add_run(scratch, replace(RUN, commit=scratch.git("rev-parse", "HEAD"), dirty=dirty), records)
    with pytest.raises(UsageError, match=message):
        _accept()
    assert not (scratch.path / NAME).exists()


def test_a_removal_is_accepted_by_name_only(scratch: ScratchRepository) -> None:
    """Of a series that the history or the file knows."""
    _add(scratch, [a_pass(), _trt()])
    with pytest.raises(UsageError, match="--removed needs --series"):
        _accept("--removed")
    _accept("--removed", "--series", "trt-int8")
    (entry,) = read_baselines(scratch.path / NAME).values()
    assert (entry.removed, entry.series.backend, entry.commit) == (True, "trt", scratch.git("rev-parse", "HEAD"))


def test_bad_questions_are_clear_errors(scratch: ScratchRepository) -> None:
    """An unknown revision, an empty reason, none at all, a history that is not there."""
    (scratch.path / ".quant").mkdir()
    with pytest.raises(UsageError, match="there is no history yet"):
        _accept()
    _add(scratch, [a_pass()])
    with pytest.raises(UsageError, match="git knows no such commit"):
        _accept("no-such-tag")
    with pytest.raises(UsageError, match="--reason is empty"):
        _accept("--reason", " ")
    assert CliRunner().invoke(commands, ["accept"]).exit_code == 2
