"""A failure says on one screen which limit broke, what was found, what it means and what to try."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.columns import COLUMNS, Row
from pytest_quant.report.failure import failure, headline
from pytest_quant.result import Hint, Interval, OpCoverage, OutputError, OutputFault, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict import judge
from tests.unit.record.examples import (
    ACCURACY,
    COVERAGE,
    FAILED_DROP,
    LATENCY,
    a_check,
    a_pass,
    a_record,
    found,
    unavailable,
)
from tests.unit.record.strategies import records


def _flat(record: Record) -> str:
    """The message with its line breaks undone."""
    return " ".join(failure(record).split())


def _broken(limit: str, allowed: float, observed: float | None, status: Status = Status.FAIL) -> tuple[Verdict, ...]:
    return (Verdict(limit, allowed, observed, status, "because of this"),)


@pytest.mark.parametrize(
    "part",
    [
        "1 of 2 limits broken",
        "limit max_drop: 4.23 pp is above 1.0 pp accuracy",
        "top1 97.78 -> 93.55 %, 76 of 1797 samples lost, 95% interval of the drop [3.18, 5.31]",
        "McNemar p = 0.00012, 84 samples right in only one engine",
        "agreement 94.83 %, SQNR 21.37 dB",
        "worst class 7: 98.31 -> 71.91 % of 178 samples",
        "p50 0.4567 -> 0.2345 ms, speedup x1.948 [1.901, 1.989]",
        "87.50 % of MACs in int8 on CPUExecutionProvider (nodes: Conv 3/4, MatMul 2/2)",
        "the loss is real",
    ],
)
def test_a_broken_drop_is_explained(part: str) -> None:
    """Limit, observed, reference, interval, test, meaning and what to try."""
    assert part in _flat(a_record())


def test_a_limit_that_holds_is_left_out() -> None:
    """One screen is for what is wrong."""
    assert "min_coverage" not in failure(a_record())


def test_the_worst_verdict_comes_first() -> None:
    """An undecided limit does not hide a broken one."""
    text = failure(a_record(verdicts=(*_broken("min_speedup", 2.0, 1.9, Status.INCONCLUSIVE), FAILED_DROP)))
    assert text.index("max_drop") < text.index("min_speedup")
    assert "1 of 2 limits broken" in text


def test_a_loss_that_chance_could_give_is_called_so() -> None:
    """With the number of samples that would tell."""
    unsure = replace(ACCURACY, p_value=0.3, drop=1.2, drop_ci=Interval(-0.5, 2.9))
    text = _flat(a_record(accuracy=unsure))
    assert "McNemar p = 0.3" in text
    assert "chance alone could give this loss" in text
    assert "about 520 samples would tell" in text


def test_a_limit_outside_the_interval_asks_for_no_more_samples() -> None:
    """The interval lies beyond it already."""
    assert "would tell" not in failure(a_record())


def test_a_slower_candidate_is_called_slower() -> None:
    """By how much."""
    slow = replace(LATENCY, speedup=0.16, speedup_ci=Interval(0.15, 0.17))
    text = _flat(a_record(a_check(scheme="dynamic"), latency=slow, verdicts=_broken("min_speedup", 1.0, 0.16)))
    assert "6.25 times slower than FP32" in text


@pytest.mark.parametrize("span", [Interval(0.998, 1.014), Interval(0.97, 1.0), Interval(1.0, 1.2)])
def test_a_candidate_of_the_same_speed_is_called_neither(span: Interval) -> None:
    """Its interval covers 1, or touches it: the median on one side of it shows nothing."""
    for speedup in (0.999, 1.002):
        same = replace(LATENCY, speedup=speedup, speedup_ci=span)
        text = _flat(a_record(latency=same, verdicts=_broken("min_speedup", 3.0, speedup)))
        assert "no difference from FP32 in speed was seen" in text
        assert "slower than" not in text
        assert "faster than" not in text


def test_a_faster_candidate_is_not_called_slower() -> None:
    """Fast, and not fast enough."""
    assert "the candidate is faster than FP32, and that is not enough" in _flat(
        a_record(verdicts=_broken("min_speedup", 3.0, 1.95))
    )


def test_nodes_that_ran_in_float_are_named_where_coverage_is_short() -> None:
    """By the runtime's names, as what was found and not as something to paste."""
    none = replace(COVERAGE, pct=0.0, by_op=(OpCoverage("Conv", 4, 0),), float_nodes=("/a/Conv",), opaque_nodes=2)
    text = _flat(a_record(a_check(scheme="qat"), coverage=none, verdicts=_broken("min_coverage", 50.0, 0.0)))
    assert "in float ran /a/Conv" in text
    assert "2 nodes cannot be seen into" in text
    assert "all of the eligible MACs ran in float" in text
    assert "in float ran" not in _flat(a_record(coverage=none))


