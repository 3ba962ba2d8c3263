"""What a run leaves when something is in its way: history, document, page and exit code. The session is a fake."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import write_baselines
from pytest_quant.history.json_lines import read_runs
from tests.integration.fake_session import CONFTEST, run_fake, run_fake_apart
from tests.integration.projects import read_checks
from tests.support.history_repository import run_command
from tests.support.pages import words_of

TWO = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass
"""
PASSING = TWO.split('@mark.quant(output="FAIL")')[0]
PLAIN = "def test_plain(): pass\n"


def _nodeids(place: Path) -> list[list[str]]:
    """Return the node ids of each run in the history, the newest run first."""
    store = open_store(place)
    return [[record.nodeid for record in store.records(stored.run.id)] for stored in store.runs()]


def test_a_history_that_cannot_be_written_leaves_the_outcomes(pytester: pytest.Pytester) -> None:
    """The records stay beside it, and the line names the command that adds them."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake(pytester, PASSING, "--quant-history=history.db", "--color=yes")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (line,) = [line for line in result.outlines if "pytest-quant history import" in line]
    assert line.startswith("\x1b[31m")
    aside = Path(line.split("pytest-quant history import ")[1].split("\x1b")[0])
    assert [record.nodeid for _, records in read_runs(aside) for record in records] == ["test_it.py::test_pass"]


@pytest.mark.parametrize("way", ["variable", "option", "ini"])
def test_the_command_for_a_server_that_is_down_can_be_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A password is in no output: the line says where the command reads the address, unless it stands there."""
    place = "postgresql+psycopg://ci:secret@127.0.0.1:1/quant"
    if way == "variable":
        monkeypatch.setenv("PYTEST_QUANT_HISTORY", place)
    if way == "ini":
        pytester.makeini(f"[pytest]\nquant_history = {place}\n")
    result = run_fake(pytester, PASSING, *([f"--quant-history={place}"] if way == "option" else []))
    (line,) = [line for line in result.outlines if "pytest-quant history import" in line]
    sets = "" if way == "variable" else ", with the history's address and password in PYTEST_QUANT_HISTORY"
    assert line.startswith(f"the next run adds the records of this one, or now{sets}: pytest-quant history import ")
    monkeypatch.setenv("PYTEST_QUANT_HISTORY", f"sqlite:///{pytester.path / 'server.db'}")
    done = run_command(pytester.path, *shlex.split(line.split(": pytest-quant ")[1]))
    assert "1 of 1 runs added" in done.stdout, done.stderr


def test_git_that_does_not_answer_is_told(pytester: pytest.Pytester) -> None:
    """Otherwise records without a commit would show only when they are to be compared."""
    folder = pytester.path / ".git"
    folder.mkdir()
    (folder / "HEAD").write_text("junk\n")
    result = run_fake(pytester, TWO)
    result.stdout.fnmatch_lines(["*git does not name the commit of *not a git repository*next: *"])
    folder.rename(pytester.path / "elsewhere")
    assert "git does not tell" not in run_fake(pytester, TWO).stdout.str()


