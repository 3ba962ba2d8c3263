"""Whether limits hold on another kind of processor, and the limit on processors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import AccuracyResult, OutputError, OutputFault, Portability, Status
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from pytest_quant.verdict.processors import judge_elsewhere, processor_verdicts

HERE = AccuracyResult(
    n=64,
    metric="top1",
    unit="%",
    better="higher",
    reference=90.625,
    candidate=90.625,
    drop=0.0,
    agreement_pct=100.0,
    sample_weight=100 / 64,
    sqnr_db=29.4,
    by_output=(OutputError("y", sqnr_db=29.4),),
)


def _there(drop: float, agreement_pct: float, sqnr_db: float) -> AccuracyResult:
    errors = (OutputError("y", sqnr_db=sqnr_db),)
    return replace(
        HERE, candidate=90.625 - drop, drop=drop, agreement_pct=agreement_pct, sqnr_db=sqnr_db, by_output=errors
    )


SAME = _there(0.0, 100.0, 29.0)
WORSE = _there(12.5, 70.3125, 12.0)
CASES = [
    (Limits(), SAME, "any"),
    (Limits(), WORSE, "vnni"),
    (Limits(), _there(0.0, 100.0, 27.4), None),
    (Limits(min_sqnr_db=20.0), _there(0.0, 100.0, 21.0), "any"),
    (Limits(min_sqnr_db=20.0), WORSE, "vnni"),
    (Limits(min_agreement=90.0), WORSE, "vnni"),
    (Limits(max_drop=1.0), SAME, "any"),
    (Limits(), replace(SAME, identical=True, sqnr_db=None), "any"),
    (Limits(), replace(SAME, sqnr_db=None), None),
    (Limits(), replace(SAME, faults=(OutputFault("y", "not finite", 3, "NaN"),)), "vnni"),
    (Limits(max_drop=1.0), _there(0.0, 100.0, 20.0), None),
    (Limits(max_drop=1.0), _there(1.5625, 98.4375, 29.0), None),
    (Limits(min_sqnr_db=40.0), replace(SAME, by_output=(OutputError("y", sqnr_db=29.0),)), None),
]


@pytest.mark.parametrize(("limits", "there", "holds"), CASES)
def test_limits_are_judged_there(limits: Limits, there: AccuracyResult, holds: str | None) -> None:
    """What breaks there and not here does not hold; too few samples decide nothing, unless nothing is worse."""
    assert judge_elsewhere(limits, _check(""), HERE, there)[0] == holds


def test_a_limit_that_is_broken_here_too_says_nothing_of_the_processor() -> None:
    """SQNR 29.4 here and 29 there are both below 40: the limit itself fails, and holding elsewhere is not decided."""
    holds, why = judge_elsewhere(Limits(min_sqnr_db=40.0), _check(""), HERE, SAME)
    assert (holds, "29" in why) == (None, True)


@pytest.mark.parametrize(("faults", "holds"), [(0, "any"), (1, "any"), (2, None)])
def test_outputs_that_are_broken_here_too_are_compared_by_their_number(faults: int, holds: str | None) -> None:
    """They fail the check without a limit of their own; one more of them there decides nothing."""
    broken = tuple(OutputFault(f"y{place}", "constant", 0, "0 everywhere") for place in range(2))
    result = judge_elsewhere(
        Limits(), _check(""), replace(HERE, faults=broken[:1]), replace(HERE, faults=broken[:faults])
    )
    assert result[0] == holds


_PROVEN = Portability("any", "proven", "vnni", "no sum passes 16 bits")
_OPEN = Portability(None, None, "vnni", "qemu-x86_64 is not installed")
_BROKEN = Portability("vnni", "measured", "vnni", "64 samples: max_drop is broken there")
_VERDICTS = [
    ("any", _PROVEN, Status.PASS),
    ("avx2", _PROVEN, Status.PASS),
    ("any", _OPEN, Status.INCONCLUSIVE),
    ("any", _BROKEN, Status.FAIL),
    ("avx2", _BROKEN, Status.FAIL),
    ("vnni", _BROKEN, Status.PASS),
    ("vnni", _OPEN, Status.PASS),
    ("vnni", replace(_OPEN, kind="avx2"), Status.INCONCLUSIVE),
    ("any", None, Status.INCONCLUSIVE),
]


def _check(cpus: str) -> Check:
    spec = EngineSpec("ort", "int8", "static", Model("net"), cpus=cpus)
    return Check("", "", spec, spec, Dataset("arrays", None))


@pytest.mark.parametrize(("cpus", "found", "status"), _VERDICTS)
def test_the_limit_is_what_is_known(cpus: str, found: Portability | None, status: Status) -> None:
    """What is proven or measured to hold passes, what is broken fails, and what is not known is never a PASS."""
    (verdict,) = processor_verdicts(_check(cpus), found)
    assert (verdict.limit, verdict.status, verdict.allowed, verdict.observed) == ("cpus", status, None, None)


def test_a_mark_that_names_no_processors_has_no_such_verdict() -> None:
    """Then it is a note."""
    assert not list(processor_verdicts(_check(""), _BROKEN))


@pytest.mark.parametrize(
    ("limits", "there", "holds"),
    [
        (Limits(min_sqnr_db=20.0), SAME, "any"),
        (Limits(min_sqnr_db=20.0), WORSE, None),
        (Limits(max_drop=1.0), SAME, None),
        (Limits(), SAME, None),
    ],
)
def test_without_a_run_with_vnni_only_limits_that_hold_say_something(
    limits: Limits, there: AccuracyResult, holds: str | None
) -> None:
    """A limit that is broken or open on an older processor, or none, does not show that a newer one gives the same."""
    assert judge_elsewhere(limits, _check(""), None, there)[0] == holds
