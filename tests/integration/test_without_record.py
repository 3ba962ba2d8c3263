"""A marked test without a record is what it is in its run, and not removed. The session is a fake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from tests.integration.fake_session import run_apart, run_fake, write_fake
from tests.integration.projects import output
from tests.support.history_repository import run_command
from tests.support.in_process import run_here
from tests.support.repository import ScratchRepository, make_repository, without_ci

KEPT = "@mark.quant(output='PASS')\ndef test_kept(): pass\n"
CHECK = "@pytest.mark.quant(output='PASS')\n"
REASON = "no VNNI on this runner"
LEFT_OUT = {
    "mark": f"@pytest.mark.skip(reason='{REASON}')\n{CHECK}def test_other(): pass\n",
    "condition": f"@pytest.mark.skipif(True, reason='{REASON}')\n{CHECK}def test_other(): pass\n",
    "fixture": f"@pytest.fixture(autouse=True)\ndef needs(): pytest.skip('{REASON}')\n{CHECK}def test_other(): pass\n",
    "module": f"pytest.skip('{REASON}', allow_module_level=True)\n{CHECK}def test_other(): pass\n",
    "set_up": f"def setup_module(): pytest.skip('{REASON}')\n{CHECK}def test_other(): pass\n",
    "late_mark": f"LATE = True\n{CHECK}def test_other(): pass\n",
}
CONFTEST = f"""
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if getattr(item.module, "LATE", False):
            item.add_marker(pytest.mark.skip(reason={REASON!r}))

@pytest.fixture
def quant_model(): return "model.onnx"

@pytest.fixture
def quant_data(): return ([1.0], [0])
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScratchRepository]:
    """Writes a project whose base has run, and commits other files on a branch."""
    without_ci(monkeypatch)
    repository = make_repository(pytester.path / "work")
    monkeypatch.chdir(repository.path)
    (repository.path / ".gitignore").write_text(".quant/\n__pycache__/\n*.json\n*.md\n*.html\n")

    def write(base: dict[str, str], head: dict[str, str]) -> ScratchRepository:
        for branch, files in (("main", base), ("topic", head)):
            if branch == "topic":
                repository.git("switch", "-q", "-c", "topic")
            write_fake(repository.path, KEPT, CONFTEST)
            for name, text in files.items():
                (repository.path / name).write_text(f"import pytest\n{text}")
            repository.git("add", "-A")
            repository.git("commit", "-q", "--allow-empty", "-m", branch)
            if branch == "main":
                run_here(pytester, "-q", "-p", "no:cacheprovider", plugins=[sys.modules[run_fake.__module__]])
        return repository

    return write


