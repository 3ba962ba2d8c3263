"""Ratios of sums: their score, what a sample weighs, their interval, and functions that give something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert "whose denominator is not 0" in result.note


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
        scored(Metric(lambda *_: given), [0, 0, 0], [0, 0, 0], [1, 1, 1])


def test_a_sum_that_is_not_finite_is_named_with_its_sample() -> None:
    """NaN in the numerator of sample 4."""
    with pytest.raises(UsageError, match="finite score") as error:
        scored(WER, [0, 0, 0, 0, np.nan, 0], np.zeros(6), np.ones(6))
    assert "for sample 4" in str(error.value)
