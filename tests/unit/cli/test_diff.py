"""A change of a file is shown as git shows it."""

from __future__ import annotations

import difflib

import pytest

from pytest_quant.cli.accept import show_diff


def test_changes_are_a_unified_diff(capsys: pytest.CaptureFixture[str]) -> None:
    """As difflib writes it, which ``git apply`` reads."""
    before, after = "a\nb\nc\n", "a\nB\nc\n"
    show_diff(before, after, "file")
    expected = difflib.unified_diff(before.splitlines(), after.splitlines(), "a/file", "b/file", lineterm="")
    assert capsys.readouterr().out.splitlines() == list(expected)


def test_no_change_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of nothing."""
    show_diff("a\n", "a\n", "file")
    assert capsys.readouterr().out == "file stays as it is\n"


def test_escapes_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file that somebody edited."""
    show_diff("", "\x1b]0;title\x07\n", "file")
    shown = capsys.readouterr().out
    assert "\x1b]" not in shown
    assert "title" in shown