def test_both_bounds_are_told_where_some_of_it_cannot_be_seen_into() -> None:
    """In the failure and in the table; the rest is not called float."""
    hidden = replace(COVERAGE, pct=12.0, opaque_nodes=2, high_pct=40.0)
    record = a_record(coverage=hidden, verdicts=_broken("min_coverage", 50.0, 12.0))
    text = _flat(record)
    assert "12.00 to 40.00 % of MACs in int8" in text
    assert "2 nodes cannot be seen into: float in the lower figure, int8 in the upper" in text
    assert "the rest of the eligible MACs ran in float or cannot be seen into" in text
    (column,) = (column for column in COLUMNS if column.name == "coverage")
    assert column.cells([Row(record, "t", "FAIL")]) == ("coverage %", ["12.00 to 40.00"])


def test_fused_operators_are_listed_by_their_names_in_the_model() -> None:
    """A mark can name Conv and Gemm; what the runtime made of them it cannot."""
    rows = (
        OpCoverage("QLinearConv", 3, 3, stands_for="Conv"),
        OpCoverage("FusedConv", 2, 0, stands_for="Conv"),
        OpCoverage("QGemm", 1, 1, stands_for="Gemm"),
        OpCoverage("LSTM", 1, 0),
    )
    assert "(nodes: Conv 3/5, Gemm 1/1, LSTM 0/1)" in _flat(a_record(coverage=replace(COVERAGE, by_op=rows)))


def test_hints_are_printed_from_the_record() -> None:
    """What to paste first, then what was measured with it; after JSON too."""
    hint = Hint("agreement 61.20 -> 98.40 % on 64 of 5000 samples", "exclude=['fc']", "min_agreement", 61.2, 98.4)
    record = from_json(to_json(replace(a_record(), hints=(hint, Hint("measure on a quiet machine: the null is off")))))
    text = _flat(record)
    assert "try - exclude=['fc']: agreement 61.20 -> 98.40 % on 64 of 5000 samples" in text
    assert "- measure on a quiet machine: the null is off" in text


def test_nothing_that_was_not_measured_is_advised() -> None:
    """Whatever broke, a record without hints says nothing to try."""
    limits = ("max_drop", "min_agreement", "min_coverage", "min_speedup", "max_latency_ms", "max_size_mb", "outputs")
    for scheme in ("static", "dynamic", "qat"):
        for limit in limits:
            record = a_record(a_check(scheme=scheme), verdicts=_broken(limit, 1.0, 0.5))
            text = failure(replace(record, isa="avx2", calibration_samples=3))
            assert not any(line.startswith("  try") for line in text.splitlines())


def test_a_reference_that_is_bad_itself_is_named() -> None:
    """It is not the quantization."""
    assert "FP32 itself scores so: look at labels" in _flat(a_record(verdicts=_broken("min_accuracy", 99.0, 97.78)))


def test_outputs_that_cannot_be_compared_come_before_all() -> None:
    """No figure says anything then."""
    broken = replace(ACCURACY, faults=(OutputFault("logits", "not finite", 12, "NaN"),))
    text = _flat(a_record(accuracy=broken, verdicts=_broken("outputs", 0.0, 1.0)))
    assert "cannot be compared at all" in text


