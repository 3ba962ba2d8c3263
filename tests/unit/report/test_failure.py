"""A failure fits one screen whatever is in it, and its advice can be pasted; what it says is in ``screens``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.details import details, lost_samples
from pytest_quant.report.failure import failure, headline
from pytest_quant.result import Hint, Interval, Status, TaskScore, Verdict
from tests.support.failed_checks import with_launches
from tests.unit.record.examples import CAUSE, COVERAGE, FAILED_DROP, a_pass, a_record, with_accuracy
from tests.unit.record.strategies import records


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records.map(lambda record: from_json(to_json(record))))
def test_any_failure_fits_one_screen(record: Record) -> None:
    """At most 24 lines of 80 printable characters, whatever names and figures hold, unless its advice is longer."""
    lines = failure(record, 80).split("\n")
    advice = sum(len(hint.text) + len(hint.paste) for hint in record.hints[:1])
    assert len(lines) <= 24 + advice // 30
    assert len(failure(replace(record, hints=()), 80).split("\n")) <= 24
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    assert max(map(len, failure(record, 250).split("\n"))) <= 160


def _said(text: str) -> str:
    """A failure without its lines."""
    return " ".join(text.split())


@settings(max_examples=30)
@given(st.integers(40, 160), st.integers(1, 40))
def test_nothing_ends_in_the_middle_of_a_sentence(width: int, many: int) -> None:
    """Of many limits, hints and notes of usual length each stands there as a whole or not at all."""
    texts = [
        f"item {i:02d} is told at some length, so that it takes two lines, and ends here {i:02d}" for i in range(many)
    ]
    limits = [Verdict("max_drop", 1.0, 2.0, Status.FAIL, f"1.0: {text}") for text in texts[::3]]
    hints = tuple(Hint(text) for text in texts[1::3])
    text = _said(failure(replace(a_record(verdicts=tuple(limits)), hints=hints, notes=tuple(texts[2::3])), width))
    for i in range(many):
        assert text.count(f"item {i:02d} is told") == text.count(f"and ends here {i:02d}")
    assert "item 00 is told" in text
    assert many < 2 or "item 01 is told" in text


@pytest.mark.parametrize("width", [60, 100])
def test_what_broken_limits_are_about_is_never_cut_away(width: int) -> None:
    """However much advice there is: the speedup where a limit on speed is broken, and coverage where that is."""
    limits = ("max_drop", "min_speedup", "min_coverage")
    broken = tuple(Verdict(limit, 1.0, 2.0, Status.FAIL, f"{limit} is broken") for limit in limits)
    hints = tuple(Hint(f"hint {i} of many, which says at some length what was tried and found") for i in range(20))
    text = _said(failure(replace(a_record(verdicts=broken), hints=hints, notes=("a note",)), width))
    figures = ("top1 97.78 -> 93.55 %", "speedup x1.948 [1.901, 1.989]", "MACs in int8 87.50 %")
    for said in (*(f"{limit} is broken" for limit in limits), *figures, "hint 0 of many"):
        assert said in text
    assert "a note" not in text


@pytest.mark.parametrize(
    ("limit", "figures", "line"),
    [
        # 30 and 410 of 597 by hand: 597 * (1 - 0.9497) and 597 * (1 - 0.3132).
        ("max_drop", {"n": 597, "reference": 94.9749, "candidate": 31.3233, "drop": 63.6516}, "410 of 597 samples"),
        ("min_accuracy", {"n": 1000, "reference": 99.9, "candidate": 99.8, "drop": 0.1}, "2 of 1000 samples"),
        ("min_agreement", {"agreement_pct": 61.2}, "38.80 % of the answers are not the reference's"),
        ("max_drop", {"discordant": None}, "1 of 1 limit broken"),
        ("max_drop", {"reference": 1e308}, "1 of 1 limit broken"),
        ("min_sqnr_db", {}, "1 of 1 limit broken"),
    ],
)
def test_the_first_line_says_in_plain_words_what_is_wrong(limit: str, figures: dict[str, Any], line: str) -> None:
    """How many samples are wrong now, where scores are right or wrong; p values are for who asks, with -v."""
    record = with_accuracy(a_record(verdicts=(Verdict(limit, 1.0, 2.0, Status.FAIL, "because"),)), **figures)
    text = failure(record, 160)
    assert text.startswith(f"digits ort-int8-static: {line}")
    assert "McNemar" not in text
    assert "McNemar p 0.00012" in failure(record, 160, 1)


def test_the_cause_comes_before_all_that_explains() -> None:
    """Right below the limits: what is wrong, and the figure without it if that was measured."""
    record = replace(a_record(), cause=CAUSE, changed="since the last PASS: calibration samples 100 -> 3")
    lines = failure(record).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("  cause: "))
    assert lines[first - 1].startswith("  limit ")
    assert lines[first : first + 2] == [
        "  cause: calibration, 2 of 3 ranges do not fit the evaluation samples",
        "  without it: max_drop 4.23 -> 0.30 pp on 64 of 1797 samples",
    ]
    assert lines[first + 2].startswith("  changed ")
    alone = failure(replace(record, cause=replace(CAUSE, without="")))
    assert "cause: calibration" in alone
    assert "without it" not in alone
    assert "cause:" not in failure(a_record())


def test_one_number_of_samples_is_told() -> None:
    """Where a limit is not judged its reason has it, and "as it is" would contradict that it is not judged."""
    reason = "the interval contains 1 pp with 400 samples; about 2500 samples would decide"
    open_drop = Verdict("max_drop", 1.0, 1.2, Status.INCONCLUSIVE, reason)
    record = with_accuracy(
        a_record(status=Status.INCONCLUSIVE, verdicts=(open_drop,)),
        n=400,
        drop=1.2,
        drop_ci=Interval(-0.5, 2.9),
        p_value=0.3,
        n_to_resolve=2500,
    )
    text = _said(failure(record))
    assert text.count("samples would decide") == 1
    assert "as it is" not in text


@pytest.mark.parametrize(
    ("allowed", "low", "status", "said"),
    [
        (0.2, 0.2869, Status.FAIL, ""),
        (1.0, 0.2869, Status.FAIL, "chance alone could give this loss; the limit is judged on this set as it is"),
        (0.2, -0.1, Status.FAIL, "chance alone could give this loss; the limit is judged on this set as it is"),
        (0.2, 0.2869, Status.INCONCLUSIVE, "chance alone could give this loss"),
    ],
)
def test_chance_is_named_only_where_the_interval_leaves_room_for_it(
    allowed: float, low: float, status: Status, said: str
) -> None:
    """Five of 400 lost and none won: p is 2 / 2^5, and the interval may lie above the limit all the same."""
    verdict = Verdict("max_drop", allowed, 1.25, status, "because of this")
    figures: dict[str, Any] = {"n": 400, "drop": 1.25, "drop_ci": Interval(low, 2.892), "p_value": 0.0625}
    text = _said(failure(with_accuracy(a_record(status=status, verdicts=(verdict,)), **figures)))
    assert ("chance alone" in text, said in text) == (bool(said), True)
    assert ("as it is" in text) is ("as it is" in said)


def test_that_a_loss_is_real_is_not_said_of_a_task_by_the_p_of_all() -> None:
    """Of several tasks each has a p of its own, which its verdict tells."""
    tasks = (TaskScore("mmlu_a", 900, 60.0, 50.0, 10.0), TaskScore("mmlu_b", 897, 60.0, 60.0, 0.0))
    assert "the loss is real" in failure(a_record())
    assert "the loss is real" not in failure(with_accuracy(a_record(), by_task=tasks))


def test_the_labels_that_lost_most_are_told_with_scores_drop_and_samples() -> None:
    """Three of them, and all in the table of the page; that of several together is no label that lost."""
    rows = (
        *(
            TaskScore(f"{label}", 100 + label, 90.0, 90.0 - label, float(label), Interval(0.5, 9.0))
            for label in range(5)
        ),
        TaskScore("9", 1, None, None, None),
        TaskScore("", 50, 90.0, 60.0, 30.0),
    )
    broken = Verdict("max_drop[label]", 3.0, 4.0, Status.FAIL, "label 4 4 pp is above 3.0 pp (n 104)")
    record = with_accuracy(a_record(verdicts=(broken,)), by_label=rows)
    text = _said(failure(record))
    assert "max_drop[label]: label 4 4 pp is above 3.0 pp (n 104)" in text
    assert "worst labels 4: 90.00 -> 86.00 %, drop 4.00 [0.50, 9.00] pp of 104 samples; 3: 90.00" in text
    assert "; 2: 90.00 -> 88.00 %" in text
    assert "1: 90.00" not in text
    assert "the loss is real" not in text
    (section,) = [each for each in details(record) if each.title == "Accuracy"]
    (table,) = [each for each in section.tables if each.caption == "By label"]
    assert [row[0] for row in table.rows] == ["those left open, together", "4", "3", "2", "1", "0", "9"]
    assert table.rows[-1] == ("9", "1", "", "", "-")
    assert not any(each.caption == "By class" for each in section.tables)


def _first_words(text: str) -> list[str]:
    """The labels of the lines that have one."""
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2:3].strip()]


def test_what_changed_since_the_last_pass_is_told_before_any_advice() -> None:
    """A cause comes before its cures; what the cache had last may be of another test, and is not told."""
    changed = "since the last PASS (c0ffee, 2026-01-02): calibration samples 100 -> 3"
    hints = (Hint("drop 4.23 -> 0.5 on all 9 samples, which repairs it", "scheme='dynamic'", "max_drop", 4.23, 0.5),)
    builds = {"engine": "exclude changed ([] -> ['fc2'])", "reference outputs": "first build"}
    text = failure(replace(a_record(), hints=hints, notes=("a note",), builds=builds, changed=changed))
    assert _first_words(text) == ["limit", "changed", "means", "accuracy", "latency", "coverage", "try", "note"]
    assert f"  changed   {changed}\n" in text
    assert "built" not in text
    assert text.endswith("  note      a note")


@pytest.mark.parametrize(
    ("limit", "whole"),
    [
        ("max_drop", "accuracy"),
        ("min_sqnr_db[boxes]", "accuracy"),
        ("max_latency_ms[p99]", "latency"),
        ("max_size_mb", ""),
    ],
)
def test_what_no_broken_limit_is_about_takes_one_line(limit: str, whole: str) -> None:
    """Of the sections only the one that the limit is about is told whole."""
    record = with_launches(a_record(verdicts=(Verdict(limit, 1.0, 2.0, Status.FAIL, "because"),)))
    lines = failure(record, 160).splitlines()
    labels = [line[:12].split() for line in lines]
    for label in ("accuracy", "latency", "coverage"):
        first = labels.index([label])
        rest = next((place for place in range(first + 1, len(labels)) if labels[place]), len(labels))
        assert (rest - first > 1) is (label == whole), lines


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


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("nodes", [12, 40])
def test_the_first_thing_to_try_is_whole_whatever_else_there_is_to_say(width: int, nodes: int) -> None:
    """A list of nodes that ends in the middle cannot be pasted; what was broken is still said first."""
    names = [f"model/block_{i}/conv2d/Conv2D;model/block_{i}/bias/BiasAdd" for i in range(nodes)]
    paste = f"exclude={names!r}"
    notes = tuple(f"note {i} of many, which says at some length what else was seen" for i in range(30))
    hints = (Hint("SQNR 12.5 -> 31.25 dB", paste, "min_sqnr_db"), Hint("SQNR 12.5 -> 14.5 dB", "calibration='entropy'"))
    low = (Verdict("min_sqnr_db", 20.0, 12.5, Status.FAIL, "because of this"),)
    text = failure(replace(a_record(verdicts=low), hints=hints, notes=notes), width)
    squeezed = "".join(text.split())
    assert "".join(paste.split()) in squeezed
    assert squeezed.index("min_sqnr_db") < squeezed.index("exclude=")
    assert text.splitlines()[-1] == "... --quant-json=FILE writes all of it"
    assert len(text.splitlines()) <= 24 or nodes == 40


def test_what_no_set_of_samples_can_lose_is_not_counted() -> None:
    """An imported record may hold any finite figure."""
    accuracy = a_record().accuracy
    assert accuracy is not None
    assert lost_samples(accuracy) == "76 of 1797 samples"
    assert lost_samples(replace(accuracy, drop=1e308)) == ""


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
        ("min_accuracy", 97, 26.3, "min_accuracy 26.3 < 97 %"),
        ("min_reference_accuracy", 97, 26.3, "min_reference_accuracy 26.3 < 97 %"),
        ("min_accuracy", 2.5, 3.0, "min_accuracy 3 > 2.5 %"),
    ],
)
def test_the_short_line_has_the_limit_and_both_figures(limit: str, allowed: float, observed: float, line: str) -> None:
    """With the unit, and as many digits as tell the two apart."""
    record = a_record(verdicts=(Verdict(limit, allowed, observed, Status.FAIL, "because"),))
    assert headline(record) == line
    assert headline(replace(record, verdicts=(*(record.verdicts or ()), FAILED_DROP))).endswith(" (and 1 more)")
    assert headline(a_pass()) == ""


@pytest.mark.parametrize(
    ("pct", "held", "said", "not_said"),
    [
        (
            0.0,
            None,
            "all of the eligible MACs ran in float: the engine has neither the speed nor the size of int8",
            "weights in int8",
        ),
        (0.0, 100.0, "100.00 % of the eligible MACs: weights in int8, computed in float", "speed and size"),
        (100.0 / 3, 200.0 / 3, "66.67 % of the eligible MACs: weights in int8, computed in float", "speed and size"),
        (40.0, 60.0, "60.00 % of the eligible MACs: weights in int8, computed in float", "speed and size"),
        (
            0.0,
            60.0,
            "the rest of the eligible MACs ran in float: the engine has neither the speed nor the size of int8",
            "all of",
        ),
    ],
)
def test_weights_alone_are_told_from_float(pct: float, held: float | None, said: str, not_said: str) -> None:
    """A file with int8 weights is small, whatever it computes in: its size is not called that of FP32."""
    coverage = replace(COVERAGE, pct=pct, weights_pct=held)
    text = failure(a_record(coverage=coverage, verdicts=(Verdict("min_coverage", 50.0, pct, Status.FAIL, ""),)), 400)
    assert said in " ".join(text.split())
    assert not_said not in " ".join(text.split())


@pytest.mark.parametrize(
    ("in_int8", "rest"),
    [(100.0, None), (60.0, "the rest of the eligible MACs ran in float: the engine has neither the speed nor the")],
)
def test_what_ran_in_another_precision_is_not_called_float(in_int8: float, rest: str | None) -> None:
    """An INT8 file that is judged as int4 is fast and small; the mark is wrong, and the text says what it should be."""
    coverage = replace(COVERAGE, pct=0.0, int8_pct=in_int8, float_nodes=("conv",))
    verdicts = (Verdict("min_coverage", 50.0, 0.0, Status.FAIL, ""),)
    text = failure(replace(a_record(coverage=coverage, verdicts=verdicts), precision="int4"), 400)
    assert f"{in_int8:.2f} % of the eligible MACs ran in int8: precision='int8' judges it as that" in text
    assert "not in int4 conv" in text
    assert ("ran in float" in text) is (rest is not None)
    assert (rest or "") in text


@pytest.mark.parametrize(
    ("better", "allowed", "reference", "candidate", "is_said"),
    [
        ("higher", 95.0, 91.5, 91.0, True),
        ("higher", 91.2, 91.5, 91.0, False),
        ("higher", 91.5, 91.5, 91.0, False),
        ("lower", 2.0, 2.5, 2.6, True),
        ("lower", 2.5, 2.4, 2.6, False),
    ],
)
def test_a_score_that_the_reference_does_not_reach_either(
    better: Literal["higher", "lower"], allowed: float, reference: float, candidate: float, is_said: bool
) -> None:
    """Then the limit or the data are to blame, whichever way is better, and no quantization."""
    verdicts = (Verdict("min_accuracy", allowed, candidate, Status.FAIL, ""),)
    record = with_accuracy(a_record(verdicts=verdicts), reference=reference, candidate=candidate, better=better)
    assert ("FP32 breaks min_accuracy too" in _said(failure(record))) is is_said
