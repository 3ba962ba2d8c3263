"""A benchmark is red when its whole interval is beyond the limit, in two processes; what is open is reported."""

from __future__ import annotations

import warnings

import pytest

from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.limits import AGAIN, BeyondLimitError, OpenLimitWarning, at_least, at_most, judge_again

JUDGED = "from pathlib import Path\n\n\ndef test_it():\n    Path('ran').touch()\n    assert {holds}\n"


@pytest.mark.parametrize("found", [0.9, 1.0, Estimate(0.9, 0.8, 1.0)])
def test_within_the_limit_nothing_is_said(found: float | Estimate) -> None:
    """The limit itself is allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_most(found, 1.0, "ratio")
        at_least(found, 0.8, "ratio")


@pytest.mark.parametrize("value", [0.99, 1.01])
def test_an_interval_that_covers_the_limit_is_reported(value: float) -> None:
    """On whichever side of it the estimate is."""
    found = Estimate(value, 0.9, 1.1)
    for judge in (at_most, at_least):
        with pytest.warns(OpenLimitWarning, match="inconclusive: ratio"):
            judge(found, 1.0, "ratio")


@pytest.mark.parametrize("found", [1.1, Estimate(1.2, 1.1, 1.3)])
def test_beyond_the_limit_is_an_error_with_the_figures(found: float | Estimate) -> None:
    """Above the most that is allowed, and below the least that is asked for."""
    with pytest.raises(BeyondLimitError, match="at most 1 is allowed"):
        at_most(found, 1.0, "ratio")
    with pytest.raises(BeyondLimitError, match=r"at least 1\.5 is asked for"):
        at_least(found, 1.5, "ratio")


def test_it_is_red_when_a_fresh_process_says_the_same(pytester: pytest.Pytester) -> None:
    """Both are in the message."""
    pytester.makepyfile(test_it=JUDGED.format(holds=False))
    with pytest.raises(BeyondLimitError, match=r"(?s)beyond; a fresh process says:.*1 failed"):
        judge_again(pytester.path, "test_it.py", BeyondLimitError("beyond"))
    assert (pytester.path / "ran").exists()


def test_it_is_reported_when_a_fresh_process_says_otherwise(pytester: pytest.Pytester) -> None:
    """Once beyond, once within."""
    pytester.makepyfile(test_it=JUDGED.format(holds=True))
    with pytest.warns(OpenLimitWarning, match="beyond; not so in a fresh process"):
        judge_again(pytester.path, "test_it.py", BeyondLimitError("beyond"))
    assert (pytester.path / "ran").exists()


def test_the_fresh_process_starts_no_other(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It judges by itself."""
    monkeypatch.setenv(AGAIN, "1")
    pytester.makepyfile(test_it=JUDGED.format(holds=True))
    with pytest.raises(BeyondLimitError, match=r"^beyond$"):
        judge_again(pytester.path, "test_it.py", BeyondLimitError("beyond"))
    assert not (pytester.path / "ran").exists()