def compared(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run the head with every output."""
    outputs = ("--quant-compare", "--quant-json=run.json", "--quant-markdown=run.md", "-p", "no:cacheprovider")
    return run_here(pytester, "-q", *outputs, *args, plugins=[sys.modules[run_fake.__module__]])


def test_what_is_skipped_is_told_with_its_reason(
    project: Callable[..., ScratchRepository], pytester: pytest.Pytester
) -> None:
    """In each of the ways in which pytest skips a test before its check; see airspeed-velocity/asv#231."""
    head = {f"test_{name}.py": text for name, text in LEFT_OUT.items()}
    folder = project(dict.fromkeys(head, f"{CHECK}def test_other(): pass\n"), head).path
    result = compared(pytester)
    assert result.ret == 0
    said = output(result)
    assert f"NO REGRESSION: {len(LEFT_OUT)} tests skipped here, " in said
    assert " ".join(said.split()).count(f"was PASS: {REASON}") == len(LEFT_OUT)
    assert "accept" not in said
    assert len(json.loads((folder / "run.json").read_text())["run"]["skipped"]) == len(LEFT_OUT)
    assert (folder / "run.md").read_text().count(f"was PASS: {REASON}") == len(LEFT_OUT)
    assert compared(pytester, "--quant-strict").ret == 1


def test_what_cannot_be_imported_is_told_with_the_error(
    project: Callable[..., ScratchRepository], pytester: pytest.Pytester
) -> None:
    """A file, also where no other test is left; a part of the run that does not name it says nothing of it."""
    other = f"{CHECK}def test_other(): pass\n"
    folder = project({"test_other.py": other}, {"test_other.py": f"import nothing_like_it\n{other}"}).path
    result = compared(pytester, "--continue-on-collection-errors")
    assert "REGRESSION: 1 test not collected, " in output(result)
    assert "- not collected: ModuleNotFoundError: No module named " in (folder / "run.md").read_text()
    alone = compared(pytester, "--continue-on-collection-errors", "test_other.py")
    assert "REGRESSION: 1 test not collected" in output(alone)
    assert "no checks" in (folder / "run.md").read_text()
    assert "1 test not run here" in output(compared(pytester, "test_it.py"))


def test_a_repeated_test_is_the_test(project: Callable[..., ScratchRepository], pytester: pytest.Pytester) -> None:
    """By pytest-repeat (its #84 and #21) or by pytest-flakefinder, fakes of whose hooks stand in the conftest here."""
    repeats = """
import pytest

@pytest.fixture
def __pytest_repeat_step_number(request): return request.param

@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    if "it" in metafunc.module.__name__:
        metafunc.fixturenames.append("__pytest_repeat_step_number")
        ids = lambda number: f"{number + 1}-2"
        metafunc.parametrize("__pytest_repeat_step_number", range(2), indirect=True, ids=ids)
    else:
        name = f"__flakefinder_{metafunc.function.__name__}"
        metafunc.fixturenames.append(name)
        metafunc.parametrize(argnames=name, argvalues=[0, 1])
"""
    marks = "@pytest.mark.parametrize('x', [7])\n@pytest.mark.quant(precision=['int8', 'fp32'])\n"
    folder = project({"test_flaky.py": f"{marks}def test_other(x): pass\n"}, {}).path
    (folder / "conftest.py").write_text(CONFTEST + repeats)
    result = compared(pytester)
    assert result.ret == 0
    assert "NO REGRESSION: " in output(result)
    for word in ("removed", "added", "renamed"):
        assert word not in output(result)


def test_selections_stay_partial_runs(project: Callable[..., ScratchRepository], pytester: pytest.Pytester) -> None:
    """What is left out by an option is neither gone nor skipped, at the end of the run and in the history."""
    other = f"{CHECK}def test_other(): pass\n"
    folder = project({"test_other.py": other}, {}).path
    for choice in (["-k", "kept"], ["--deselect", "test_other.py"], ["--ignore", "test_other.py"], ["test_it.py"]):
        result = compared(pytester, *choice)
        assert (result.ret, "1 test not run here" in output(result)) == (0, True), choice
        assert json.loads((folder / "run.json").read_text())["run"]["partial"], choice
    answer = run_command(folder, "compare")
    assert (answer.returncode, "1 test not run here" in answer.stdout) == (0, True)
    assert compared(pytester).ret == 0
    assert not json.loads((folder / "run.json").read_text())["run"]["partial"]


CRASHES = """
import os, signal

@mark.quant(output="PASS")
def test_in_its_body():
    os.kill(os.getpid(), signal.SIGSEGV)

@pytest.fixture
def killed():
    os.kill(os.getpid(), signal.SIGKILL)

@mark.quant(output="PASS")
def test_in_a_fixture(killed): pass

@pytest.fixture
def ending():
    yield
    os._exit(7)

@mark.quant(output="PASS")
def test_in_its_tear_down(ending): pass

def test_without_a_mark():
    os._exit(3)
"""


def test_each_crash_of_a_worker_is_an_error_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the table, JSON, page, comment and history, with the signal; see pytest-dev/pytest-xdist#932 and #466.

    One that ends after its check keeps its figures, and a test without a mark stays what it was.
    """
    folder = pytester.path
    write_fake(folder, CRASHES + KEPT, CONFTEST)
    monkeypatch.setenv("TMPDIR", str(folder))
    result = run_apart(pytester, "-n2", "--quant-json=run.json", "--quant-markdown=run.md", "--quant-html=run.html")
    records = json.loads((folder / "run.json").read_text())["checks"]
    checks = {check["nodeid"].partition("::")[2]: check for check in records}
    ended = {name: check["message"].splitlines()[:1] for name, check in checks.items() if check["status"] == "ERROR"}
    what = "the process that ran this check ended with"
    assert ended == {"test_in_its_body": [f"{what} SIGSEGV"], "test_in_a_fixture": [f"{what} SIGKILL"]}
    said = output(result)
    assert "4 checks: 1 PASS, 2 ERROR, 1 TEST FAILED" in said
    for text in (said, (folder / "run.md").read_text(), (folder / "run.html").read_text()):
        assert f"{what} SIGSEGV" in text
        assert f"{what} SIGKILL" in text
    assert checks["test_in_its_body"]["backend"] == "ort"
    assert list(folder.glob("pytest-quant-work-*/*-gw*")) == []
