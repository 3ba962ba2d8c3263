"""A remedy helps when a broken limit comes closer, none goes further, and none that held is broken."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.offer import Remedy
from pytest_quant.diagnose.trials import Effect, TrialResult, broken, noise_of
from pytest_quant.result import AccuracyResult, OutputError, OutputFault, Status, Verdict
from pytest_quant.spec import EngineSpec, Model

REMEDY = Remedy("exclude=['fc']", EngineSpec("ort", "int8", "static", Model("net"), exclude=("fc",)))


def _verdict(limit: str, allowed: float, observed: float | None, status: Status = Status.FAIL) -> Verdict:
    return Verdict(limit, allowed, observed, status, "")


def _effect(before: list[Verdict], after: list[Verdict]) -> Effect:
    """Coverage falls from 96.1 % to 81 %, and the file is twice as large."""
    return Effect(REMEDY, TrialResult(before, 96.1, size_mb=0.25), TrialResult(after, 81.0, size_mb=0.5))


@pytest.mark.parametrize(
    ("limit", "allowed", "before", "after", "gain"),
    [
        ("min_agreement", 99.0, 61.0, 80.0, 0.5),
        ("min_agreement", 99.0, 61.0, 42.0, -0.5),
        ("max_drop", 1.0, 5.0, 2.0, 0.75),
        ("max_drop", 1.0, 5.0, 9.0, -1.0),
        ("max_abs_error", 0.1, 0.5, 0.3, 0.5),
        ("min_sqnr_db[scores]", 30.0, 10.0, 20.0, 0.5),
    ],
)
def test_the_gain_is_the_share_of_the_way_to_the_limit(
    limit: str, allowed: float, before: float, after: float, gain: float
) -> None:
    """(after - before) / (allowed - before), whichever way is better."""
    result = _effect([_verdict(limit, allowed, before)], [_verdict(limit, allowed, after)])
    assert result.gain == pytest.approx(gain)
    assert result.helps is (gain > 0.0)
    assert not result.mends


NOISY = OutputError("boxes", 20.0, 0.995, 0.5)
FAR = OutputError("sizes", 30.0, 0.9995, 40.0)
CLEAR = OutputError("scores", 60.0, 0.999999, 0.01)
PART = OutputError("masks.edges", 40.0, 0.99995, 0.1, group_of="masks")
EQUAL = OutputError("label", identical=True)
OF_CLEAR = AccuracyResult(
    n=9,
    by_output=(NOISY, FAR, CLEAR, PART, EQUAL),
    sqnr_db=60.0,
    cosine=0.999999,
    max_abs_error=0.01,
    agreement_outputs=("sizes", "scores"),
)
"""As for a mark that names the output ``scores``."""
OF_ALL = replace(OF_CLEAR, sqnr_db=20.0, cosine=0.995, max_abs_error=40.0)


@pytest.mark.parametrize(
    ("limit", "accuracy", "of"),
    [
        ("min_sqnr_db[boxes]", OF_CLEAR, NOISY),
        ("min_cosine[boxes]", OF_CLEAR, NOISY),
        ("max_abs_error[sizes]", OF_CLEAR, FAR),
        ("max_abs_error[scores]", OF_ALL, CLEAR),
        ("max_drop[boxes]", OF_CLEAR, NOISY),
        ("min_sqnr_db[masks]", OF_CLEAR, PART),
        ("min_sqnr_db[masks.edges]", OF_CLEAR, PART),
        ("min_agreement", OF_CLEAR, FAR),
        ("min_sqnr_db", OF_CLEAR, CLEAR),
        ("min_sqnr_db", OF_ALL, NOISY),
        ("min_cosine", OF_ALL, NOISY),
        ("max_abs_error", OF_ALL, FAR),
        ("max_drop", OF_CLEAR, CLEAR),
        ("max_drop[label]", OF_CLEAR, CLEAR),
        ("min_coverage", OF_ALL, NOISY),
        ("", OF_ALL, NOISY),
    ],
)
def test_nodes_are_ranked_by_the_output_of_the_broken_limit(
    limit: str, accuracy: AccuracyResult, of: OutputError
) -> None:
    """Whatever `output` names: a limit may name others, and be broken by another than the one with the lowest SQNR."""
    assert noise_of(limit, accuracy) == pytest.approx(10.0 ** (-(of.sqnr_db or 0.0) / 10.0))


def test_an_output_that_is_equal_has_no_noise_and_one_that_cannot_be_compared_the_most() -> None:
    """Zero ranks last, and infinity first."""
    assert noise_of("min_sqnr_db[label]", OF_CLEAR) == 0.0
    equal = AccuracyResult(n=9, by_output=(EQUAL,), identical=True)
    assert [noise_of(limit, equal) for limit in ("min_sqnr_db", "max_abs_error", "max_drop")] == [0.0, 0.0, 0.0]
    assert noise_of("min_sqnr_db[gone]", OF_CLEAR) == math.inf
    assert noise_of("min_sqnr_db", replace(OF_ALL, sqnr_db=None, by_output=(OutputError("text"),))) == math.inf
    assert noise_of("min_sqnr_db", replace(OF_ALL, faults=(OutputFault("boxes", "nan", 0, ""),))) == math.inf


def test_a_limit_that_holds_now_is_mended() -> None:
    """All of the way is gone."""
    after = [_verdict("max_drop", 1.0, 0.2, Status.PASS)]
    result = _effect([_verdict("max_drop", 1.0, 5.0)], after)
    assert (result.gain, result.helps, result.mends) == (1.0, True, True)


def test_a_figure_that_was_not_measured_is_no_gain() -> None:
    """The limit is INCONCLUSIVE with the remedy: that repairs nothing."""
    result = _effect([_verdict("max_drop", 1.0, 5.0)], [_verdict("max_drop", 1.0, None, Status.INCONCLUSIVE)])
    assert (result.gain, result.helps, result.trades, result.mends) == (0.0, False, False, False)


def test_a_gain_too_small_to_matter_is_none() -> None:
    """A hundredth of the way is no advice."""
    assert not _effect([_verdict("min_sqnr_db", 30.0, 10.0)], [_verdict("min_sqnr_db", 30.0, 10.2)]).helps


def test_outputs_that_can_be_compared_again_are_mended() -> None:
    """The verdict on them is gone."""
    result = _effect([_verdict("outputs", 0.0, 2.0)], [])
    assert result.mends
    assert result.hint("all 8 samples").text.startswith("broken outputs 2 -> 0 on all 8 samples")


def test_a_hint_says_both_figures_and_what_it_costs() -> None:
    """Figure, samples, coverage, size, and that nothing was timed where a limit on speed is set."""
    before = [
        _verdict("min_agreement", 99.0, 61.2),
        _verdict("min_speedup", 1.5, 1.8, Status.PASS),
        _verdict("min_coverage", 50.0, 96.1, Status.PASS),
    ]
    after = [_verdict("min_agreement", 99.0, 98.4), before[1], _verdict("min_coverage", 50.0, 81.0, Status.PASS)]
    hint = _effect(before, after).hint("64 of 5000 samples")
    assert hint.paste == "exclude=['fc']"
    cost = "coverage 96.10 -> 81.00 % of all compute, size 0.25 -> 0.5 MB; not timed"
    assert hint.text == f"agreement 61.20 -> 98.40 % on 64 of 5000 samples; {cost}"
    assert (hint.limit, hint.before, hint.after) == ("min_agreement", 61.2, 98.4)


@pytest.mark.parametrize(
    ("limit_pct", "all_pct", "text"),
    [
        (100.0, 2.98, ""),
        (100.0, 12.0, "coverage 2.98 -> 12.00 % on all 8 samples"),
        (100.0, 60.0, "coverage 2.98 -> 60.00 % on all 8 samples, which repairs it"),
    ],
)
def test_coverage_of_two_schemes_is_that_of_all_compute(limit_pct: float, all_pct: float, text: str) -> None:
    """The limit of one holds by what it can quantize: 2.98 % of all compute before and after is no gain. Told once."""
    after = [_verdict("min_coverage", 50.0, limit_pct, Status.PASS)]
    result = Effect(REMEDY, TrialResult([_verdict("min_coverage", 50.0, 2.98)], 2.98), TrialResult(after, all_pct))
    assert (result.helps, result.mends) == (bool(text), text.endswith("repairs it"))
    if text:
        assert result.hint("all 8 samples").text == text


def test_what_repairs_one_limit_and_breaks_another_says_both() -> None:
    """Nothing is to be pasted: the reader chooses."""
    before = [
        _verdict("max_drop", 1.0, 88.21),
        _verdict("min_coverage", 50.0, 96.1, Status.PASS),
        _verdict("max_size_mb", 1.0, 0.5, Status.PASS),
    ]
    after = [
        _verdict("max_drop", 1.0, -0.16, Status.PASS),
        _verdict("min_coverage", 50.0, 0.85),
        _verdict("max_size_mb", 1.0, 2.0),
    ]
    result = Effect(REMEDY, TrialResult(before, 96.1), TrialResult(after, 0.85))
    assert (result.helps, result.trades) == (False, True)
    hint = result.trade("all 619 samples")
    lost = "coverage 96.10 -> 0.85 % breaks min_coverage and size 0.5 -> 2 MB breaks max_size_mb"
    assert hint.text == f"exclude=['fc']: drop 88.21 -> -0.16, but {lost}, on all 619 samples"
    assert (hint.paste, hint.limit) == ("", "")
    before = [_verdict("max_drop", 1.0, 5.0), _verdict("min_cosine", 0.99, 0.9)]
    result = _effect(before, [_verdict("max_drop", 1.0, 0.0, Status.PASS), _verdict("min_cosine", 0.99, 0.8)])
    assert (result.helps, result.trades) == (False, True)
    assert "but cosine 0.9 -> 0.8 is further from min_cosine" in result.trade("all 8 samples").text


_FIGURES = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(_FIGURES, _FIGURES, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_a_remedy_helps_or_trades_or_neither(figures: list[tuple[float, float, bool, bool]]) -> None:
    """Never both; what helps breaks nothing, and what mends helps where anything was broken."""
    names = ("max_drop", "min_agreement", "min_sqnr_db", "min_cosine")
    states = {True: Status.FAIL, False: Status.PASS}
    both = [
        (_verdict(name, 0.0, each[0], states[each[2]]), _verdict(name, 0.0, each[1], states[each[3]]))
        for name, each in zip(names, figures, strict=False)
    ]
    result = _effect([before for before, _ in both], [after for _, after in both])
    assert not (result.helps and result.trades)
    broken_now = any(after.status is Status.FAIL and before.status is not Status.FAIL for before, after in both)
    assert not (result.helps and broken_now)
    if result.mends and result.limits:
        assert result.helps


def test_only_limits_that_quantizing_otherwise_can_mend_are_tried_for() -> None:
    """The reference's own score and the speed are not among them, the candidate's own score is."""
    names = ("min_reference_accuracy", "min_speedup", "max_drop", "min_accuracy")
    assert broken([_verdict(name, 90.0, 50.0) for name in names]) == ("max_drop", "min_accuracy")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (12.3456, 0.0123456, "12.35 -> 0.01"),
        (82.27, 0.578, "82.27 -> 0.58"),
        (4.344, -0.005826, "4.344 -> -0.006"),
        (0.01234, 0.001111, "0.01234 -> 0.00111"),
        (0.99995812, 0.99999834, "0.999958 -> 0.999998"),
        (0.99995812, 0.5, "1 -> 0.5"),
        (1234567.0, 1234561.0, "1234567 -> 1234561"),
    ],
)
def test_figures_have_the_same_decimals(before: float, after: float, text: str) -> None:
    """Four digits of the larger, or as many as show the change: those of a figure that changed do not look the same."""
    result = _effect([_verdict("min_cosine", 99.0, before)], [_verdict("min_cosine", 99.0, after)])
    assert result.hint("all 8 samples").text.startswith(f"cosine {text} ")
