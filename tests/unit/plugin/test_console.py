"""What a step leaves on a terminal and in a log, beside what pytest writes there."""

from __future__ import annotations

import io
import re
import sys

import pytest

from pytest_quant.plugin.console import open_steps


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """Be one."""
        return True

    def rows(self) -> list[str]:
        """Return what it shows."""
        rows, row, column = [""], 0, 0
        for number, code, text in re.findall(r"\x1b\[(\d*)([ACK])|(\r|\n|[^\x1b\r\n]+)", self.getvalue()):
            if code == "K":
                rows[row] = rows[row][:column]
            elif code:
                row, column = (row - 1, column) if code == "A" else (row, column + int(number))
            elif text in ("\r", "\n"):
                row, column = row + (text == "\n"), 0
                rows += [""] * (row == len(rows))
            else:
                rows[row] = rows[row][:column] + text
                column += len(text)
        return rows


class Run:
    """The steps of a run of pytest on a terminal of 80 columns, with a clock that is set by hand."""

    def __init__(self, pytester: pytest.Pytester, patch: pytest.MonkeyPatch, *args: str) -> None:
        patch.setenv("COLUMNS", "80")
        self.terminal, self.now_s = Terminal(), 0.0
        patch.setattr(sys, "stdout", self.terminal)
        config = pytester.parseconfigure("--color=yes", *args)
        self.write, self.steps = config.get_terminal_writer().write, open_steps(config)
        patch.setattr(self.steps, "clock", lambda: self.now_s)
        patch.setattr(self.steps, "start", lambda _: None)

    def rows_at(self, now_s: float) -> list[str]:
        """Return what the terminal shows then."""
        self.now_s = now_s
        self.steps.look()
        return self.terminal.rows()


@pytest.mark.parametrize("before", ["", "test_it.py .."])
def test_on_a_terminal_nothing_is_left_of_a_step(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """It has a line below that of pytest, which goes on as if nothing had been; only messages stay."""
    run, rows = Run(pytester, monkeypatch), [before] if before else []
    run.write(before)
    with run.steps.show("building x"):
        assert run.rows_at(1) == [before]
        assert run.rows_at(2) == [*rows, "quant: 2 s: building x"]
        assert run.rows_at(4) == [*rows, "quant: 4 s: building x"]
    run.write(".")
    assert "".join(run.terminal.rows()) == f"{before}."
    with run.steps.show("x" * 200):
        assert run.rows_at(6) == [f"{before}.", f"quant: 2 s: {'x' * 67}"]
        run.steps.notify("waiting for cpu")
        run.rows_at(8)
    run.write("F")
    assert run.terminal.rows() == [f"{before}.", "quant: waiting for cpu", "F"]


@pytest.mark.parametrize(
    ("args", "shows"),
    [
        (["-q"], False),
        (["-s"], True),
        (["--capture=sys"], True),
        (["-qs", "--quant-profile=f"], True),
        (["-qs", "--quant-diagnose=f"], True),
    ],
)
def test_where_lines_stay_each_begins_a_new_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: list[str], shows: bool
) -> None:
    """Where others may write between, and for `profile` and `diagnose`; a quiet run only says who is waited for."""
    run = Run(pytester, monkeypatch, *args)
    run.write("F.  [100%]")
    with run.steps.show("building x"):
        assert run.rows_at(9) == ["F.  [100%]"]
        run.rows_at(10)
        run.steps.notify("waiting for cpu")
    shown = [row.removeprefix("quant: ") for row in run.terminal.rows()]
    step = ["10 s: building x", "waiting for cpu", "building x: took 10 s", ""]
    assert shown == ["F.  [100%]", *(step if shows else ["waiting for cpu", ""])]
