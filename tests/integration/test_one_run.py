"""One run with each status, alone and with workers: all that it prints and writes. The session is a fake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET  # the file is our own run's
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.history import open_store
from tests.integration.fake_session import CONFTEST, PLUGIN, write_fake
from tests.support.example import ROOT
from tests.support.pages import words_of

SUITE = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass

@mark.quant(output="INCONCLUSIVE")
def test_inconclusive(): pass

@mark.quant(output="NO_BASELINE")
def test_no_baseline(): pass

@mark.quant(output="unavailable")
def test_unavailable(): pass

@mark.quant(output="broken")
def test_broken(): pass

@mark.quant(output="bug")
def test_bug(): pass

@mark.quant(output="unkept")
def test_unkept(): pass

@mark.quant(output="FAIL")
def test_body(): raise RuntimeError("the body is wrong")

@mark.quant(output="FAIL")
def test_own(): pytest.fail("my own")

@mark.quant(output="FAIL")
@mark.xfail(strict=True, raises=pytest.fail.Exception)
def test_expected(): pass

@mark.quant(output="broken")
@mark.xfail(reason="no such model yet")
def test_unbuildable(): pass

@mark.quant(precision=["fp32", "int8"], scheme=["static", "dynamic"])
def test_ladder(quant): assert quant.engine.spec.id in {"ort-fp32", "ort-int8-static", "ort-int8-dynamic"}

@mark.quant(batch_size=[1, 8])
def test_batches(): pass

@mark.quant(precision=["int8"])
@mark.parametrize("x", ["a", "b"])
class TestBoth:
    def test_it(self, x): pass

@mark.quant(precision="int8")
@mark.xdist_group("g")
def test_single(): pass
"""
STATUSES = {
    "test_pass": "PASS",
    "test_fail": "FAIL",
    "test_inconclusive": "INCONCLUSIVE",
    "test_no_baseline": "NO_BASELINE",
    "test_unavailable": "UNAVAILABLE",
    "test_broken": "ERROR",
    "test_bug": "ERROR",
    "test_unkept": "ERROR",
    "test_body": "FAIL",
    "test_own": "FAIL",
    "test_expected": "FAIL",
    "test_unbuildable": "ERROR",
    "test_ladder[ort-fp32]": "PASS",
    "test_ladder[ort-int8-static]": "PASS",
    "test_ladder[ort-int8-dynamic]": "PASS",
    "test_batches[ort-int8-static-b1]": "PASS",
    "test_batches[ort-int8-static-b8]": "PASS",
    "TestBoth::test_it[a-ort-int8-static]": "PASS",
    "TestBoth::test_it[b-ort-int8-static]": "PASS",
    "test_single": "PASS",
}
COUNTS = "20 checks: 9 PASS, 1 NO_BASELINE, 1 INCONCLUSIVE, 1 UNAVAILABLE, 3 FAIL, 3 ERROR, 2 XFAIL"
IN_A_SERIES = {
    **{name: "test_ladder" for name in STATUSES if name.startswith("test_ladder")},
    **{name: "test_batches" for name in STATUSES if name.startswith("test_batches")},
    "TestBoth::test_it[a-ort-int8-static]": "TestBoth::test_it[a]",
    "TestBoth::test_it[b-ort-int8-static]": "TestBoth::test_it[b]",
}
"""Test of the series where that is not the test's own name."""

HOOK = (
    CONFTEST
    + """
import json
from pathlib import Path
from pytest_quant import Record
from pytest_quant.history import open_store

def pytest_quant_record(record, run, config):
    assert type(record) is Record
    kept = [one.run.id for one in open_store(".quant/history.db").runs()]
    seen = {
        "nodeid": record.nodeid,
        "worker": hasattr(config, "workerinput"),
        "kept": run.id in kept and Path("run.json").exists(),
    }
    with open("seen.jsonl", "a") as file:
        print(json.dumps(seen), file=file)
"""
)
OUTPUTS = (
    "--quant-json=run.json",
    "--junitxml=junit.xml",
    "--quant-html=out/page.html",
    "--quant-markdown=out/quant.md",
)
NODEIDS = [f"test_it.py::{name}" for name in STATUSES]


