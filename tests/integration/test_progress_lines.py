"""Progress reaches the user while pytest captures, in one process and from workers. The session is a fake."""

from __future__ import annotations

import pytest

from pytest_quant.plugin.console import open_console
from tests.integration.fake_session import run_fake_apart

SLOW = "@mark.quant(output='slow')\ndef test_slow():\n    print('captured')\n\ndef test_next(): pass\n"


@pytest.mark.parametrize("args", [(), ("-v",), ("--capture=sys",), ("-s",), ("-n", "2")])
def test_a_long_step_is_shown_on_a_line_of_its_own(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    """Before the outcome of its test, whatever captures; what the test prints stays captured."""
    result = run_fake_apart(pytester, SLOW, *args)
    result.assert_outcomes(passed=2)
    printed = result.errlines if "-n" in args else result.outlines
    shown = [line for line in printed if "quant: building slowly" in line]
    assert shown[0] == "quant: building slowly ..."
    assert shown[1].startswith("quant: building slowly: done after ")
    assert ("captured" in result.stdout.str()) is ("-s" in args)


def test_verbose_names_the_test_again_after_the_lines(pytester: pytest.Pytester) -> None:
    """The outcome stays readable."""
    result = run_fake_apart(pytester, SLOW, "-v")
    result.stdout.fnmatch_lines(["quant: building slowly: done*", "test_it.py::test_slow PASSED*"])


def test_without_a_terminal_nothing_is_shown(pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever turns pytest's output off gets none of ours."""
    open_console(pytester.parseconfigure("-p", "no:terminal"))("hidden")
    assert "hidden" not in "".join(capfd.readouterr())
    open_console(pytester.parseconfigure())("shown")
    assert "shown" in "".join(capfd.readouterr())
