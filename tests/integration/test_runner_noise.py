"""The noise of this runner reaches the plan of each check, and limits below it are named. The session is a fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.environment import fingerprint
from pytest_quant.history import open_store
from pytest_quant.history.runner_noise import session_noise
from pytest_quant.history.selftests import keep_selftest
from pytest_quant.result import Environment
from pytest_quant.spec import UNMEASURED_SESSION_SD
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.unit.history.noisy import a_selftest, run_number, with_null

ONE = """
@mark.quant(output="PASS")
def test_it(quant):
    plan = quant.check.latency
    with open("sd", "a") as file:
        file.write(f"{plan and plan.session_sd!r}\\n")

@mark.quant(output="PASS", batch_size=2)
def test_other(quant):
    test_it(quant)
"""


def _history(folder: Path) -> Path:
    """A history of this machine with 100 nulls of sessions that differ by 3 %."""
    place = folder / ".quant" / "history.db"
    here = Environment(fingerprint().identity, {})
    logs = [0.03 if index % 2 else -0.03 for index in range(100)]
    runs = [(run_number(index, environment=here), [with_null(one)]) for index, one in enumerate(logs)]
    open_store(place).append_many(runs)
    return place


def _plans(folder: Path) -> list[str]:
    return (folder / "sd").read_text().splitlines()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_plan_has_the_noise_of_the_history(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    """As the history tells it before the run, for every check, and under xdist too."""
    place = _history(pytester.path)
    expected = session_noise(place, fingerprint().identity, "cpu").sd
    assert expected > 5 * UNMEASURED_SESSION_SD
    result = run_fake_apart(pytester, monkeypatch, ONE, "-n", workers)
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(expected)] * 2


def test_without_a_history_the_plan_has_the_default(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read where it is turned off, and nothing is said."""
    _history(pytester.path)
    result = run_fake(pytester, monkeypatch, ONE, "--quant-no-history")
    assert _plans(pytester.path) == [repr(UNMEASURED_SESSION_SD)] * 2
    assert "noise of this runner" not in output(result)


def test_a_run_without_latency_reads_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no plan."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake(pytester, monkeypatch, ONE, "--quant-no-latency", "--quant-history=history.db")
    assert _plans(pytester.path) == ["None"] * 2
    assert "noise of this runner" not in output(result)


def test_a_history_that_cannot_be_read_changes_nothing_but_a_note(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the process: the tests keep their outcomes."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake_apart(pytester, monkeypatch, ONE, "--quant-history=history.db")
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(UNMEASURED_SESSION_SD)] * 2
    notes = [line for line in result.outlines if "noise of this runner" in line]
    assert len(notes) == 1, output(result)
    assert "the default of a runner that nobody measured" in notes[0]


TIGHT = """
@mark.quant(output="PASS", max_slowdown=1)
def test_one(): pass

@mark.quant(output="PASS", max_slowdown=1)
def test_two(): pass

@mark.quant(output="PASS", max_slowdown="3 %", min_speedup=1/1.02, max_p50_increase=1.5)
def test_three(): pass

@mark.quant(output="PASS", min_speedup=1.5)
def test_fast(): pass

@mark.quant(output="PASS", max_drop=1)
def test_accurate(): pass
"""
SAID = "is less than this runner holds"


def _self_tested(folder: Path, measured_at: str = "2026-01-01T00:00:00+00:00") -> None:
    """A history in which this machine holds 2.1 to 4.4 %."""
    found = a_selftest(identity=fingerprint().identity, measured_at=measured_at)
    keep_selftest(folder / ".quant" / "history.db", found)


def _said(result: pytest.RunResult) -> list[str]:
    return [line for line in [*result.outlines, *result.errlines] if SAID in line]


@pytest.mark.parametrize("args", [(), ("-q",), ("-n", "2")])
def test_limits_that_the_runner_cannot_hold_are_told_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    """Each with its tests, before they run, with the limit to write and what holds a smaller one; 3 % is held."""
    _self_tested(pytester.path)
    result = run_fake_apart(pytester, monkeypatch, TIGHT, *args)
    result.assert_outcomes(passed=5)
    said = _said(result)
    assert len(said) == 3, output(result)
    assert "max_slowdown=1 of test_it.py::test_one and 1 more is less" in said[0]
    assert "2.1 % (compute-bound models) to 4.4 % (memory-bound models) in one launch" in said[0]
    assert "allow 5 %, or take --quant-launches 5 (it holds 1.1 %)" in said[0]
    assert "max_p50_increase=1.5 of test_it.py::test_three is less" in said[1]
    assert "min_speedup=0.9804 of test_it.py::test_three is less" in said[2]


def test_with_several_launches_a_smaller_limit_is_held(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five, the runner holds 1.1 %: 1.5 and 2 % are no longer named."""
    _self_tested(pytester.path)
    (said,) = _said(run_fake_apart(pytester, monkeypatch, TIGHT, "--quant-launches=auto"))
    assert "max_slowdown=1 of test_it.py::test_one and 1 more is less" in said
    assert "in five launches" in said


def test_it_is_told_before_the_first_check(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the number of tests that were collected."""
    _self_tested(pytester.path)
    lines = run_fake_apart(pytester, monkeypatch, TIGHT).outlines
    places = [
        next(at for at, line in enumerate(lines) if text in line) for text in ("collected 5", SAID, "test_it.py ..")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "args",
    [("--quant-no-latency",), ("--quant-no-history",), ("--collect-only",), ("-k", "fast or accurate")],
)
def test_it_is_not_told_where_it_does_not_matter(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    """Nothing is timed, nothing is known, or none of these tests runs."""
    _self_tested(pytester.path)
    assert _said(run_fake_apart(pytester, monkeypatch, TIGHT, *args)) == []


def test_a_runner_that_was_never_tested_is_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nulls of ordinary runs say how sessions differ, and nothing of launches."""
    _history(pytester.path)
    assert _said(run_fake_apart(pytester, monkeypatch, TIGHT)) == []
