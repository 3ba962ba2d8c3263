"""Error rates of single samples may exceed 100 %, and are judged as numbers that nothing bounds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.result import Status
from pytest_quant.spec import Scores
from tests.unit.data.test_lm_eval import MONDAY
from tests.unit.data.test_score_pairs import refused, samples
from tests.unit.measure.test_scored import measured, statuses


@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_error_rates_above_one_hundred_percent_are_judged_as_in_their_own_unit(data: st.DataObject) -> None:
    """Nothing bounds them, so that the drop and its interval are those of the plain numbers, times a hundred."""
    seed, worst = data.draw(st.integers(0, 10**6)), data.draw(st.floats(1.01, 50.0))
    reference, candidate = np.random.default_rng(seed).gamma(0.5, 0.3, size=(2, 40))
    (candidate if data.draw(st.booleans()) else reference)[0] = worst
    rate, plain = (
        measured(
            Scores.from_arrays(reference, candidate, better="lower", unit=unit, scale=scale, deterministic=True)
        ).accuracy
        for unit, scale in (("%", 100.0), ("", 1.0))
    )
    assert rate.drop_ci is not None
    assert plain.drop_ci is not None
    drop = 100.0 * float(candidate.mean() - reference.mean())
    assert rate.drop == pytest.approx(drop)
    assert rate.drop_ci.low <= drop <= rate.drop_ci.high
    assert [rate.drop_ci.low, rate.drop_ci.high] == pytest.approx(
        [100.0 * plain.drop_ci.low, 100.0 * plain.drop_ci.high]
    )


def test_a_side_of_more_errors_than_words_fails_with_its_drop_in_the_interval() -> None:
    """A candidate that repeats itself has 150 % errors: 140 points lost, which is no more than it can lose."""
    random = np.random.default_rng(0)
    before = random.gamma(2.0, 0.05, size=200)
    result = measured(Scores.from_arrays(before, before + 1.4, better="lower", deterministic=True), max_drop=1.0)
    assert statuses(result) == [Status.FAIL]
    assert result.accuracy.drop == pytest.approx(140.0)
    assert result.accuracy.drop_ci is not None
    assert result.accuracy.drop_ci.low <= 140.0 <= result.accuracy.drop_ci.high


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_error_rates_above_one_hundred_percent_are_rates(scale: float) -> None:
    """On either side and of many samples; where both sides are above it on average, the scale is another."""
    few, many = np.full((1, 200), 0.1), np.full((1, 200), 1.5)
    for sides in ((few, many), (many, few), (None, np.r_[few[0], 40.0])):
        given = (None if side is None else side * 100.0 / scale for side in sides)
        (paired,) = read_scores(Scores.from_arrays(*given, better="lower", scale=scale))
        assert (paired.unit, paired.scale) == ("%", scale)
    message = refused(Scores.from_arrays(many * 100.0 / scale, many * 100.0 / scale, better="lower", scale=scale))
    assert f"between 0 and {100.0 / scale:g}, times {scale:g}, error rates on average" in message
    assert "between 0 and 1, times 100" in refused(Scores.from_arrays(few, many))


def test_the_unit_of_logged_error_rates_is_not_that_of_one_sample(tmp_path: Path) -> None:
    """One answer of many wrong words does not turn the percentages of lm-eval into numbers of their own unit."""
    rows = [{"doc_id": place, "filter": "none", "metrics": ["wer"], "wer": 0.1 * place} for place in range(5)]
    rows[0]["wer"] = 2.5
    folder = samples(tmp_path, rows, time=MONDAY)
    (folder / "model" / f"results_{MONDAY}.json").write_text(
        json.dumps({"higher_is_better": {"gsm8k": {"wer": False}}})
    )
    (paired,) = read_scores(Scores.from_lm_eval(None, folder))
    assert (paired.better, paired.unit, paired.scale) == ("lower", "%", 100.0)


def test_an_error_rate_that_is_missing_is_at_least_as_bad_as_any() -> None:
    """The worst score is 100 %, or the worst that a sample has."""
    before, after = np.full(200, 0.1), np.full(199, 0.1)
    for worst in (0.5, 3.0):
        before[0] = after[0] = worst
        (paired,) = read_scores(Scores.from_arrays(before, after, better="lower", missing="worst"))
        assert paired.candidate[0, paired.ids.index("199")] == max(1.0, worst)
