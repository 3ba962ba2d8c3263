"""The noise of this runner reaches the plan of each check, and limits below it are named. The session is a fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.environment import fingerprint
from pytest_quant.history import open_store
from pytest_quant.history.selftests import session_noise
from pytest_quant.result import Environment
from pytest_quant.spec import UNMEASURED
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.unit.history.noisy import run_number, with_null

ONE = """
@mark.quant(output="PASS")
def test_it(quant):
    plan = quant.check.latency
    with open("sd", "a") as file:
        file.write(f"{plan and plan.sessions.sd!r}\\n")

@mark.quant(output="PASS", batch_size=2)
def test_other(quant):
    test_it(quant)
"""


def _history(folder: Path) -> Path:
    """A history of this machine with 100 nulls of sessions that differ by 3 %."""
    place = folder / ".quant" / "history.db"
    here = Environment(fingerprint().identity, {})
    logs = [0.03 if index % 2 else -0.03 for index in range(100)]
    runs = [(run_number(index, environment=here), [with_null(log)]) for index, log in enumerate(logs)]
    open_store(place).append_many(runs)
    return place


def _plans(folder: Path) -> list[str]:
    return (folder / "sd").read_text().splitlines()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_plan_has_the_noise_of_the_history(pytester: pytest.Pytester, workers: str) -> None:
    """As the history tells it before the run, for every check, and under xdist too."""
    place = _history(pytester.path)
    expected = session_noise(place, fingerprint().identity, "cpu").sessions.sd
    assert expected > 5 * UNMEASURED.sd
    result = run_fake_apart(pytester, ONE, "-n", workers)
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(expected)] * 2


def test_without_a_history_the_plan_has_the_default(pytester: pytest.Pytester) -> None:
    """Nothing is read where it is turned off, and nothing is said."""
    _history(pytester.path)
    result = run_fake(pytester, ONE, "--quant-no-history")
    assert _plans(pytester.path) == [repr(UNMEASURED.sd)] * 2
    assert "noise of this runner" not in output(result)


def test_a_run_without_latency_reads_nothing(pytester: pytest.Pytester) -> None:
    """It has no plan."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake(pytester, ONE, "--quant-no-latency", "--quant-history=history.db")
    assert _plans(pytester.path) == ["None"] * 2
    assert "noise of this runner" not in output(result)


def test_a_history_that_cannot_be_read_changes_nothing_but_a_note(pytester: pytest.Pytester) -> None:
    """Once for the process: the tests keep their outcomes."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake_apart(pytester, ONE, "--quant-history=history.db")
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(UNMEASURED.sd)] * 2
    notes = [line for line in result.outlines if "noise of this runner" in line]
    assert len(notes) == 1, output(result)
    assert "the default of a runner that nobody measured" in notes[0]
