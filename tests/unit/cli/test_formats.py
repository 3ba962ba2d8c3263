"""``export --format``: which one a file is written in, which runs are in it, and what it is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cli import commands
from pytest_quant.cli.formats import FORMATS, format_of
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import open_store
from pytest_quant.report.exports.bencher import bencher
from pytest_quant.report.exports.github_action_benchmark import github_action_benchmark
from pytest_quant.report.exports.openmetrics import openmetrics
from tests.unit.record.examples import LATER, RUN, a_pass, a_record, unavailable


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ("export", *arguments), catch_exceptions=False)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        *((file, "ndjson") for file in ("a.jsonl", "a.ndjson", "a.json", "a.txt", "a", "csv", None)),
        *((file, "csv") for file in ("a.csv", "A.CSV", "some.folder/a.b.csv")),
        ("a.prom", "openmetrics"),
    ],
)
def test_the_suffix_tells_the_format(file: str | None, name: str) -> None:
    """Where none is asked for; one that tells none is written as ever."""
    assert format_of(None, None if file is None else Path(file)) == name
    assert {format_of(asked, None if file is None else Path(file)) for asked in FORMATS} == set(FORMATS)


def test_a_file_of_one_run_holds_the_last_one(place: Path, tmp_path: Path) -> None:
    """As the converters write it, and the line tells how many checks of which run they are."""
    written = {
        "openmetrics": openmetrics(LATER, [a_pass(), unavailable()]),
        "github-action-benchmark": github_action_benchmark(LATER, [a_pass(), unavailable()], "lower"),
        "bencher": bencher([a_pass(), unavailable()]),
    }
    for name, text in written.items():
        assert _run("--format", name, "out").stdout == f"2 checks of run {LATER.id} written to out\n"
        assert (tmp_path / "out").read_text() == text
        assert _run("--format", name).stdout == text
        assert _run("--format", name, "--run", "last").stdout == text
    assert _run("out.prom").stdout == f"2 checks of run {LATER.id} written to out.prom\n"
    assert (tmp_path / "out.prom").read_text() == written["openmetrics"]


def test_any_run_is_named_by_the_beginning_of_its_id(place: Path) -> None:
    """In every format that holds one; of ndjson it is what import reads."""
    assert _run("--format", "openmetrics", "--run", RUN.id[:8]).stdout == openmetrics(RUN, [a_record()])
    header, run = _run("--run", RUN.id).stdout.splitlines()
    assert json.loads(header)["format"] == "pytest-quant-history"
    assert json.loads(run)["run"]["id"] == RUN.id
    with pytest.raises(UsageError, match="there is no run '2027'"):
        _run("--run", "2027")


def test_csv_and_ndjson_hold_every_run(place: Path, tmp_path: Path) -> None:
    """Oldest first, unless one is asked for; ``all`` may be said."""
    for asked in ((), ("--run", "all")):
        rows = list(csv.DictReader(io.StringIO(_run("--format", "csv", *asked).stdout)))
        assert [row["run_id"] for row in rows] == [RUN.id, LATER.id, LATER.id]
    assert _run("checks.csv").stdout == "3 checks of 2 runs written to checks.csv\n"
    assert _run("--run", "all", "all.jsonl").stdout == "2 runs written to all.jsonl\n"
    assert _run("--format", "csv", "--run", "last", "last.csv").stdout.startswith("2 checks of 1 run written")


def test_each_direction_is_a_file_of_its_own(place: Path) -> None:
    """As github-action-benchmark has a tool for each."""
    for better in ("lower", "higher"):
        text = _run("--format", "github-action-benchmark", "--better", better).stdout
        assert text == github_action_benchmark(LATER, [a_pass(), unavailable()], better)


def test_the_dashboard_needs_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same for every one."""
    monkeypatch.chdir(tmp_path)
    assert _run("--format", "grafana", "dashboard.json").stdout == "grafana dashboard written to dashboard.json\n"
    assert json.loads((tmp_path / "dashboard.json").read_text())["title"] == "pytest-quant"
    assert [file.name for file in tmp_path.iterdir()] == ["dashboard.json"]


REFUSED = {
    "all runs in a format of one": (("--format", "openmetrics", "--run", "all"), "holds one run"),
    "a direction of another format": (
        ("--format", "bencher", "--better", "higher"),
        "chooses figures of github-action",
    ),
    "a run of the dashboard": (("--format", "grafana", "--run", "last"), "holds no run"),
}


@pytest.mark.parametrize(("arguments", "what"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(place: Path, tmp_path: Path, arguments: tuple[str, ...], what: str) -> None:
    """Before anything is written, with what to do instead."""
    with pytest.raises(UsageError, match=what) as caught:
        _run(*arguments, "out")
    assert caught.value.fix
    assert not (tmp_path / "out").exists()


def test_a_history_without_a_run_has_no_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said; all of none are an empty table."""
    open_store(tmp_path / "history.db").runs()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no run in the history"):
        _run("--history", "history.db", "--format", "bencher")
    assert len(_run("--history", "history.db", "--format", "csv").stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk_is_told(place: Path) -> None:
    """In every format."""
    for name in FORMATS:
        with pytest.raises(HistoryError, match="cannot be written"):
            _run("--format", name, "/dev/full")


def test_a_text_that_is_not_ascii_is_written_in_utf_8(place: Path, tmp_path: Path) -> None:
    """Whatever the terminal speaks: the file is for programs."""
    open_store(place).append(replace(RUN, id="third", started_at="2026-03-01T00:00:00+00:00", branch="größe"), [])
    _run("--format", "openmetrics", "out.prom")
    assert 'branch="größe"'.encode() in (tmp_path / "out.prom").read_bytes()