def test_latency_that_is_off_says_why() -> None:
    """Not measured is never passed."""
    check = replace(a_check(), latency_off="--quant-no-latency is set")
    verdicts = _broken("min_speedup", 1.0, None, Status.INCONCLUSIVE)
    text = _flat(a_record(check, latency=None, verdicts=verdicts, status=Status.INCONCLUSIVE))
    assert "not measured: --quant-no-latency is set" in text
    assert "min_speedup: INCONCLUSIVE: allowed 1.0: because of this" in text


def test_signs_of_noise_are_told() -> None:
    """They void nothing, and explain a wide interval."""
    assert "the clock was adjusted" in failure(a_record(latency=replace(LATENCY, notes=("the clock was adjusted",))))


def test_a_check_that_never_came_to_be_gives_its_reason() -> None:
    """And the next step."""
    assert "pip install onnxruntime-gpu" in _flat(unavailable())


def test_nothing_broken_is_no_failure() -> None:
    """Only the status is said."""
    assert failure(a_pass()).splitlines()[0] == "digits ort-int8-static: PASS"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records.map(lambda record: from_json(to_json(record))))
def test_any_failure_fits_one_screen(record: Record) -> None:
    """At most 25 lines of 100 printable characters, whatever names and figures hold, unless its advice is longer."""
    lines = failure(record).split("\n")
    advice = sum(len(hint.text) + len(hint.paste) for hint in record.hints[:1])
    assert len(lines) <= 25 + advice // 40
    assert len(failure(replace(record, hints=())).split("\n")) <= 25
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("before", [*range(50, 110), 0])
def test_no_line_of_a_failure_is_a_command_to_a_ci_service(before: int) -> None:
    """GitHub Actions acts upon ``::`` at the start of a line, wherever a long text is broken."""
    for gap in ("", " "):
        reason = f"{'x' * before}{gap}::error::y"
        text = failure(
            replace(a_record(verdicts=(Verdict("max_drop", 0.0, 1.0, Status.FAIL, reason),)), notes=(reason,))
        )
        assert "error::y" in "".join(text.split())
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_a_failure_that_is_too_long_says_so() -> None:
    """And where the rest is."""
    many = tuple(Verdict(f"limit_{i}", 0.0, 1.0, Status.FAIL, "long " * 30) for i in range(20))
    assert failure(a_record(verdicts=many)).splitlines()[-1] == "... --quant-json FILE writes all of it"


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("nodes", [12, 40])
def test_the_first_thing_to_try_is_whole_whatever_else_there_is_to_say(width: int, nodes: int) -> None:
    """A list of nodes that ends in the middle cannot be pasted; what was broken is still said first."""
    names = [f"model/block_{i}/conv2d/Conv2D;model/block_{i}/bias/BiasAdd" for i in range(nodes)]
    paste = f"exclude={names!r}"
    notes = tuple(f"note {i} of many, which says at some length what else was seen" for i in range(30))
    hints = (Hint("SQNR 12.5 -> 31.25 dB", paste, "min_sqnr_db"), Hint("SQNR 12.5 -> 14.5 dB", "calibration='entropy'"))
    text = failure(replace(a_record(verdicts=_broken("min_sqnr_db", 20.0, 12.5)), hints=hints, notes=notes), width)
    squeezed = "".join(text.split())
    assert "".join(paste.split()) in squeezed
    assert squeezed.index("min_sqnr_db") < squeezed.index("exclude=")
    assert text.splitlines()[-1] == "... --quant-json FILE writes all of it"
    assert len(text.splitlines()) <= 25 or nodes == 40


def test_limits_of_the_mark_are_counted_apart_from_the_implicit_ones() -> None:
    """Nobody wrote min_coverage or outputs: "1 of 2 limits" would be searched for in the mark."""
    coverage = Verdict("min_coverage", 50.0, 12.5, Status.FAIL, "12.5% of MACs is below 50% of MACs", implicit=True)
    held = replace(coverage, status=Status.PASS, observed=87.5)
    outputs = Verdict("outputs", 0.0, 1.0, Status.FAIL, "output 'y' at sample 3: not finite", implicit=True)
    for verdicts, told in (
        ((FAILED_DROP, held), "1 of 1 limit broken"),
        ((FAILED_DROP, coverage), "1 of 1 limit broken; the default of min_coverage broken"),
        ((coverage,), "the default of min_coverage broken"),
        ((outputs, FAILED_DROP), "1 of 1 limit broken; outputs broken"),
    ):
        assert failure(a_record(verdicts=verdicts)).splitlines()[0] == f"digits ort-int8-static: {told}"


