"""Ratios of sums and clusters of samples are judged on their value, or on an interval that fits them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_quant.result import Status
from pytest_quant.spec import Scores
from tests.unit.measure.test_scored import measured, statuses


def words(n: int, seed: int, rate: float) -> dict[str, Any]:
    """Sentences of 3 to 40 words, each of which is wrong with the chance `rate`."""
    lengths = np.random.default_rng(1).integers(3, 40, size=n)
    return {"numerator": np.random.default_rng(seed).binomial(lengths, rate), "denominator": lengths}


def ends(scores: Scores) -> tuple[float, float]:
    """The interval of the drop."""
    interval = measured(scores).accuracy.drop_ci
    assert interval is not None
    return interval.low, interval.high


def test_a_deterministic_ratio_is_judged_on_its_value() -> None:
    """The drop is that of the error rates of the corpora, and limits right beside it pass and fail."""
    reference, candidate = words(200, 2, 0.08), words(200, 3, 0.1)
    drop = 100.0 * (candidate["numerator"].sum() - reference["numerator"].sum()) / reference["denominator"].sum()
    for margin, status in ((drop - 0.01, Status.FAIL), (drop + 0.01, Status.PASS)):
        result = measured(Scores.from_arrays(reference, candidate, better="lower", deterministic=True), max_drop=margin)
        assert result.accuracy.drop == pytest.approx(drop)
        assert statuses(result) == [status]
    (low, high) = ends(Scores.from_arrays(reference, candidate, better="lower"))
    assert low < drop < high


def test_sides_may_have_other_denominators() -> None:
    """Tokens of two tokenizers: each side has its own mean, and a unit of its own has no bounds."""
    random = np.random.default_rng(0)
    tokens = random.integers(50, 90, size=(2, 60))
    losses = tokens * random.normal(2.0, 0.2, size=60)
    before, after = ({"numerator": loss, "denominator": token} for loss, token in zip(losses, tokens, strict=True))
    accuracy = measured(Scores.from_arrays(before, after, better="lower", unit="nats", scale=1)).accuracy
    assert accuracy.reference == pytest.approx(losses[0].sum() / tokens[0].sum())
    assert accuracy.drop == pytest.approx(losses[1].sum() / tokens[1].sum() - losses[0].sum() / tokens[0].sum())


def test_runs_of_a_ratio_have_the_noise_of_their_scores() -> None:
    """Equal weights in all runs: the noise is the spread of the error rates of the runs."""
    runs = np.stack([words(100, seed, 0.1)["numerator"] for seed in range(4)])
    side = {**words(100, 0, 0.1), "numerator": runs}
    accuracy = measured(Scores.from_arrays(words(100, 9, 0.1), side, better="lower")).accuracy
    rates = 100.0 * runs.sum(axis=1) / side["denominator"].sum()
    assert accuracy.run_sd == pytest.approx(float(np.std(rates, ddof=1)))
    assert accuracy.candidate == pytest.approx(float(rates.mean()))


def test_runs_with_weights_of_their_own_have_the_noise_of_their_scores() -> None:
    """Answers of other lengths in each run: their spread is that of the ratios, to first order."""
    random = np.random.default_rng(5)
    weights = random.integers(20, 60, size=(4, 300)) * np.array([1.0, 1.5, 0.7, 1.2])[:, None]
    side = {"score": random.normal(0.7, 0.1, size=(4, 300)).clip(0.0, 1.0), "weight": weights}
    rates = 100.0 * (side["score"] * weights).sum(axis=1) / weights.sum(axis=1)
    accuracy = measured(Scores.from_arrays({name: part[0] for name, part in side.items()}, side)).accuracy
    assert accuracy.run_sd == pytest.approx(float(np.std(rates, ddof=1)), rel=0.5)


def test_runs_of_answers_in_clusters_are_drawn_by_clusters() -> None:
    """Of several runs too: questions about one text that are lost together widen the interval."""
    texts = np.repeat(np.random.default_rng(0).random(40) < 0.9, 10)
    luck = np.random.default_rng(1).random((3, 400)) < 0.02
    sides = np.ones((3, 400)), (texts ^ luck).astype(float)
    apart, together = (ends(Scores.from_arrays(*sides, cluster=each)) for each in (None, np.repeat(np.arange(40), 10)))
    assert together[1] - together[0] > 1.2 * (apart[1] - apart[0])


@pytest.mark.parametrize("n", [12, 60])
def test_copies_in_a_cluster_tell_no_more_than_one_of_them(n: int) -> None:
    """Each sentence seven times: as clusters they have the interval of the sentences, and without a narrower one."""
    once = words(n, 2, 0.1), words(n, 3, 0.13)
    names = np.arange(n)
    seven = [{name: np.repeat(part, 7) for name, part in side.items()} for side in once]
    alone, clustered, taken_apart = (
        ends(scores)
        for scores in (
            Scores.from_arrays(*once, better="lower", cluster=names),
            Scores.from_arrays(*seven, better="lower", cluster=np.repeat(names, 7)),
            Scores.from_arrays(*seven, better="lower"),
        )
    )
    assert clustered == pytest.approx(alone)
    assert taken_apart[1] - taken_apart[0] < 0.6 * (alone[1] - alone[0])


def test_right_and_wrong_answers_in_clusters_have_no_test_of_independent_ones() -> None:
    """All questions about one text are lost together: the p of McNemar is far too small, and is left out."""
    reference = np.ones(400)
    candidate = np.repeat(np.random.default_rng(0).random(40) < 0.9, 10).astype(float)
    apart = measured(Scores.from_arrays(reference, candidate)).accuracy
    together = measured(Scores.from_arrays(reference, candidate, cluster=np.repeat(np.arange(40), 10))).accuracy
    assert apart.p_value is not None
    assert together.p_value is None
    assert apart.drop_ci is not None
    assert together.drop_ci is not None
    assert together.drop_ci.low < apart.drop_ci.low < apart.drop_ci.high < together.drop_ci.high


def test_the_samples_that_lost_most_are_those_of_most_errors() -> None:
    """A note names the sentence that added most to the error rate."""
    reference, candidate = words(50, 2, 0.0), words(50, 2, 0.0)
    candidate["numerator"][7] = 2
    notes = measured(Scores.from_arrays(reference, candidate, better="lower")).notes
    assert "1 samples lost, most of all 7" in notes