def test_the_document_is_written_whatever_the_outcome(pytester: pytest.Pytester) -> None:
    """Its folder is made; a run without a check writes an empty list and a page that says so, over older ones."""
    run_fake(pytester, TWO, "--quant-json=out/run.json")
    statuses = [check["status"] for check in json.loads((pytester.path / "out/run.json").read_text())["checks"]]
    assert statuses == ["PASS", "FAIL"]
    (pytester.path / "page.html").write_text("old")
    run_fake(pytester, PLAIN, "--quant-json=out/run.json", "--quant-html=page.html")
    assert json.loads((pytester.path / "out/run.json").read_text())["checks"] == []
    assert "No test with a quant mark ran." in words_of((pytester.path / "page.html").read_text("utf-8"))


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
NO_SPACE = "/dev/full cannot be written: No space left*next: make room on *"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--quant-json=file/run.json", "*run.json cannot be written*next: name a file in a writable folder*"),
        ("--quant-html=file/page.html", "*page.html cannot be written*next: name a file in a writable folder*"),
        ("--quant-markdown=file/quant.md", "*quant.md cannot be written*next: name a file in a writable folder*"),
        pytest.param("--quant-json=/dev/full", NO_SPACE, marks=FULL),
        pytest.param("--quant-html=/dev/full", NO_SPACE, marks=FULL),
    ],
)
def test_a_file_that_cannot_be_written_makes_the_run_fail(pytester: pytest.Pytester, option: str, message: str) -> None:
    """Whoever reads it must not find an old one and think it new; history, table and other file are there all the same.

    The line is red and has the next step: a full disk is no matter of rights.
    """
    (pytester.path / "file").touch()
    result = run_fake(pytester, PASSING, "--quant-json=run.json", option, "--color=yes")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    name = option.partition("=")[0]
    (line,) = [line for line in result.outlines if name in line]
    assert line.startswith("\x1b[31m")
    result.stdout.fnmatch_lines([f"*{name}: {message}"])
    assert _nodeids(pytester.path / ".quant" / "history.db") == [["test_it.py::test_pass"]]
    written = [check["nodeid"] for check in read_checks(pytester.path / "run.json")]
    assert written == ([] if name == "--quant-json" else ["test_it.py::test_pass"])
    assert "1 check: 1 PASS" in result.stdout.str()


@FULL
def test_accepted_values_on_a_full_disk() -> None:
    """The next step is to make room there too."""
    with pytest.raises(HistoryError, match="No space left on device") as caught:
        write_baselines(Path("/dev/full"), [])
    assert "make room" in (caught.value.fix or "")