_NUMBER = re.compile(r"(?<![\w.-])\d+\.\d+|\b\d{3,}\b")
"""Figures: what has decimals, and large counts. Small whole numbers are nodes, batches and samples."""

_LIMITS = Limits(
    max_drop=1.0,
    min_ratio=0.99,
    min_accuracy=99.0,
    min_agreement=99.5,
    min_sqnr_db=30.5,
    min_cosine=0.999,
    max_abs_error=0.125,
    max_latency_ms=((50.0, 0.1),),
    min_speedup=2.5,
    max_size_mb=0.04,
    min_coverage=90.5,
)


@pytest.mark.parametrize("confidence", [None, 0.95])
@pytest.mark.parametrize(
    "limit", [field.name for field in fields(Limits) if getattr(_LIMITS, field.name) not in (None, ())]
)
def test_each_figure_is_said_once(limit: str, confidence: float | None) -> None:
    """The limit's own line has it, and no other line has it again; what it leaves out is in the others."""
    check = replace(a_check(), limits=replace(Limits(), **{limit: getattr(_LIMITS, limit)}), confidence=confidence)
    verdicts = judge(found(check))
    assert {verdict.status for verdict in verdicts} == {Status.FAIL}
    text = _flat(a_record(check, verdicts=verdicts))
    several = {figure: n for figure, n in Counter(map(float, _NUMBER.findall(text))).items() if n > 1}
    assert several == {}, text
    said = [float(number) for number in re.findall(r"\d+\.?\d*", text)]
    for figure in (ACCURACY.reference, ACCURACY.candidate, ACCURACY.drop, ACCURACY.sqnr_db, LATENCY.speedup):
        assert any(one == pytest.approx(figure, rel=1e-3) for one in said), text


@pytest.mark.parametrize("limit", ["min_sqnr_db", "max_abs_error"])
@pytest.mark.parametrize("named", [True, False])
def test_a_broken_limit_on_outputs_leaves_their_other_figures(limit: str, named: bool) -> None:
    """Of three outputs the limit's line has one figure of one."""
    outputs = (
        OutputError("boxes", 17.75, 0.98765, 3.25, 17),
        OutputError("scores", 20.5, 0.99, 0.875, 3),
        OutputError("same", identical=True),
    )
    several = replace(ACCURACY, by_output=outputs, sqnr_db=17.75, max_abs_error=3.25, max_abs_error_sample=17)
    allowed = 0.5 if limit == "max_abs_error" else 30.5
    asked: dict[str, Any] = {limit: (("boxes", allowed),) if named else allowed}
    check = replace(a_check(), limits=Limits(**asked))
    (verdict,) = judge(found(check, accuracy=several, latency=None))
    text = _flat(a_record(check, accuracy=several, latency=None, verdicts=(verdict,)))
    assert [text.count(figure) for figure in ("17.75", "3.25", "20.5", "0.875")] == [1, 1, 1, 1]
    assert "output scores: SQNR 20.5 dB, largest error 0.875 at sample 3; output same: identical" in text
    assert "at sample 17" in text


def test_a_scheme_that_leaves_operators_in_float_is_told_once() -> None:
    """The limit's line has both shares; where the mark's own limit is broken, the line of coverage has them."""
    dynamic = replace(COVERAGE, pct=0.91, scheme_pct=25.5, not_quantizable={"Conv": 96.43})
    for limits in (Limits(default_min_coverage=50), Limits(min_coverage=90.5)):
        check = replace(a_check(scheme="dynamic"), limits=limits)
        verdicts = judge(found(check, coverage=dynamic))
        text = _flat(a_record(check, coverage=dynamic, verdicts=verdicts))
        assert [text.count(figure) for figure in ("0.91", "25.5", "96.4")] == [1, 1, 1], text


