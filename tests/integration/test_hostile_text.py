"""Names and messages from outside neither reach the terminal as escapes nor the log of a CI service as commands."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.cli import main
from pytest_quant.history import open_store
from pytest_quant.record import Record, Run
from pytest_quant.result import Status, Verdict
from tests.integration.fake_session import run_fake
from tests.integration.projects import output, run_marks, run_project, write_project
from tests.support import models
from tests.support.repository import make_repository, without_ci
from tests.unit.record.examples import ACCURACY, RUN, a_record, series_of

NASTY = "::error::x\x1b]0;owned\x07\x1b[2J\n::stop-commands::x\u202e ##[error]y ##vso[task.complete]z \x9b1m"
"""Titles and clears a terminal, turns its text round, and is a command to GitHub Actions and to Azure Pipelines."""
IN_A_MARK = repr(NASTY).replace("#", "\\x23")
"""As source, which pytest prints as it is below a warning; nothing in it acts before it is read."""

_COMMAND = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)


def acts(text: str) -> list[str]:
    """Return the lines of `text` that a terminal or a CI service acts upon."""
    return [line for line in text.split("\n") if _COMMAND.search(line) or not line.replace("\t", "").isprintable()]


MARKS = {
    "model": f"model={IN_A_MARK}",
    "model with a suffix": f"model={IN_A_MARK} + '.onnx'",
    "data": f"data={IN_A_MARK}",
    "quantized": f"quantized={IN_A_MARK}",
    "backend": f"backend={IN_A_MARK}",
    "backends": f"backend=['ort', {IN_A_MARK}]",
    "precision": f"precision={IN_A_MARK}",
    "scheme": f"scheme={IN_A_MARK}",
    "metric": f"metric={IN_A_MARK}",
    "exclude": f"exclude={IN_A_MARK}",
    "options": "options={" + IN_A_MARK + ": 1}",
    "option of a backend": "options={'extra': {" + IN_A_MARK + ": 1}}",
    "calibration": "calibration={'method': " + IN_A_MARK + "}",
    "a key": "**{" + IN_A_MARK + ": 1}",
    "a limit": f"max_drop={IN_A_MARK}",
    "an output": f"output={IN_A_MARK}",
    "limits of an output": "min_sqnr_db={" + IN_A_MARK + ": 10}",
    "channels": "channels={" + IN_A_MARK + ": (0, 2)}, max_drop=5.0",
}


def test_values_of_a_mark(pytester: pytest.Pytester) -> None:
    """The error that names one shows its characters, whichever step finds it; so does the file of JUnit."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    for number, mark in enumerate(MARKS.values()):
        pytester.makepyfile(**{f"test_{number}": f"import pytest\n@pytest.mark.quant({mark})\ndef test_it(): pass\n"})
    options = ("-rA", "--junitxml=junit.xml", "--continue-on-collection-errors")
    result, _ = run_project(pytester, *options)
    assert acts(output(result)) == []
    assert acts((pytester.path / "junit.xml").read_text()) == []
    # The project's own test is the one that passes.
    result.assert_outcomes(passed=1, errors=len(MARKS))


def test_what_a_model_holds(pytester: pytest.Pytester) -> None:
    """Names in the file come back in our messages and in those of the runtimes."""
    models.select_first(pytester.path / "named.onnx", input_name=NASTY)
    models.with_external_data(pytester.path / "external.onnx", NASTY)
    (pytester.path / "text.onnx").write_text(NASTY)
    write_project(pytester)
    files = ("named", "external", "text")
    marks = {file: f"model='{file}.onnx', backend=['ort', 'openvino'], max_drop=5.0" for file in files}
    result, _ = run_marks(pytester, marks, "-rA")
    assert acts(output(result)) == []


def test_names_that_are_good(pytester: pytest.Pytester) -> None:
    """A metric of the user may be called anything; its check prints its table and its warning all the same."""
    models.select_first(pytester.path / "model.onnx")
    names = f"name={IN_A_MARK}, unit={IN_A_MARK}"
    metric = f"pytest_quant.Metric(lambda _, labels: (labels == 0) * 1.0, better='higher', {names})"
    for limit in ("max_drop=1", "min_accuracy=0.9", "max_drop_increase=1"):
        write_project(pytester, mark=f"metric={metric}, {limit}, min_agreement=100")
        file = pytester.path / "test_model.py"
        file.write_text(file.read_text().replace("import pytest", "import pytest, pytest_quant", 1))
        result, (check,) = run_project(pytester, "-rA", "-W", "always")
        assert check["accuracy"]["metric"] == NASTY
        assert acts(output(result)) == []


OPTIONS = {
    "backend": ("--quant-backend", NASTY),
    "require": ("--quant-require", NASTY),
    "columns": ("--quant-columns", NASTY),
    "base": ("--quant-compare-base", NASTY),
    "json in a file": ("--quant-json", f"file/{NASTY}"),
    "address of a history": ("--quant-history", f"postgresql://{NASTY}"),
    "confidence": ("--quant-confidence", NASTY),
    "simulated device": ("--quant-simulate", NASTY),
}


@pytest.mark.parametrize(("option", "value"), OPTIONS.values(), ids=OPTIONS)
def test_options_of_pytest(pytester: pytest.Pytester, option: str, value: str) -> None:
    """Wherever it is refused: before collection, in a test, or at the end of the run."""
    (pytester.path / "file").touch()
    name = option.removeprefix("--").replace("-", "_")
    for given in ((f"{option}={value}",), ("-o", f"{name}={value}")):
        result = run_fake(pytester, '@mark.quant(output="PASS")\ndef test_it(): pass\n', *given)
        assert acts(output(result)) == []


