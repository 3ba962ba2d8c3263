"""Ratios of sums: their score, what a sample weighs, their interval, and functions that give something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.result import AccuracyResult


def errors(outputs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Give the first value of an output as its errors, and the label as its words."""
    return {"numerator": outputs[:, 0], "denominator": labels}


WER = Metric(errors, better="lower", unit="%", scale=100, name="wer")


def scored(metric: Metric, ours: Any, theirs: Any, words: Any, clusters: Any = None) -> AccuracyResult:
    """Score both sides in chunks of three samples."""
    sides, words = [np.asarray(side, dtype=float)[:, None] for side in (ours, theirs)], np.asarray(words)
    scores = PairedStatistics(resolve_wrapped(metric))
    for start in range(0, len(words), 3):
        part = slice(start, start + 3)
        sound = np.ones(len(words[part]), dtype=bool)
        scores.add(sides[0][part], sides[1][part], words[part], sound, start)
    return scores.add_to(AccuracyResult(n=len(words)), None, 0.95, clusters)


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 50)), min_size=2, max_size=40))
@settings(max_examples=50)
def test_a_ratio_is_the_sum_of_the_one_by_the_sum_of_the_other(rows: list[tuple[int, int, int]]) -> None:
    """As numpy's weighted average of the ratios has it, and one sample weighs at most what its words do."""
    ours, theirs, words = np.array(rows).T
    result = scored(WER, ours, theirs, words)
    expected = [100 * np.average(side / words, weights=words) for side in (ours, theirs)]
    assert (result.reference, result.candidate) == pytest.approx(tuple(expected))
    drop = expected[1] - expected[0]
    assert result.drop == pytest.approx(drop, abs=1e-9)
    assert result.sample_weight == pytest.approx(100 * words.max() / words.sum())
    assert result.drop_ci is not None
    assert result.drop_ci.low - 1e-9 <= drop <= result.drop_ci.high + 1e-9


def test_samples_of_one_cluster_count_as_one() -> None:
    """Each of 40 speakers says one sentence five times: the interval is that of 40 sentences, of 200 it is narrower."""
    random = np.random.default_rng(0)
    words, ours = random.integers(5, 30, 40), random.integers(0, 3, 40)
    theirs = ours + random.integers(0, 2, 40)
    once = scored(WER, ours, theirs, words).drop_ci
    one, other, said = (np.repeat(side, 5) for side in (ours, theirs, words))
    alone = scored(WER, one, other, said).drop_ci
    speakers = scored(WER, one, other, said, np.repeat(np.arange(40), 5)).drop_ci
    assert speakers == pytest.approx(once)
    assert alone is not None
    assert once is not None
    assert (alone.high - alone.low) == pytest.approx((once.high - once.low) / np.sqrt(5), rel=0.1)


def test_answers_of_clusters_have_no_test_of_independent_ones() -> None:
    """Right and wrong answers of ten documents: no p of McNemar, and the interval of ten and not of forty."""
    right = Metric(lambda outputs, _: outputs[:, 0] > 0)
    ours, theirs = np.ones(40), np.tile([1, 1, 1, 0], 10)
    alone = scored(right, ours, theirs, np.zeros(40))
    result = scored(right, ours, np.sort(theirs), np.zeros(40), np.repeat(np.arange(10), 4))
    assert (alone.drop, result.drop, alone.discordant, result.discordant) == (25.0, 25.0, 10, 10)
    assert alone.p_value is not None
    assert result.p_value is None
    assert alone.drop_ci is not None
    assert result.drop_ci is not None
    assert result.drop_ci.high > alone.drop_ci.high


def test_no_word_in_any_sample_gives_no_score() -> None:
    """The sum to divide by is 0: no figure, and a note that says what to evaluate."""
    result = scored(WER, [1, 0], [0, 0], [0, 0])
    assert result.drop is None
    assert "that have something to count" in result.note


@pytest.mark.parametrize(
    "given",
    [
        {"numerator": np.zeros(3)},
        {"numerator": np.zeros(3), "denominator": np.zeros(2)},
        {"numerator": np.zeros(3), "denominator": -np.ones(3)},
        {"errors": np.zeros(3), "words": np.ones(3)},
    ],
)
def test_what_is_no_ratio_is_named(given: dict[str, np.ndarray]) -> None:
    """A missing key, another length, a negative denominator, other names: the message has both keys."""
    with pytest.raises(UsageError, match="a numerator and a denominator for each sample"):
        scored(Metric(lambda *_: given, better="lower"), [0, 0, 0], [0, 0, 0], [1, 1, 1])


def test_a_sum_that_is_not_finite_is_named_with_its_sample() -> None:
    """NaN in the numerator of sample 4."""
    with pytest.raises(UsageError, match="finite score") as error:
        scored(WER, [0, 0, 0, 0, np.nan, 0], np.zeros(6), np.ones(6))
    assert "for sample 4" in str(error.value)


def test_a_ratio_without_a_direction_is_refused() -> None:
    """More errors are no better score, and a function that gives them need not say so by its name."""
    with pytest.raises(UsageError, match="gives no direction"):
        scored(Metric(errors), [0, 1], [1, 1], [5, 5])


@pytest.mark.parametrize(("changed", "share"), [(0, 1.0), (5, 0.5), (9, 0.1), (10, 0.0), (11, 0.0)])
def test_what_no_unit_has_shown_counts_less_the_more_of_them_differ(changed: int, share: float) -> None:
    """Of 20 speakers, t of the jackknife and that share of 100 points times SciPy's 0-of-20 end, in squares."""
    words, ours = np.full(20, 50), np.full(20, 5)
    theirs = ours + (np.arange(20) < changed)
    result = scored(Metric(errors, better="higher", name="hits"), ours, theirs, words, np.arange(20)).drop_ci
    left = [100 * (np.delete(ours, i).sum() - np.delete(theirs, i).sum()) / (19 * 50) for i in range(20)]
    seen = stats.t.ppf(0.975, 19) * np.sqrt(19 / 20 * np.sum((np.array(left) - np.mean(left)) ** 2))
    unseen = share * 100 * stats.binomtest(0, 20).proportion_ci(0.95, method="exact").high
    assert result is not None
    assert result.high - result.low == pytest.approx(2 * np.hypot(seen, unseen), rel=1e-6)


def test_sides_that_differ_everywhere_and_score_alike_are_not_certain() -> None:
    """Each of 40 sentences has half its errors of another word: the drop is 0, and its interval is not a point."""
    ours, words = np.full(40, 2.0), np.full(40, 10)
    result = scored(
        Metric(lambda outputs, labels: {"numerator": np.round(outputs[:, 0]), "denominator": labels}, better="lower"),
        ours,
        ours + 0.25,
        words,
    ).drop_ci
    assert result is not None
    assert result.low < 0.0 < result.high


def test_more_samples_of_the_same_groups_are_not_advised() -> None:
    """Two speakers: the interval is wide, no number of samples would decide, and a note says why."""
    random = np.random.default_rng(1)
    words, ours = random.integers(5, 30, 40), random.integers(0, 5, 40)
    theirs = ours + random.integers(0, 2, 40)
    scores = PairedStatistics(resolve_wrapped(WER))
    scores.add(ours[:, None].astype(float), theirs[:, None].astype(float), words, np.ones(40, dtype=bool), 0)
    result = scores.add_to(AccuracyResult(n=40), 3.0, 0.95, np.arange(40) % 2)
    assert result.n_to_resolve is None
    assert "over 2 groups: more of them would narrow it, no more samples" in result.note
    assert scores.add_to(AccuracyResult(n=40), 3.0, 0.95).n_to_resolve is not None
