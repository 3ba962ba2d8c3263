"""Evaluations that stop when a confidence sequence has decided every limit on a score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_quant.measure.early import random_order
from pytest_quant.metrics import Metric
from pytest_quant.result import AccuracyResult, Interval, Status
from pytest_quant.spec import Dataset, Limits
from pytest_quant.verdict import judge
from pytest_quant.verdict.accuracy import accuracy_verdicts
from tests.unit.measure.played import numbers
from tests.unit.measure.test_pipeline import Bench, bench

__all__ = ["bench"]

N = 6000
LABELS = np.arange(N) % 2
SAMPLES = np.eye(2, dtype=np.float32)[LABELS] + np.linspace(0.0, 0.25, N, dtype=np.float32)[:, None]
DATA = Dataset.from_arrays(SAMPLES, LABELS, numbers(10) + 5)


def wrong_where(bench: Bench, wrong: np.ndarray) -> None:
    """Let the candidate miss the samples of the mask (n,); each is known by its number."""
    numbers = {row.tobytes(): bool(missed) for row, missed in zip(SAMPLES, wrong, strict=True)}

    def play(feeds: Any) -> Any:
        missed = np.array([numbers.get(row.tobytes(), False) for row in feeds["x"]])
        return {"y": np.where(missed[:, None], -feeds["x"], feeds["x"])}

    bench.candidate = play


@pytest.fixture
def few(bench: Bench) -> Bench:
    """A candidate that misses every 500th sample: a drop of 0.2 points."""
    wrong_where(bench, np.arange(N) % 500 == 0)
    return bench


def test_a_drop_far_from_its_limit_stops_early(few: Bench) -> None:
    """The figures are those of the samples so far, the interval is the sequence's, and the record tells of it."""
    found = few.measure(dataset=DATA, limits=Limits(max_drop=3.0), sequential=True)
    accuracy = found.accuracy
    assert accuracy.of_samples == N
    assert accuracy.n < N / 4
    first = random_order(N)[: accuracy.n]
    assert accuracy.drop == pytest.approx(100.0 * np.mean(first % 500 == 0))
    assert accuracy.drop_ci is not None
    assert accuracy.drop_ci.low <= 0.2 <= accuracy.drop_ci.high < 3.0
    assert (accuracy.p_value, accuracy.n_to_resolve) == (None, None)
    (verdict,) = (one for one in judge(found) if one.limit == "max_drop")
    assert verdict.status is Status.PASS
    assert verdict.reason.endswith(f"after {accuracy.n} of {N} samples in random order")
    assert f"--quant-sequential: {accuracy.n} of {N} samples" in " ".join(found.notes)
    whole = few.measure(dataset=DATA, limits=Limits(max_drop=3.0))
    assert whole.accuracy.of_samples is None
    assert whole.digests["data"] != found.digests["data"]
    assert list(found.sample_hashes) == [whole.sample_hashes[index] for index in first]


def test_a_limit_that_is_broken_stops_early_too(bench: Bench) -> None:
    """A tenth is lost, and 3 points are allowed."""
    wrong_where(bench, np.arange(N) % 10 == 0)
    found = bench.measure(dataset=DATA, limits=Limits(max_drop=3.0), sequential=True)
    assert found.accuracy.n < N / 4
    assert {one.status for one in judge(found) if one.limit == "max_drop"} == {Status.FAIL}


def test_every_limit_has_to_be_decided(few: Bench) -> None:
    """Agreement of 99.8 % against 99 % takes longer than a drop of 0.2 against 3; each has its verdict."""
    one, both = (
        few.measure(dataset=DATA, limits=limits, sequential=True)
        for limits in (Limits(max_drop=3.0), Limits(max_drop=3.0, min_agreement=99.0, min_accuracy=90.0))
    )
    assert one.accuracy.n < both.accuracy.n < N
    assert both.accuracy.agreement_ci is not None
    assert both.accuracy.agreement_ci.low >= 99.0
    statuses = {verdict.limit: verdict.status for verdict in judge(both)}
    assert {statuses[name] for name in ("max_drop", "min_agreement", "min_accuracy")} == {Status.PASS}


def test_a_limit_that_is_never_decided_takes_all_samples_as_they_are(few: Bench) -> None:
    """The result is that of an ordinary evaluation, in the order of the set, and the note says so."""
    limits = Limits(max_drop=0.2)
    early, whole = (few.measure(dataset=DATA, limits=limits, sequential=asked) for asked in (True, False))
    # Sums of floats in another order differ in the last digit.
    assert early.accuracy.cosine == pytest.approx(whole.accuracy.cosine)
    summed: dict[str, Any] = {"cosine": None, "sqnr_db": None, "kl": None, "by_output": ()}
    assert replace(early.accuracy, **summed) == replace(whole.accuracy, **summed)
    assert early.digests == whole.digests
    assert "before a limit was decided" in " ".join(early.notes)


