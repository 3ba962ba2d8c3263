"""The command ``pytest-quant diagnose`` around its run of pytest."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands, diagnose
from pytest_quant.errors import UsageError
from pytest_quant.record import to_json
from tests.unit.report.test_cause_text import EXPLAINED, SAID


@pytest.mark.parametrize(
    ("text", "seconds"), [("300", 300), ("90s", 90), ("5m", 300), ("1.5min", 90), (" 2 h ", 7200), ("0.5s", 0.5)]
)
def test_a_budget_has_the_unit_that_it_is_written_with(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    """Seconds without one; pytest gets it in seconds, before the options of the user, which overrule it."""
    asked: list[tuple[object, ...]] = []

    def ask(*words: object) -> object:
        asked.append(words)
        return to_json(EXPLAINED)

    monkeypatch.setattr(diagnose, "ask_alone", ask)
    ran = CliRunner().invoke(commands, ["diagnose", "test_a.py", "--budget", text, "--", "-x"], catch_exceptions=False)
    assert ran.exit_code == 0
    (words,) = asked
    assert words[:4] == ("test_a.py", "diagnose", ("-x",), f"--quant-diagnose-time={seconds:g}")


@pytest.mark.parametrize("text", ["", "five", "0", "0m", "-5", "5 weeks", "1e3", "5m 3s", "nan"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """With what may be written."""
    with pytest.raises(UsageError, match="300, 90s, 5m or 1h"):
        CliRunner().invoke(commands, ["diagnose", "test_a.py", "--budget", text], catch_exceptions=False)


def test_it_prints_the_text_or_the_cause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text without colours where there is no terminal; as JSON it is that of the record."""
    monkeypatch.setattr(diagnose, "ask_alone", lambda *_: to_json(EXPLAINED))
    ran = CliRunner().invoke(commands, ["diagnose", "test_a.py"], catch_exceptions=False)
    assert ran.stdout == f"{SAID}\n"
    ran = CliRunner().invoke(commands, ["diagnose", "test_a.py", "--json"], catch_exceptions=False)
    assert json.loads(ran.stdout) == to_json(EXPLAINED)["cause"]
