"""Parts of a set are judged together: any of them may fail, and small ones are looked at as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.parts import score_parts
from pytest_quant.result import AccuracyResult, Interval, Status, TaskScore, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

WHOLE = AccuracyResult(n=1000, metric="top1", unit="%", better="higher", drop=0.2, sample_weight=0.1)


def judged(
    counts: list[tuple[int, int, int]], allowed: float = 3.0, part: str = "label", confidence: float | None = None
) -> Verdict:
    """Judge parts of so many samples, of which so many were lost and won."""
    right = [np.repeat([True, False, True], [lost, won, n - lost - won]) for n, lost, won in counts]
    wrong = [np.repeat([False, True, True], [lost, won, n - lost - won]) for n, lost, won in counts]
    names = np.repeat(np.arange(len(counts)), [n for n, _, _ in counts])
    rows = score_parts(WHOLE, BUILTIN["top1"], (np.concatenate(right), np.concatenate(wrong)), names, allowed)
    accuracy = replace(WHOLE, n=len(names), sample_weight=100.0 / len(names))
    accuracy = replace(accuracy, by_label=rows) if part == "label" else replace(accuracy, by_group=rows)
    (verdict,) = accuracy_verdicts(Limits(max_drop=((part, allowed),)), accuracy, confidence)
    assert (verdict.limit, verdict.allowed) == (f"max_drop[{part}]", allowed)
    return verdict


def test_the_worst_of_those_that_lost_too_much_is_named_with_its_samples() -> None:
    """Two of four labels lost 20 and 10 of 100: both are no luck among four."""
    verdict = judged([(100, 0, 0), (100, 20, 0), (100, 10, 0), (100, 1, 1)])
    assert (verdict.status, verdict.observed) == (Status.FAIL, 20.0)
    assert verdict.reason.startswith("label 1 20 pp is above 3.0 pp, the worst of 2 (p ")
    assert verdict.reason.endswith(" after Holm over 4, n 100)")


def test_a_loss_that_is_luck_among_many_fails_alone() -> None:
    """8 of 100 beyond 3 points: alone once in 100 times by luck, among twelve far more often."""
    alone, many = judged([(100, 8, 0)]), judged([(100, 8, 0), *[(100, 1, 1)] * 11])
    assert alone.status is Status.FAIL
    assert many.status is Status.INCONCLUSIVE
    assert many.reason.startswith("12 of 12 intervals are not within 3.0 pp, as of label 0 8 [")
    assert many.reason.endswith("] pp (n 100); more samples would decide")


def test_labels_whose_intervals_lie_within_the_limit_pass() -> None:
    """400 samples of which one was lost are enough for 3 points."""
    verdict = judged([(400, 0, 0), (500, 1, 0)])
    assert verdict.status is Status.PASS
    assert verdict.reason.startswith("label 1 0.2 [")
    assert verdict.reason.endswith("] pp is within 3.0 pp (n 500)")


def test_parts_of_few_samples_are_listed_and_pass_together() -> None:
    """Six of 30 and one of a single sample: none has an interval within the limit, and all 181 samples have."""
    verdict = judged([(400, 0, 0), *[(30, 0, 0)] * 6, (1, 0, 0)], part="group")
    assert (verdict.status, verdict.observed) == (Status.PASS, 0.0)
    assert verdict.reason.startswith("together 0 [")
    listed = "group 7 (n 1), group 1 (n 30), group 2 (n 30), group 3 (n 30) and 3 more"
    assert verdict.reason.endswith(f"] pp is within 3.0 pp for {listed}, which are too few samples each")


def test_parts_of_few_samples_that_could_hide_the_limit_are_not_judged() -> None:
    """One lost in each of six parts of 30: together 3.3 points, and an interval beyond the limit."""
    assert judged([(400, 0, 0), *[(30, 1, 0)] * 6]).status is Status.INCONCLUSIVE
    assert judged([(400, 0, 0), *[(30, 0, 0)] * 2]).status is Status.INCONCLUSIVE


def test_a_part_of_many_samples_above_the_limit_does_not_pass_with_others() -> None:
    """5 of 100 lost beyond 3 points is open, although with 900 further samples it is half a point."""
    among = [*[(90, 0, 0)] * 10]
    assert judged(among).status is Status.PASS
    verdict = judged([(100, 5, 0), *among])
    assert (verdict.status, verdict.observed) == (Status.INCONCLUSIVE, 5.0)


def test_proof_is_asked_of_each_part() -> None:
    """What passes together is then left open."""
    counts = [(400, 0, 0), *[(30, 0, 0)] * 6]
    assert judged(counts).status is Status.PASS
    assert judged(counts, confidence=0.95).status is Status.INCONCLUSIVE


def test_a_limit_on_parts_alone_has_no_verdict_on_all_samples() -> None:
    """And parts that were not measured are not judged."""
    limits = Limits(max_drop=(("label", 3.0), ("mask", 1.0)))
    verdicts = list(accuracy_verdicts(limits, replace(WHOLE, note="it gave NaN"), None))
    assert [(each.limit, each.status) for each in verdicts] == [
        ("max_drop[label]", Status.INCONCLUSIVE),
        ("max_drop[mask]", Status.INCONCLUSIVE),
    ]
    assert verdicts[0].reason == "not measured: it gave NaN"


@pytest.mark.parametrize(
    ("row", "status", "reason"),
    [
        (
            TaskScore("mask", 500, 80.0, 79.0, 1.0, Interval(0.1, 2.0), 0.2, "miou", "%"),
            Status.FAIL,
            "1 pp is above 0.5 pp (n 500)",
        ),
        (
            TaskScore("mask", 500, 0.2, 0.3, 0.1, Interval(0.05, 0.2), 0.2, "depth", "m"),
            Status.PASS,
            "0.1 [0.05, 0.2] m is within 0.5 m (n 500)",
        ),
        (
            TaskScore("mask", 50, 80.0, 79.0, 1.0, Interval(0.1, 2.0), 0.2, "miou", "%"),
            Status.INCONCLUSIVE,
            "the interval is not within 0.5 pp, as of 1 [0.1, 2] pp (n 50); more samples would decide",
        ),
        (
            TaskScore("mask", 5, None, None, None, None, None, "auc", "%"),
            Status.INCONCLUSIVE,
            "the interval is not within 0.5 pp, as of no score (n 5); more samples would decide",
        ),
    ],
)
def test_an_output_is_judged_on_its_drop_in_its_own_unit(row: TaskScore, status: Status, reason: str) -> None:
    """As the whole set is; and of too few samples on its interval."""
    accuracy = replace(WHOLE, by_head=(TaskScore("other", 500, 1.0, 1.0, 0.0), row))
    (verdict,) = accuracy_verdicts(Limits(max_drop=(("mask", 0.5),)), accuracy, None)
    assert (verdict.limit, verdict.status, verdict.reason) == ("max_drop[mask]", status, reason)
