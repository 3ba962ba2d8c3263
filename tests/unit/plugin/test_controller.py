"""The controlling process keeps one record of each test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_quant.marks import RECORD_ATTRIBUTE
from pytest_quant.plugin.controller import Controller
from pytest_quant.record import failed_record
from pytest_quant.result import Status
from pytest_quant.spec import Check, Dataset, EngineSpec, Model


def _report(nodeid: str, status: Status | None, worker: str = "") -> pytest.TestReport:
    spec = EngineSpec("ort", "fp32", None, Model("m"))
    check = Check(nodeid, nodeid, spec, spec, Dataset("arrays", None))
    report = pytest.TestReport(nodeid, ("t.py", 0, nodeid), {}, "passed", None, "call")
    if status is not None:
        vars(report)[RECORD_ATTRIBUTE] = failed_record(check, status=status, message="why").json
    if worker:
        vars(report).update(worker_id=worker, item_index=0)
    return report


def test_of_several_reports_of_one_test_the_last_counts(pytester: pytest.Pytester) -> None:
    """A rerun replaces the record and keeps its place; reports without a record change nothing."""
    file = Path("run.json")
    controller = Controller(pytester.parseconfig(f"--quant-json={file}", "--quant-no-history"))
    for nodeid, status in (("a", Status.ERROR), ("b", Status.PASS), ("a", Status.UNAVAILABLE), ("b", None)):
        controller.pytest_runtest_logreport(_report(nodeid, status))
    session = pytest.Session.from_config(pytester.parseconfig())
    session.exitstatus = pytest.ExitCode.OK
    controller.pytest_sessionfinish(session)
    checks = json.loads(file.read_text())["checks"]
    assert [(check["nodeid"], check["status"]) for check in checks] == [("a", "UNAVAILABLE"), ("b", "PASS")]
    assert session.exitstatus is pytest.ExitCode.OK


def _kept(pytester: pytest.Pytester, reports: list[pytest.TestReport], *args: str) -> list[tuple[str, str]]:
    """The node id and status of each record of a run with these reports."""
    controller = Controller(pytester.parseconfig("--quant-json=run.json", "--quant-no-history", *args))
    for report in reports:
        controller.pytest_runtest_logreport(report)
    session = pytest.Session.from_config(pytester.parseconfig())
    session.exitstatus = pytest.ExitCode.OK
    controller.pytest_sessionfinish(session)
    checks = json.loads(Path("run.json").read_text())["checks"]
    return [(check["nodeid"], check["status"]) for check in checks]


def test_a_test_that_another_worker_runs_again_has_one_record(pytester: pytest.Pytester) -> None:
    """A worker may die after its report, and another one then has the test."""
    reports = [_report("a", Status.ERROR, "gw0"), _report("a", Status.PASS, "gw1")]
    assert _kept(pytester, reports, "--dist=load") == [("a", "PASS")]
