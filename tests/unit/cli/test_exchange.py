"""``export``, ``import``, ``push``, ``pull`` and ``prune``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, select, update

from pytest_quant.cli import commands
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import open_store
from pytest_quant.history.connect import CHECKS, RECORDS, RUNS
from pytest_quant.history.git_branch import BRANCH
from pytest_quant.history.json_lines import run_line
from pytest_quant.result import Cost
from tests.unit.record.examples import LATER, RUN, a_pass, a_record, series_of, unavailable


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments, catch_exceptions=False)


def test_an_export_is_imported_whole_and_once(place: Path, tmp_path: Path) -> None:
    """Oldest run first; a second import changes nothing."""
    assert "2 runs written" in _run("history", "export", "all.jsonl").stderr
    header, *runs = (tmp_path / "all.jsonl").read_text().splitlines()
    assert json.loads(header)["format"] == "pytest-quant-history"
    assert [json.loads(line)["run"]["id"] for line in runs] == [RUN.id, LATER.id]
    moved = str(tmp_path / "moved.db")
    assert "2 of 2 runs added" in _run("history", "import", "all.jsonl", "--history", moved).stdout
    assert "0 of 2 runs added" in _run("history", "import", "all.jsonl", "--history", moved).stdout
    assert list(open_store(moved).each_run()) == list(open_store(place).each_run())
    assert _run("history", "export", "--history", moved).stdout_bytes == (tmp_path / "all.jsonl").read_bytes()


def test_a_bad_line_imports_nothing_of_any_file(place: Path, tmp_path: Path) -> None:
    """Not even the good lines before it, which a second import would otherwise find already there."""
    _run("history", "export", "all.jsonl")
    text = (tmp_path / "all.jsonl").read_text()
    (tmp_path / "bad.jsonl").write_text(text.replace('"FAIL"', '"FAILED"', 1))
    with pytest.raises(HistoryError, match=r"bad\.jsonl, line 2"):
        _run("history", "import", "all.jsonl", "bad.jsonl", "--history", "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_database_is_exported_before_it_is_imported(place: Path, tmp_path: Path) -> None:
    """As the message says, whose command works as printed, for a name with a blank too."""
    team = str(shutil.copy(place, tmp_path / "the team.db"))
    with pytest.raises(HistoryError, match=r"the team\.db cannot be read: it is a database") as caught:
        _run("history", "import", team, "--history", "new.db")
    command, _, then = str(caught.value.fix).partition(", ")
    assert _run(*shlex.split(command)[1:]).exit_code == 0
    assert then == "then import exported.jsonl"
    assert "2 of 2 runs added" in _run("history", "import", "exported.jsonl", "--history", "new.db").stdout


def test_an_export_that_fails_leaves_the_old_file(place: Path, tmp_path: Path) -> None:
    """There is nothing to read; nothing half written stays."""
    (tmp_path / "all.jsonl").write_text("mine")
    with create_engine(f"sqlite:///{place}").begin() as connection:
        for table in (RECORDS, CHECKS, RUNS):
            table.drop(connection)
    with pytest.raises(HistoryError, match="cannot be read"):
        _run("history", "export", "all.jsonl")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["all.jsonl"]
    assert (tmp_path / "all.jsonl").read_text() == "mine"


def test_an_export_names_damage_and_writes_the_rest(place: Path, tmp_path: Path) -> None:
    """Exit 1, the run and the record on stderr; the file goes into a new history."""
    with create_engine(f"sqlite:///{place}").begin() as connection:
        connection.execute(update(RECORDS).where(RECORDS.c.run == 2).values(record=b"spoiled"))
    exported = _run("history", "export", "rest.jsonl")
    assert exported.exit_code == 1
    written, left_out = exported.stderr.splitlines()
    assert written == "2 runs written to rest.jsonl; left out as damaged: 1"
    assert left_out.startswith(f"left out: record 0 of run {RUN.id} of the history is damaged: ")
    one_run = _run("history", "export", "--run", RUN.id)
    assert (one_run.exit_code, one_run.stderr) == (1, f"{left_out}\n")
    assert [json.loads(line).get("checks") for line in one_run.stdout.splitlines()] == [None, []]
    assert _run("history", "export", "--run", LATER.id).exit_code == 0
    _run("history", "import", "rest.jsonl", "--history", "new.db")
    assert open_store(tmp_path / "new.db").records(LATER.id) == [a_pass(), unavailable()]
    assert open_store(tmp_path / "new.db").records(RUN.id) == []


def test_durations_are_of_all_runs_together(place: Path, tmp_path: Path) -> None:
    """A history without costs knows none, and one run is no median."""
    assert _run("history", "export", "--format", "durations").stdout == "{}\n"
    costly = (replace(a_pass(), nodeid=name, series=series_of(name), cost=Cost(1.0, 2.0, 0.5)) for name in ('b"', "a"))
    open_store(place).append(replace(LATER, id="newest"), list(costly))
    written = _run("history", "export", "--format", "durations", ".test_durations")
    assert (written.exit_code, written.stderr) == (0, "2 tests written to .test_durations\n")
    text = (tmp_path / ".test_durations").read_text()
    assert json.loads(text) == {"a": 3.5, 'b"': 3.5}
    assert text.splitlines()[1:3] == ['    "a": 3.5,', '    "b\\"": 3.5']
    with pytest.raises(UsageError, match="all runs together"):
        _run("history", "export", "--format", "durations", "--run", "last")


def test_only_the_newest_commit_is_expected_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may hold older runs too; one that is missing is an error where nobody says how many there are."""
    monkeypatch.chdir(tmp_path)
    old = replace(RUN, commit="b" * 40, shard="1/9", deselected=())
    new = [replace(LATER, id=f"s{number}", shard=f"{number}/2", deselected=()) for number in (1, 2)]
    for number, run in enumerate([old, *new]):
        (tmp_path / f"{number}.jsonl").write_bytes(run_line(run, []))
    for files, code in ((("0.jsonl", "1.jsonl", "2.jsonl"), 0), (("0.jsonl", "1.jsonl", "gone.jsonl"), 1)):
        answer = _run("history", "import", "--expect", "2", *files)
        assert answer.exit_code == code
        assert answer.stderr == "shards that never reported: 2/2\n" * code
    with pytest.raises(HistoryError, match=r"gone\.jsonl cannot be read"):
        _run("history", "import", "1.jsonl", "gone.jsonl")
    with pytest.raises(UsageError, match="no FILE"):
        _run("history", "import")


