"""Every worker of ``--dist each`` runs every test: each keeps a record of its own, and the worst is shown."""

from __future__ import annotations

import json

import pytest

from pytest_quant.history import open_store
from tests.integration.fake_session import run_fake_apart

ONE_FAILS = """
import os

WORKER = os.environ["PYTEST_XDIST_WORKER"]

@mark.quant(output={"gw0": "FAIL", "gw1": "PASS"}[WORKER])
def test_first_fails(): pass

@mark.quant(output={"gw0": "PASS", "gw1": "FAIL"}[WORKER])
def test_second_fails(): pass

@mark.quant(output="PASS")
def test_both_pass(): pass
"""


def test_a_failure_of_one_worker_is_kept_beside_the_pass_of_the_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Document and history have one record for each worker, which names it."""
    result = run_fake_apart(
        pytester, monkeypatch, ONE_FAILS, "-n", "2", "--dist", "each", "--quant-json=run.json", "--quant-history=h.db"
    )
    result.assert_outcomes(passed=4, failed=2)
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    kept = {(check["nodeid"].split("::")[1], check["worker"]): check["status"] for check in checks}
    assert kept == {
        ("test_first_fails", "gw0"): "FAIL",
        ("test_first_fails", "gw1"): "PASS",
        ("test_second_fails", "gw0"): "PASS",
        ("test_second_fails", "gw1"): "FAIL",
        ("test_both_pass", "gw0"): "PASS",
        ("test_both_pass", "gw1"): "PASS",
    }
    store = open_store(pytester.path / "h.db")
    (run,) = store.runs()
    stored = {(record.nodeid.split("::")[1], record.worker): record.status for record in store.records(run.run.id)}
    assert stored == kept
    assert len(checks) == len(store.records(run.run.id)) == 6


def test_the_table_has_one_row_for_each_test_with_its_worst_status(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever worker reports last; where they differ a line says who found what."""
    result = run_fake_apart(pytester, monkeypatch, ONE_FAILS, "-n", "2", "--dist", "each")
    section = result.stdout.str().split("= quant =")[1]
    rows = [line.split() for line in section.splitlines() if line.startswith("test_")]
    assert {row[0]: row[-1] for row in rows} == {
        "test_first_fails": "FAIL",
        "test_second_fails": "FAIL",
        "test_both_pass": "PASS",
    }
    assert len(rows) == 3
    assert "3 checks: 1 PASS, 2 FAIL" in section
    assert "workers differ: test_it.py::test_first_fails: FAIL on gw0, PASS on gw1" in section
    assert "workers differ: test_it.py::test_second_fails: PASS on gw0, FAIL on gw1" in section
    assert "test_both_pass:" not in section


def test_workers_that_share_the_tests_are_not_told_apart(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which worker a test ran on says nothing there, and a test that moves to another one has one record."""
    run_fake_apart(
        pytester, monkeypatch, "@mark.quant(output='PASS')\ndef test_it(): pass\n", "-n", "2", "--quant-json=run.json"
    )
    (check,) = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert check["worker"] is None
