"""The machine's health says when it was self-tested and what it holds, or how to find out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.doctor.examine import describe
from pytest_quant.doctor.probe import Examination
from pytest_quant.doctor.runner import runner_line
from pytest_quant.environment import fingerprint
from pytest_quant.history.selftests import keep_selftest
from tests.unit.history.noisy import a_selftest


def test_without_a_self_test_it_says_how(tmp_path: Path) -> None:
    """And creates no history."""
    assert runner_line(str(tmp_path / "history.db")).endswith("to find out: pytest-quant selftest --quick")
    assert list(tmp_path.iterdir()) == []


def test_the_newest_self_test_says_what_it_holds(tmp_path: Path) -> None:
    """With its day, the best kind of model and the worst."""
    place = str(tmp_path / "history.db")
    keep_selftest(place, a_selftest(identity=fingerprint().identity))
    keep_selftest(place, a_selftest(identity={"cpu": "another"}, measured_at="2026-05-05T00:00:00+00:00"))
    assert runner_line(place).startswith(
        "self-test of 2026-01-01: smallest limit in one launch 2.1 % (compute-bound models) to 4.4 %"
    )


def test_a_history_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The rest of the examination goes on."""
    (tmp_path / "history.db").write_text("no database")
    assert "cannot be opened" in runner_line(str(tmp_path / "history.db"))


def test_it_is_one_line_of_the_machine() -> None:
    """Absent where no history was asked."""
    names = ("pytest-quant", "cpu", "isa", "cores", "gpus", "python", "os", "arch")
    examination = Examination(dict.fromkeys(names, "x"), (), (), ())
    assert "runner" not in describe(examination)
    lines = describe(replace(examination, runner="self-test of 2026-01-01")).splitlines()
    assert [line for line in lines if "self-test" in line] == ["  runner  self-test of 2026-01-01"]