def test_proof_for_all_there_could_be_keeps_the_sequence_to_the_end(few: Bench) -> None:
    """Tango's interval after looks at the sequence would err more often than both say."""
    whole = few.measure(dataset=DATA, limits=Limits(max_drop=0.25), confidence=0.9)
    early = few.measure(dataset=DATA, limits=Limits(max_drop=0.25), confidence=0.9, sequential=True)
    assert (early.accuracy.n, early.accuracy.of_samples) == (N, None)
    assert early.accuracy.drop_ci is not None
    assert whole.accuracy.drop_ci is not None
    assert early.accuracy.drop_ci.high > whole.accuracy.drop_ci.high
    assert early.accuracy.confidence == 0.9


class Streamed:
    """Samples in their own order only."""

    def __iter__(self) -> Iterator[object]:
        return ((sample, label) for sample, label in zip(SAMPLES, LABELS.tolist(), strict=True))


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"limits": Limits(max_drop=3.0, min_ratio=0.9)}, "min_ratio needs all of them"),
        ({"limits": Limits(max_drop=3.0, max_drop_increase=1.0)}, "max_drop_increase needs all of them"),
        ({"limits": Limits()}, "no limit on accuracy is set"),
        ({"metric": "f1"}, "scores of f1 have no bounds"),
        ({"metric": Metric(lambda o, _: o[:, 0], unit="mm", scale=1, name="own")}, "scores of own have no bounds"),
        (
            {"dataset": Dataset.from_iterable(Streamed(), list(numbers(10) + 5))},
            "gives its samples in their own order only",
        ),
    ],
)
def test_what_needs_all_samples_gets_them_and_says_why(few: Bench, others: dict[str, Any], why: str) -> None:
    """A sequence over samples in an order that is not random would prove nothing."""
    found = few.measure(**{"dataset": DATA, "limits": Limits(max_drop=3.0), **others}, sequential=True)
    assert (found.accuracy.n, found.accuracy.of_samples) == (N, None)
    assert f"all samples were evaluated, since {why}" in " ".join(found.notes).replace("quant_data ", "")


def test_a_list_of_samples_is_read_in_random_order_like_arrays(few: Bench) -> None:
    """The same samples decide."""
    samples = [(sample, int(label)) for sample, label in zip(SAMPLES, LABELS, strict=True)]
    arrays, listed = (
        few.measure(dataset=data, limits=Limits(max_drop=3.0), sequential=True)
        for data in (DATA, Dataset.from_iterable(samples, list(numbers(10) + 5)))
    )
    assert listed.accuracy == arrays.accuracy


def test_scores_that_leave_their_bounds_take_all_samples(few: Bench) -> None:
    """A metric in percent of which one sample scores 2 is no share."""

    def double(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.where(outputs.argmax(axis=1) == labels, 2.0, 0.5)

    found = few.measure(dataset=DATA, metric=Metric(double), limits=Limits(max_drop=3.0), sequential=True)
    assert (found.accuracy.n, found.accuracy.of_samples) == (N, None)


def test_outputs_of_a_stopped_evaluation_are_never_those_of_a_whole_one(few: Bench) -> None:
    """The cache of the reference's outputs holds whole sets only."""
    limits = Limits(max_drop=3.0)
    first = few.measure(dataset=DATA, limits=limits, sequential=True)
    whole = few.measure(dataset=DATA, limits=limits)
    again = few.measure(dataset=DATA, limits=limits, sequential=True)
    assert (first.cache["reference"], whole.cache["reference"]) == ("built", "built")
    assert again.accuracy == first.accuracy
    assert whole.accuracy.n == N


def test_a_broken_sample_is_named_by_its_place_in_the_set(bench: Bench) -> None:
    """Not by its place in the random order."""
    last = int(random_order(N)[0])

    def play(feeds: Any) -> Any:
        broken = (feeds["x"] == SAMPLES[last]).all(axis=1)
        return {"y": np.where(broken[:, None], np.nan, feeds["x"]).astype(np.float32)}

    bench.candidate = play
    found = bench.measure(dataset=DATA, limits=Limits(max_drop=3.0), sequential=True)
    assert [one.sample for one in found.accuracy.faults] == [last]


def test_the_order_is_that_of_a_permutation_and_never_changes() -> None:
    """Records of other versions were evaluated in the same one."""
    order = random_order(1000)
    assert sorted(order) == list(range(1000))
    assert abs(float(np.corrcoef(order, np.arange(1000))[0, 1])) < 0.1
    assert random_order(8).tolist() == [1, 3, 5, 6, 7, 4, 0, 2]


def test_a_sequence_that_does_not_decide_a_share_is_inconclusive() -> None:
    """Under proof, where it is judged to the end."""
    result = AccuracyResult(n=10, agreement_pct=99.0, agreement_ci=Interval(95.0, 100.0))
    (verdict,) = accuracy_verdicts(Limits(min_agreement=97.0), result, 0.95)
    assert verdict.status is Status.INCONCLUSIVE
    (verdict,) = accuracy_verdicts(Limits(min_agreement=100.1), result, 0.95)
    assert verdict.status is Status.FAIL
