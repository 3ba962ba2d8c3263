"""Samples that stand in for real ones decide nothing about accuracy, and everything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.result import AccuracyResult, Coverage, OutputFault, Status, Verdict
from pytest_quant.spec import Dataset, Limits
from pytest_quant.verdict import judge, worst
from tests.unit.record.examples import ACCURACY, a_check, found

RANDOM = Dataset.placeholder([[0.5]])
ON_ACCURACY = [
    Limits(max_drop=50.0),
    Limits(max_drop=0.1),
    Limits(min_ratio=0.5),
    Limits(min_accuracy=10.0),
    Limits(min_agreement=10.0),
    Limits(min_agreement=99.9),
    Limits(min_sqnr_db=1.0),
    Limits(min_cosine=0.999),
    Limits(min_cosine=(("scores", 0.1),)),
    Limits(max_abs_error=100.0),
    Limits(max_drop_increase=50.0),
]


def judged(limits: Limits, dataset: Dataset = RANDOM, accuracy: AccuracyResult = ACCURACY) -> tuple[Verdict, ...]:
    """Return the verdicts of a check on those samples, whose figures are those of the examples."""
    return judge(found(replace(a_check(), dataset=dataset, limits=limits), accuracy=accuracy))


@pytest.mark.parametrize("limits", ON_ACCURACY)
def test_no_limit_on_accuracy_passes_or_fails(limits: Limits) -> None:
    """Whatever the figures are, the limit is open, without a figure, and says which fixture to write."""
    (verdict,) = judged(limits)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.observed is None
    assert "quant_data is a placeholder" in verdict.reason
    assert "Dataset.from_arrays(inputs, labels" in verdict.reason


def test_what_samples_do_not_decide_is_judged_as_ever() -> None:
    """Coverage, size and speed are facts about the engine."""
    limits = Limits(max_drop=50.0, min_coverage=50.0, max_size_mb=0.01, min_speedup=1.5)
    ours = {verdict.limit: verdict for verdict in judged(limits)}
    theirs = {verdict.limit: verdict for verdict in judged(limits, a_check().dataset)}
    others = ("min_coverage", "max_size_mb", "min_speedup")
    assert [ours[name] for name in others] == [theirs[name] for name in others]
    assert {ours[name].status for name in others} == {Status.PASS, Status.FAIL}


def test_a_check_without_a_limit_on_accuracy_does_not_pass_either() -> None:
    """Green would say that somebody looked at the answers."""
    verdicts = judged(Limits(min_coverage=50.0))
    assert worst(verdicts) is Status.INCONCLUSIVE
    (told,) = [verdict for verdict in verdicts if verdict.limit == "outputs"]
    assert told.implicit
    assert worst(judged(Limits(min_coverage=50.0), a_check().dataset)) is Status.PASS


def test_outputs_that_random_numbers_break_are_no_failure() -> None:
    """A constant output may be what noise gives; the check stays open."""
    broken = replace(ACCURACY, faults=(OutputFault("scores", "constant", 0, "the same for every sample"),))
    assert worst(judged(Limits(), a_check().dataset, broken)) is Status.FAIL
    assert worst(judged(Limits(), accuracy=broken)) is Status.INCONCLUSIVE


def test_coverage_that_is_missing_fails() -> None:
    """That nothing ran as INT8 is true on any samples."""
    check = replace(a_check(), dataset=RANDOM, limits=Limits(max_drop=1.0, min_coverage=50.0))
    none = Coverage(pct=0.0, unit="MACs", by_op=(), provider="CPUExecutionProvider", float_nodes=())
    assert worst(judge(found(check, coverage=none))) is Status.FAIL
