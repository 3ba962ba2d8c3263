"""``--quant-html``: the page of a run is written beside its records, and its failure loses none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_quant.history import open_store
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import run_project, write_project
from tests.support import models
from tests.support.pages import figures_of, numbers_of, words_of

TWO = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass

@mark.xfail
@mark.quant(output="FAIL")
def test_expected(): pass
"""
PLAIN = "def test_plain(): pass\n"


def _nodeids(folder: Path) -> list[str]:
    store = open_store(folder / ".quant" / "history.db")
    (stored,) = store.runs()
    return [record.nodeid for record in store.records(stored.run.id)]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_page_has_every_check(pytester: pytest.Pytester, workers: str) -> None:
    """In the order of the tests, under xdist too; what was expected to fail is XFAIL."""
    run_fake_apart(pytester, TWO, "-n", workers, "--quant-html=out/page.html")
    html = (pytester.path / "out" / "page.html").read_text("utf-8")
    places = [
        html.index(f'data-status="{status}" data-words="test_it.py::test_') for status in ("PASS", "FAIL", "XFAIL")
    ]
    assert places == sorted(places)
    assert "1 FAIL" in words_of(html)


def test_a_run_without_a_check_writes_a_page_that_says_so(pytester: pytest.Pytester) -> None:
    """As --quant-json writes an empty list: an old page would be taken for a new one."""
    (pytester.path / "page.html").write_text("old")
    run_fake(pytester, PLAIN, "--quant-html=page.html")
    assert "No test with a quant mark ran." in words_of((pytester.path / "page.html").read_text("utf-8"))


@pytest.mark.parametrize("option", ["--quant-html=file/page.html", "--quant-html=/dev/full"])
def test_a_page_that_cannot_be_written_loses_no_record(pytester: pytest.Pytester, option: str) -> None:
    """The line is red and has the next step; JSON and history are written, the table is printed, the run fails."""
    if not Path("/dev/full").exists() and "full" in option:
        pytest.skip("Linux has a device that is always full")
    (pytester.path / "file").touch()
    source = TWO.split('@mark.quant(output="FAIL")')[0]
    result = run_fake(pytester, source, option, "--quant-json=run.json", "--color=yes")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (line,) = [line for line in result.outlines if "--quant-html" in line]
    assert line.startswith("\x1b[31m")
    assert "cannot be written" in line
    assert "next: " in line
    assert _nodeids(pytester.path) == ["test_it.py::test_pass"]
    assert [check["nodeid"] for check in json.loads((pytester.path / "run.json").read_text())["checks"]] == [
        "test_it.py::test_pass"
    ]
    assert "1 check: 1 PASS" in result.stdout.str()


def test_the_history_is_on_the_page_and_its_absence_is_told(pytester: pytest.Pytester) -> None:
    """Of the run itself too, which is in it by then; turned off or damaged, the page is written all the same."""
    for _ in range(2):
        run_fake(pytester, TWO, "--quant-html=page.html")
    said = words_of((pytester.path / "page.html").read_text("utf-8"))
    assert "6 points of 3 series" in said
    run_fake(pytester, TWO, "--quant-html=page.html", "--quant-no-history")
    assert "The history is turned off." in words_of((pytester.path / "page.html").read_text("utf-8"))
    (pytester.path / ".quant" / "history.db").write_bytes(b"damaged " * 1000)
    run_fake(pytester, TWO, "--quant-html=page.html")
    assert "The history cannot be read" in words_of((pytester.path / "page.html").read_text("utf-8"))


def test_the_figures_of_a_real_run_are_those_of_its_document(pytester: pytest.Pytester) -> None:
    """Measured by an engine, written to both files, read back from both."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    _, checks = run_project(pytester, "--quant-html=page.html")
    figures = figures_of((pytester.path / "page.html").read_text("utf-8"))
    accuracy = checks[0]["accuracy"]
    assert {figure.value for figure in figures} >= {accuracy["candidate"], accuracy["drop"]}
    for figure in figures:
        assert figure.value in numbers_of(checks[figure.check]), figure


def test_a_compared_run_shows_its_comparison(pytester: pytest.Pytester) -> None:
    """Or why there is none, in a folder without git."""
    run_fake(pytester, TWO, "--quant-html=page.html", "--quant-compare")
    assert "--quant-compare: " in words_of((pytester.path / "page.html").read_text("utf-8"))
    run_fake(pytester, TWO, "--quant-html=page.html")
    said = words_of((pytester.path / "page.html").read_text("utf-8"))
    assert "This run was not compared with another commit." in said
    assert "pytest --quant-compare --quant-html FILE" in said


def test_a_run_without_the_option_loads_no_templates(pytester: pytest.Pytester) -> None:
    """What makes pages is imported where one is made."""
    looked = "import sys\n\ndef test_none(): assert not {'jinja2', 'pytest_quant.report.page'} & set(sys.modules)\n"
    run_fake_apart(pytester, TWO + looked).assert_outcomes(failed=1, passed=2, xfailed=1)