def test_a_document_goes_through_a_pipe_or_a_link_and_not_over_a_read_only_file(pytester: pytest.Pytester) -> None:
    """The pipe's reader has it, the link still is one, and the file is as it was, with a fault that says why."""
    pipe, link, read_only = (pytester.path / name for name in ("pipe", "link", "kept.json"))
    os.mkfifo(pipe)
    link.symlink_to("target.json")
    read_only.write_text("{}")
    read_only.chmod(0o400)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:  # noqa: S607
        run_fake(pytester, TWO, "--quant-json=pipe")
        if not stat.S_ISFIFO(pipe.stat().st_mode):
            reader.kill()
        assert len(json.loads(reader.communicate()[0])["checks"]) == 2
    run_fake(pytester, TWO, "--quant-json=link")
    assert link.is_symlink()
    assert len(json.loads((pytester.path / "target.json").read_text())["checks"]) == 2
    result = run_fake(pytester, PLAIN, "--quant-json=kept.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["--quant-json: *kept.json cannot be written: it is read-only, mode 0400*"])
    assert read_only.read_text() == "{}"


def test_a_required_backend_that_no_test_used_makes_the_run_fail(pytester: pytest.Pytester) -> None:
    """A suite that lost its checks is not green; a part of it may have none, and an unknown name is never right."""
    for args, ret in (
        (("--quant-require=ort",), 1),
        (("-o", "quant_require=ort"), 1),
        (("--quant-require=ort", "-n", "2"), 1),
        (("--quant-require=ort", "--collect-only"), 0),
        (("--quant-require=ort", "-k", "plain"), 0),
        (("--quant-require=ort", "test_it.py"), 0),
        (("--quant-require=ort", "test_it.py::test_plain"), 0),
        (("--quant-require=ort", "-m", "not slow"), 0),
    ):
        run = run_fake_apart if "-n" in args else run_fake
        result = run(pytester, PLAIN, *args)
        assert result.ret == ret
        assert ("--quant-require: no test used 'ort'" in result.stdout.str()) is bool(ret)
    used = run_fake(pytester, PASSING, "--quant-require=ort")
    assert used.ret == 0
    for part in ("", "plain"):
        misspelt = run_fake(pytester, PLAIN, "-o", "quant_require=otr", "-k", part)
        assert misspelt.ret == 1
        misspelt.stdout.fnmatch_lines(["--quant-require: unknown backend 'otr'; did you mean 'ort'?*"])


SHARD = """
def pytest_collection_modifyitems(items):
    del items[1:]
"""


def test_a_shard_without_checks_is_no_suite_without_checks(pytester: pytest.Pytester) -> None:
    """A plugin that takes tests out may say so to nobody; what it leaves need not use a required backend."""
    source = PLAIN + TWO
    result = run_fake_apart(pytester, source, "--quant-require=ort", "-n", "2", conftest=CONFTEST + SHARD)
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_ctrl_c_keeps_what_was_measured(pytester: pytest.Pytester) -> None:
    """The records so far are written, and the run says that it was interrupted."""
    source = TWO + "\ndef test_stop(): raise KeyboardInterrupt\n"
    result = run_fake_apart(pytester, source, "--quant-json=run.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len(json.loads((pytester.path / "run.json").read_text())["checks"]) == 2
    assert len(_nodeids(pytester.path / ".quant" / "history.db")[0]) == 2


def test_the_history_is_on_the_page_and_its_absence_is_told(pytester: pytest.Pytester) -> None:
    """Of the run itself too, which is in it by then; turned off or damaged, the page is written all the same."""
    for _ in range(2):
        run_fake(pytester, TWO, "--quant-html=page.html")
    said = words_of((pytester.path / "page.html").read_text("utf-8"))
    assert "4 points of 2 series" in said
    (pytester.path / ".quant" / "history.db").unlink()
    run_fake(pytester, TWO, "--quant-html=page.html", "--quant-no-history")
    assert not (pytester.path / ".quant" / "history.db").exists()
    assert "The history is turned off." in words_of((pytester.path / "page.html").read_text("utf-8"))
    (pytester.path / ".quant" / "history.db").write_bytes(b"damaged " * 1000)
    run_fake(pytester, TWO, "--quant-html=page.html")
    assert "The history cannot be read" in words_of((pytester.path / "page.html").read_text("utf-8"))


def test_a_compared_run_shows_its_comparison(pytester: pytest.Pytester) -> None:
    """Or why there is none, in a folder without git."""
    run_fake(pytester, TWO, "--quant-html=page.html", "--quant-compare")
    assert "--quant-compare: " in words_of((pytester.path / "page.html").read_text("utf-8"))
    run_fake(pytester, TWO, "--quant-html=page.html")
    said = words_of((pytester.path / "page.html").read_text("utf-8"))
    assert "This run was not compared with another commit." in said
    assert "pytest --quant-compare --quant-html=FILE" in said


def test_a_run_without_the_option_loads_no_templates(pytester: pytest.Pytester) -> None:
    """What makes pages is imported where one is made."""
    looked = "import sys\n\ndef test_none(): assert not {'jinja2', 'pytest_quant.report.page'} & set(sys.modules)\n"
    run_fake_apart(pytester, TWO + looked).assert_outcomes(failed=1, passed=2)


@pytest.mark.parametrize(("blank", "project"), [(True, "alone"), (False, "alone"), (True, "with ini")])
def test_a_file_that_pytest_took_for_the_root_folder_is_refused(
    pytester: pytest.Pytester, tmp_path: Path, blank: bool, project: str
) -> None:
    """Behind a blank it is a path to pytest, which does not know our options then; the step that is shown works."""
    elsewhere = tmp_path / "out.json"
    elsewhere.write_text("{}", encoding="utf-8")
    pytester.makepyfile(test_plain=PLAIN)
    if project == "with ini":
        pytester.makeini("[pytest]")
    words = ("--quant-json", str(elsewhere)) if blank else (f"--quant-json={elsewhere}",)
    result = pytester.runpytest_subprocess(*words, "-p", "no:cacheprovider")
    if not blank:
        assert (result.ret, json.loads(elsewhere.read_text("utf-8"))["checks"]) == (0, [])
        return
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pytest took the value of --quant-json for a path of tests*"])
    result.stderr.fnmatch_lines([f"*write --quant-json={elsewhere}"])