def test_branches_that_a_ci_service_names(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one to merge into is not there, and the advice quotes it: it may be pasted into a shell."""
    without_ci(monkeypatch)
    monkeypatch.setenv("GITHUB_BASE_REF", f"x; touch owned #{NASTY}")
    make_repository(pytester.path).commit("first")
    source = '@mark.quant(output="PASS")\ndef test_it(): pass\n'
    result = run_fake(pytester, source, "--quant-compare")
    assert acts(output(result)) == []
    assert "git fetch origin 'x; touch owned #" in output(result)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a history in which every text is nasty, and files that cannot be read."""
    folder = tmp_path_factory.mktemp("nasty")
    make_repository(folder).commit("first")
    store = open_store(folder / ".quant" / "history.db")
    for number in range(3):
        store.append(_nasty_run(number), [_nasty_record(number)])
    (folder / "::error::\x1b[2J.jsonl").write_text("[")
    (folder / "other.jsonl").write_text(f'{{"format": "{"::error::"}\\u001b[2J"}}')
    return folder


@pytest.fixture
def recorded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository, which a test works in."""
    without_ci(monkeypatch)
    monkeypatch.chdir(repository)
    return repository


def _nasty_run(number: int) -> Run:
    environment = replace(RUN.environment, identity={"cpu": NASTY}, context={NASTY: NASTY})
    return replace(
        RUN,
        id=f"{NASTY}{number}",
        started_at=NASTY if number == 2 else f"2026-01-0{number + 1}T00:00:00+00:00",
        commit=f"{number}{NASTY}",
        branch=NASTY,
        environment=environment,
    )


def _nasty_record(number: int) -> Record:
    accuracy = replace(ACCURACY, metric=NASTY, unit=NASTY, candidate=90.0 - number, worst_output=NASTY)
    verdict = Verdict(NASTY, 1.0, 4.0, Status.FAIL, NASTY)
    record = a_record(accuracy=accuracy, verdicts=(verdict,))
    return replace(record, nodeid=NASTY, model=NASTY, backend=NASTY, series=series_of(NASTY), notes=(NASTY,))


COMMANDS: dict[str, tuple[str, ...]] = {
    "no command": (NASTY,),
    "no option": (f"--{NASTY}",),
    "runs": ("history",),
    "runs as JSON": ("history", "--json"),
    "a run": ("history", "::error"),
    "series": ("history", "--series"),
    "series as JSON": ("history", "--series", "--json"),
    "one series": ("history", "stop-commands"),
    "one series as JSON": ("history", "stop-commands", "--json"),
    "changes": ("history", "changes", "--branch", NASTY),
    "changes as JSON": ("history", "changes", "--branch", NASTY, "--json"),
    "no series": ("history", f"not {NASTY}"),
    "no day": ("history", "--since", NASTY),
    "no number": ("history", "--last", NASTY),
    "no commit": ("compare", NASTY),
    "no run": ("compare", f"20260101T0{NASTY}"),
    "too many": ("compare", "a", "b", NASTY),
    "no baseline": ("accept", NASTY, "--reason", NASTY),
    "no test": ("accept", "--removed", "--series", f"not {NASTY}", "--reason", NASTY),
    "a test that is gone": ("accept", "--removed", "--series", "stop-commands", "--reason", NASTY),
    "export": ("history", "export", f"none/{NASTY}"),
    "export to the output": ("history", "export"),
    "export as CSV": ("history", "export", "--format", "csv"),
    "export of no run": ("history", "export", "--run", f"not {NASTY}"),
    "no file to import": ("history", "import", NASTY),
    "a file that is none": ("history", "import", "::error::\x1b[2J.jsonl"),
    "a file of another": ("history", "import", "other.jsonl"),
    "no remote": ("history", "push", "--remote", NASTY),
    "no branch": ("history", "push", "--branch", NASTY),
    "no remote to pull from": ("history", "pull", "--remote", f"-{NASTY}"),
    "no branch to pull": ("history", "pull", "--remote", ".", "--branch", "none"),
    "no history": ("history", "--history", f"none/{NASTY}"),
    "no address": ("history", "--history", f"postgresql://{NASTY}"),
    "prune": ("history", "prune", "--keep-runs", "1"),
    "no cache": ("cache", "--cache", NASTY),
    "no cache to clear": ("cache", "--cache", NASTY, "clear", "--yes"),
    "no comment": ("comment", "--github", NASTY),
    "a comment of another": ("comment", "--github", "other.jsonl"),
    "no project": ("comment", "--gitlab", "other.jsonl", "--repository", NASTY),
    "no backend": ("doctor", "--require", NASTY),
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_commands(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """What others recorded, and what was typed, is printed as text."""
    monkeypatch.setattr(sys, "argv", ["pytest-quant", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit):
        main()
    printed = capfd.readouterr()
    assert printed.out + printed.err
    assert acts(printed.out) == []
    assert acts(printed.err) == []


def test_two_runs_compared(recorded: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """In every form; their ids are as the program that wrote them liked, and begin as ours do."""
    store = open_store(recorded / ".quant" / "history.db")
    for number in (7, 8):
        run = replace(_nasty_run(number), id=f"2026010{number}T000000Z{NASTY}")
        store.append(run, [_nasty_record(number)])
    for form in ((), ("--json",), ("--markdown",)):
        monkeypatch.setattr(sys, "argv", ["pytest-quant", "compare", "20260107T0", "20260108T0", *form])
        with pytest.raises(SystemExit):
            main()
        printed = capfd.readouterr()
        assert printed.out
        assert acts(printed.out) == []
        assert acts(printed.err) == []
