"""``pytest --quant-accept`` writes what ``pytest-quant accept`` writes, and refuses what that refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from pytest_quant.history.baselines.file import NAME, read_baselines
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.support.repository import ScratchRepository, make_repository, without_ci

SOURCE = """
@mark.quant(output="PASS")
def test_one(): pass

@mark.quant(output="{other}")
def test_other(): pass
"""
FINE = SOURCE.format(other="PASS")
ACCEPT = ("--quant-accept", "--quant-reason=a larger set")


@pytest.fixture
def scratch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """The folder of the test as a repository with one commit."""
    without_ci(monkeypatch)
    made = make_repository(pytester.path)
    made.commit("1")
    return made


def accepted(path: Path) -> dict[str, tuple[str, str | None]]:
    """Return the reason and the commit of each test in the file; empty without one."""
    entries = read_baselines(path / NAME).values()
    return {entry.series.test: (entry.reason, entry.commit) for entry in entries}


def test_the_records_become_baselines(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository
) -> None:
    """With the reason; the terminal shows the change and the next step."""
    result = run_fake(pytester, monkeypatch, FINE, *ACCEPT)
    commit = scratch.git("rev-parse", "HEAD")
    assert result.ret == 0
    assert accepted(pytester.path) == {
        f"test_it.py::test_{name}": ("a larger set", commit) for name in ("one", "other")
    }
    result.stdout.fnmatch_lines(
        ['+test = "test_it.py::test_one"', f"--quant-accept: 2 series accepted; commit *{NAME}"]
    )


def test_the_file_is_the_one_that_the_command_writes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository
) -> None:
    """But for the second in which it was written."""
    run_fake(pytester, monkeypatch, FINE, *ACCEPT)
    by_run = (pytester.path / NAME).read_text()
    (pytester.path / NAME).unlink()
    monkeypatch.chdir(pytester.path)
    CliRunner().invoke(commands, ["accept", "--reason", "a larger set"], catch_exceptions=False)
    by_command = (pytester.path / NAME).read_text()
    when = re.compile(r"^accepted_at = .*$", re.MULTILINE)
    assert when.sub("", by_run) == when.sub("", by_command)


REFUSED = {
    "a failed check": ("FAIL", False, "a record that is FAIL never becomes a baseline"),
    "a broken engine": ("broken", False, "a record that is ERROR never becomes a baseline"),
    "a dirty tree": ("PASS", True, "changes that were not committed"),
}


@pytest.mark.parametrize(("other", "dirty", "words"), REFUSED.values(), ids=REFUSED)
def test_what_the_command_refuses_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository, other: str, dirty: bool,
    words: str,
) -> None:  # fmt: skip
    """In the same words; nothing is written, and the run fails."""
    if dirty:
        (pytester.path / "file").write_text("changed")
    result = run_fake(pytester, monkeypatch, SOURCE.format(other=other), *ACCEPT)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "--quant-accept: nothing was accepted: " in output(result)
    assert words in output(result)
    assert accepted(pytester.path) == {}


def test_what_was_accepted_before_stays(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository
) -> None:
    """A run of some tests changes the entries of those."""
    run_fake(pytester, monkeypatch, FINE, *ACCEPT)
    scratch.git("add", NAME)
    scratch.git("commit", "-m", "accepted")
    run_fake(pytester, monkeypatch, FINE, "--quant-accept", "--quant-reason=again", "-k", "other")
    assert {test: reason for test, (reason, _) in accepted(pytester.path).items()} == {
        "test_it.py::test_one": "a larger set",
        "test_it.py::test_other": "again",
    }


def test_without_a_history_it_is_the_same(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository
) -> None:
    """The records are at hand."""
    assert run_fake(pytester, monkeypatch, FINE, *ACCEPT, "--quant-no-history").ret == 0
    assert len(accepted(pytester.path)) == 2


def test_an_interrupted_run_accepts_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scratch: ScratchRepository
) -> None:
    """What was measured is in the history, where the command finds it."""
    source = f"{FINE}\ndef test_stop(): raise KeyboardInterrupt\n"
    result = run_fake_apart(pytester, monkeypatch, source, *ACCEPT)
    assert "the run was interrupted" in output(result)
    assert accepted(pytester.path) == {}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--quant-accept",), "needs --reason"),
        (("--quant-accept", "--quant-reason= "), "write a sentence"),
        (("-o", "quant_accept=true", "--quant-reason=x"), "would accept every run"),
        (("--quant-accept", "-o", "quant_reason=x"), "needs --reason"),
    ],
)
def test_it_takes_a_reason_and_the_command_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    """Before any test runs."""
    result = run_fake(pytester, monkeypatch, FINE, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in output(result)