@dataclass(frozen=True, slots=True)
class Run:
    """The folder of the run, its exit code, and what it printed."""

    folder: Path
    returncode: int
    text: str

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks of its document."""
        result: list[dict[str, Any]] = json.loads((self.folder / "run.json").read_text("utf-8"))["checks"]
        return result

    def row(self, test: str) -> str:
        """Return the row of the table that begins with the name of the test."""
        (line,) = [line for line in self.text.splitlines() if line.startswith(f"{test} ")]
        return line


@pytest.fixture(scope="module", params=[("-n", "0"), ("-n", "2", "--dist", "loadgroup")], ids=["alone", "workers"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run, in one process or in two workers."""
    folder = tmp_path_factory.mktemp("one_run")
    write_fake(folder, SUITE, HOOK)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = ("-p", PLUGIN, "-p", "no:cacheprovider", "-ra", *OUTPUTS, *request.param)
    ended = subprocess.run(
        (sys.executable, "-m", "pytest", *options),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Run(folder, ended.returncode, ended.stdout)


def test_each_status_has_its_outcome_and_its_record(run: Run) -> None:
    """Failures fail, errors are errors in set-up, UNAVAILABLE is skipped, and every check has one record, in order."""
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    summary = "3 failed, 11 passed, 1 skipped, 2 xfailed, 1 warning, 3 errors"
    assert run.text.splitlines()[-1].strip("= ").startswith(summary), run.text
    assert [(check["nodeid"], check["status"]) for check in run.checks] == list(
        zip(NODEIDS, STATUSES.values(), strict=True)
    )


def test_lists_in_a_mark_are_tests_of_one_series(run: Run) -> None:
    """Ids name the engines; series leave out what our lists and xdist's groups add."""
    series = [json.loads(check["series"])[0].partition("::")[2] for check in run.checks]
    assert series == [IN_A_SERIES.get(name, name) for name in STATUSES]
    assert [check["batch_size"] for check in run.checks if "batches" in check["nodeid"]] == [1, 8]


def test_junit_counts_the_statuses_and_names_the_broken_limit(run: Run) -> None:
    """Each testcase has the status of its check; a failure that the body asks for keeps its own message."""
    suite = ET.parse(run.folder / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert [suite.attrib[name] for name in ("failures", "errors", "skipped")] == ["3", "3", "3"]
    properties = [item.attrib["value"] for item in suite.iter("property") if item.attrib["name"] == "quant.status"]
    assert sorted(properties) == sorted(STATUSES.values())
    messages = {failure.attrib["message"] for failure in suite.iter("failure")}
    assert messages == {"max_drop 2 > 1.0", "Failed: my own", "RuntimeError: the body is wrong"}


def test_the_terminal_shows_one_table_and_both_figures_of_a_broken_limit(run: Run) -> None:
    """What was expected to fail is XFAIL; a check that could not be made says why in its row.

    A limit that was not judged is a warning of a name of its own; a skip says the fix, and the line of its test.
    """
    assert run.text.count("= quant =") == 1
    assert " XFAIL" in run.row("test_expected")
    assert " XFAIL" in run.row("test_unbuildable")
    assert "the engine is broken" in run.row("test_broken")
    assert COUNTS in run.text
    assert "FAILED test_it.py::test_fail - max_drop 2 > 1.0" in run.text
    assert "FAILED test_it.py::test_own - Failed: my own" in run.text
    assert "InconclusiveWarning: max_drop: the reason of INCONCLUSIVE" in run.text
    line = SUITE[: SUITE.index("def test_unavailable")].count("\n") + 2
    assert f"test_it.py:{line}: backend 'ort' cannot run here: fake; pip install fake" in run.text


def test_verdicts_and_errors_are_text_and_only_bugs_are_traced(run: Run) -> None:
    """A broken limit and a broken engine explain themselves; a bug and the body show their lines."""

    def section(head: str) -> str:
        return run.text.partition(f"{head} ___")[2].partition("\n____")[0]

    assert "\nthe engine is broken\n  got: this\n  next: repair it" in section("ERROR at setup of test_broken")
    assert "ZeroDivisionError: a bug" in section("ERROR at setup of test_bug")
    assert "the reason of FAIL" in section(" test_fail")
    assert ".py:" not in section(" test_fail")
    assert "RuntimeError: the body is wrong" in section(" test_body")
    assert "Traceback" not in run.text


def test_every_record_is_in_the_history_once(run: Run) -> None:
    """As one run, by default under the root."""
    store = open_store(run.folder / ".quant" / "history.db")
    stored = [[record.nodeid for record in store.records(each.run.id)] for each in store.runs()]
    assert stored == [NODEIDS]


def test_the_page_has_every_check_in_order(run: Run) -> None:
    """In a folder that is made for it."""
    html = (run.folder / "out" / "page.html").read_text("utf-8")
    shown = ("PASS", "FAIL", "INCONCLUSIVE", "NO_BASELINE", "UNAVAILABLE", "ERROR", "XFAIL")
    places = [html.index(f'data-status="{status}" data-words="test_it.py::') for status in shown]
    assert places == sorted(places)
    assert "3 FAIL" in words_of(html)


def test_the_document_for_a_pull_request_has_the_verdict_and_what_is_broken(run: Run) -> None:
    """Behind the marker by which a comment is found again."""
    lines = (run.folder / "out" / "quant.md").read_text("utf-8").splitlines()
    assert lines[0] == "<!-- pytest-quant comment -->"
    assert lines[1] == f"**FAIL: {COUNTS}**"
    row = "| **FAIL** | test_it.py::test_fail model ort-int8-static | max_drop | 1.0 | 2 |"
    assert [line for line in lines if line.startswith(row)]


def test_the_hook_is_called_once_for_each_check_when_all_is_written(run: Run) -> None:
    """In the controlling process, in the order of the tests, with the checks that could not be measured."""
    calls = [json.loads(line) for line in (run.folder / "seen.jsonl").read_text().splitlines()]
    assert calls == [{"nodeid": nodeid, "worker": False, "kept": True} for nodeid in NODEIDS]
    assert "pytest_quant_record" not in run.text