def test_a_branch_moves_the_history(place: Path, tmp_path: Path) -> None:
    """Pushed from here, pulled into another history; exit 1 where a file there cannot be read."""

    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("init", "-q", "--bare", "remote.git")
    git("remote", "add", "origin", "remote.git")
    assert "2 runs added" in _run("history", "push").stdout
    assert "0 runs added" in _run("history", "push").stdout
    pulled = _run("history", "pull", "--history", "new.db")
    assert (pulled.exit_code, pulled.stdout) == (0, "2 runs added to new.db, 0 already there\n")
    assert list(open_store("new.db").each_run()) == list(open_store(place).each_run())
    git("fetch", "-q", "origin", BRANCH)
    git("checkout", "-q", "FETCH_HEAD")
    (tmp_path / "runs" / "2026-01" / "bad.jsonl").write_text("\x1b[31m")
    git("add", "runs")
    git("commit", "-qm", "bad")
    git("push", "-q", "origin", f"HEAD:{BRANCH}")
    spoiled = _run("history", "pull", "--history", "third.db")
    assert spoiled.exit_code == 1
    assert "2 runs added" in spoiled.stdout
    assert "runs/2026-01/bad.jsonl, line 1" in spoiled.stderr
    assert "\x1b" not in spoiled.stderr


def test_prune_tells_what_it_frees(place: Path) -> None:
    """A dry run says would."""
    output = _run("history", "prune", "--keep-runs", "1", "--dry-run").stdout
    done = _run("history", "prune", "--keep-runs", "1").stdout
    assert output.startswith("1 record of 1 run would be thinned, ")
    assert done == output.replace("would be thinned", "thinned").replace("would be freed", "freed")
    assert open_store(place).records(LATER.id)[0] == a_pass()
    assert open_store(place).records(RUN.id)[0] != a_record()
    assert _run("history", "prune", "--keep-runs", "2").stdout.startswith("0 records of 0 runs thinned")


def test_prune_removes_a_run(place: Path) -> None:
    """Named by the beginning of its id, with all its records, although one is damaged; a dry run says would."""
    database = create_engine(f"sqlite:///{place}")
    with database.begin() as connection:
        connection.execute(update(RECORDS).where(RECORDS.c.run == 2).values(record=b"spoiled"))
    output = _run("history", "prune", "--run", RUN.id[:15], "--dry-run").stdout
    assert output == f"run {RUN.id} would be removed from {place}\n"
    assert len(open_store(place).runs()) == 2
    assert _run("history", "prune", "--run", RUN.id[:15]).stdout == output.replace("would be ", "")
    assert [(stored.run, sum(stored.counts.values())) for stored in open_store(place).runs()] == [(LATER, 2)]
    with database.begin() as connection:
        assert len(connection.execute(select(RECORDS)).all()) == 2
    with pytest.raises(UsageError, match="there is no run"):
        _run("history", "prune", "--run", RUN.id)


@pytest.mark.parametrize("words", [(), ("--run", ""), ("--run", "2", "--keep-runs", "1")])
def test_prune_needs_to_know_what_to_remove(words: tuple[str, ...]) -> None:
    """Nothing is removed by accident."""
    with pytest.raises(UsageError, match="nothing says what is to be removed"):
        _run("history", "prune", *words)
