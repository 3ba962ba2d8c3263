"""Hostile input of every kind, drawn by hypothesis: nothing but our own errors comes out, and they can be printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from pytest_quant.errors import UsageError
from tests.fuzz.__main__ import main
from tests.fuzz.apart import OurError, meet_apart
from tests.fuzz.hunt import Escaped, Tally, Target, hunt, repeat
from tests.fuzz.misbehaving import crash, never_end, refuse
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_errors_comes_out(name: str) -> None:
    """The same inputs each time; ``python -m tests.fuzz`` draws others, for as long as it is told."""
    tally, target = Tally(), TARGETS[name]
    hunt(target, 0, target.examples, tally)
    assert [finding.text for finding in tally.findings.values()] == []
    assert tally.tried > 0


def _picky(case: int) -> None:
    if case > 1000:
        raise KeyError(case)
    if case > 10:
        raise UsageError("too large", value=str(case))


def test_a_finding_is_shrunk_and_can_be_repeated() -> None:
    """The smallest number above 1000; our own errors count as refused."""
    tally = Tally()
    target = Target("numbers", st.integers(0, 10_000), _picky, examples=200)
    hunt(target, 1, 200, tally)
    (finding,) = tally.findings.values()
    assert "case=1001" in finding.text
    assert tally.refused > 0
    with pytest.raises(KeyError, match="1001"):
        repeat(target, finding.again)


def test_a_message_that_would_act_upon_a_terminal_is_a_finding() -> None:
    """Whatever the error is called."""

    def shout(case: str) -> None:
        error = UsageError("printable")
        error.value = case
        raise error

    tally = Tally()
    hunt(Target("texts", st.sampled_from(("a", "\x1b[2J")), shout, examples=10), 0, 10, tally)
    (finding,) = tally.findings.values()
    assert finding.place.startswith("RawControlError")


@pytest.mark.parametrize(("misbehave", "kind"), [(crash, "Died of SIGSEGV"), (never_end, "NeverEnds")])
def test_a_process_that_dies_or_never_ends_is_a_finding(misbehave: Any, kind: str) -> None:
    """Native code may do both, and would take the user's pytest with it."""
    with pytest.raises(Escaped) as caught:
        meet_apart(misbehave, None, cpu_s=1)
    assert caught.type.__name__ == kind


def test_an_error_of_ours_in_a_process_of_its_own_is_ours() -> None:
    """With its message."""
    with pytest.raises(OurError, match="not this one"):
        meet_apart(refuse, None)


def test_the_command_tells_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs, minutes and findings of a target, and exit status 0 where nothing was found."""
    assert main(["--minutes", "0.001", "--target", "baselines", "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert "baselines: " in printed
    assert "0 findings, seed 1" in printed