def test_the_figure_of_a_broken_speedup_is_said_once() -> None:
    """The limit's line has it with its interval; the medians stay, and so does an interval that it does not have."""
    reason = "speedup x1.948 [1.901, 1.989] over 16 rounds lies below x3"
    text = _flat(a_record(verdicts=(Verdict("min_speedup", 3, 1.9475, Status.FAIL, reason),)))
    assert text.count("1.948") == 1
    assert "p50 0.4567 -> 0.2345 ms over" in text
    doubtful = Verdict("min_speedup", 3, 1.9475, Status.INCONCLUSIVE, "the null is off")
    text = _flat(a_record(verdicts=(doubtful,)))
    assert "observed 1.9475, allowed 3: the null is off" in text
    assert "p50 0.4567 -> 0.2345 ms, speedup [1.901, 1.989] over" in text


def test_a_loss_of_one_sample_is_told_as_one() -> None:
    """In points it looks like noise; a limit below it lets nothing through, which is said."""
    one = replace(ACCURACY, n=898, drop=100.0 / 898, p_value=1.0, discordant=1)
    broken = Verdict("max_drop", 0.05, 100.0 / 898, Status.FAIL, "0.111359 pp is above 0.05 pp")
    text = _flat(a_record(accuracy=one, verdicts=(broken,)))
    assert "1 of 898 samples lost" in text
    assert "the limit is less than 1 of 898 samples, 0.11 pp" in text
    assert "the limit is less than" not in _flat(a_record())
    assert "samples lost" not in _flat(a_record(accuracy=replace(one, discordant=None)))


@pytest.mark.parametrize("width", [40, 72, 80, 100, 250])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """And none is wider than a hundred characters, which are hard to read."""
    assert max(map(len, failure(a_record(), width).splitlines())) <= min(width, 100)


@pytest.mark.parametrize(
    ("limit", "allowed", "observed", "line"),
    [
        ("max_drop", 1.0, 2.3124, "max_drop 2.31 > 1.0 pp"),
        ("max_drop", 1, 2.3124, "max_drop 2.31 > 1 pp"),
        ("min_agreement", 99.0, 61.2, "min_agreement 61.2 < 99.0 %"),
        ("min_cosine", 0.9999999, 0.9999998, "min_cosine 0.9999998 < 0.9999999"),
        ("min_sqnr_db[boxes]", 20.0, 17.7, "min_sqnr_db[boxes] 17.7 < 20.0 dB"),
        ("max_latency_ms[p99]", 2.0, 2.5, "max_latency_ms[p99] 2.5 > 2.0 ms"),
        ("max_size_mb", 1.0, 1.0000001, "max_size_mb 1.0000001 > 1.0 MB"),
        ("min_speedup", 2.0, 1.5, "min_speedup 1.5 < 2.0 x"),
    ],
)
def test_the_short_line_has_the_limit_and_both_figures(limit: str, allowed: float, observed: float, line: str) -> None:
    """With the unit, and as many digits as tell the two apart."""
    record = a_record(verdicts=(Verdict(limit, allowed, observed, Status.FAIL, "because"),))
    assert headline(record) == line
    assert headline(replace(record, verdicts=(*(record.verdicts or ()), FAILED_DROP))).endswith(" (and 1 more)")
    assert headline(a_pass()) == ""


def test_each_output_is_told_the_worst_first() -> None:
    """With its own error: boxes in pixels and scores have nothing in common."""
    several = replace(
        ACCURACY,
        by_output=(
            OutputError("boxes", sqnr_db=56.25, max_abs_error=3.25),
            OutputError("same", identical=True),
            OutputError("scores", sqnr_db=0.0, max_abs_error=0.875),
        ),
    )
    text = _flat(a_record(accuracy=several))
    scores, boxes = "output scores: SQNR 0 dB, largest error 0.875", "output boxes: SQNR 56.25 dB, largest error 3.25"
    assert f"{scores}; {boxes}; output same: identical" in text
    assert "output y" not in _flat(a_record(accuracy=replace(ACCURACY, by_output=(OutputError("y", sqnr_db=1.0),))))
