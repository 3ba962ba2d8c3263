"""A score may have two parts, whose sums are divided, and samples may share a cluster."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data.score_pairs import PairedScores, read_scores
from pytest_quant.errors import UsageError
from pytest_quant.measure.scored import metric_of
from pytest_quant.spec import Scores
from tests.unit.data.test_score_pairs import refused, samples, write_lines

ERRORS, WORDS = [1.0, 0.0, 3.0, 0.0], [4.0, 6.0, 2.0, 5.0]
RATIO = {"numerator": ERRORS, "denominator": WORDS}


def scores_of(paired: PairedScores) -> list[float]:
    """The score of each run of the candidate."""
    return [metric_of(paired).aggregate(run) for run in paired.candidate]


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 9.0)), min_size=1, max_size=30))
def test_weights_give_the_weighted_mean(pairs: list[tuple[float, float]]) -> None:
    """The score is `numpy.average` with the weights, in percent; weights that are all 0 are refused."""
    score, weight = (np.array(column) for column in zip(*pairs, strict=True))
    scores = Scores.from_arrays(None, {"score": score, "weight": weight})
    if not weight.any():
        assert "the weights of all samples are 0" in refused(scores)
        return
    assert scores_of(read_scores(scores)[0])[0] == pytest.approx(100.0 * np.average(score, weights=weight))


def test_a_ratio_is_that_of_the_sums_in_each_run() -> None:
    """4 errors in 17 words are 23.5 %, whatever single sentences have; one part may be the same in all runs."""
    (paired,) = read_scores(Scores.from_arrays(RATIO, {**RATIO, "numerator": [ERRORS, [0.0] * 4]}, better="lower"))
    assert scores_of(paired) == pytest.approx([100.0 * 4.0 / 17.0, 0.0])
    assert (paired.reference.shape, paired.candidate.shape, paired.unit) == ((1, 4, 2), (2, 4, 2), "%")


def test_a_sample_of_weight_0_counts_in_the_numerator_alone() -> None:
    """Two words said where the text is empty are errors of the corpus; a score of weight 0 is nothing."""
    (said,) = read_scores(
        Scores.from_arrays(None, {"numerator": [1.0, 2.0], "denominator": [9.0, 0.0]}, better="lower")
    )
    (nothing,) = read_scores(Scores.from_arrays(None, {"score": [0.5, 1.0], "weight": [9.0, 0.0]}))
    assert [*scores_of(said), *scores_of(nothing)] == pytest.approx([100.0 / 3.0, 50.0])


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_files_have_a_column_for_each_part(tmp_path: Path, ending: str) -> None:
    """The columns are named by the same keys; the cluster is one more."""
    rows = [
        {"id": place, "errors": errors, "words": words, "speaker": f"s{place % 2}"}
        for place, (errors, words) in enumerate(zip(ERRORS, WORDS, strict=True))
    ]
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps(rows) if ending == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    key = {"numerator": "errors", "denominator": "words"}
    (paired,) = read_scores(Scores.from_files(None, path, score=key, better="lower", cluster="speaker"))
    assert paired.candidate[0].tolist() == [list(pair) for pair in zip(ERRORS, WORDS, strict=True)]
    assert (paired.clusters, paired.metric) == (("s0", "s1", "s0", "s1"), "errors/words")


def test_what_the_candidate_lacks_has_the_weight_of_the_reference() -> None:
    """As the worst score all words of a lost sentence are wrong; the reference's number of words is known."""
    reference, candidate = (
        {"numerator": [0.0] * n, "denominator": [2.0] * 199 + [30.0] * (n - 199)} for n in (200, 199)
    )
    (paired,) = read_scores(Scores.from_arrays(reference, candidate, better="lower", missing="worst"))
    assert paired.missing == (0, 0, 1)
    assert scores_of(paired) == pytest.approx([100.0 * 30.0 / (2.0 * 199.0 + 30.0)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"score": [1.0, 0.0], "weight": [1.0, -1.0]}, ["run 1, sample 1: a weight is -1", "0 or more"]),
        ({"score": [1.0, 0.0], "weight": [1.0, math.nan]}, ["run 1, sample 1: 'weight' is nan", "a finite number"]),
        ({"numerator": [1.0, 0.0], "denominator": [0.0, 0.0]}, ["run 1: the weights of all samples are 0"]),
        ({"score": [1.0, 0.0], "weight": [1.0]}, ["weight of shape (1,) for 2 ids"]),
        ({"score": np.zeros((3, 2)), "weight": np.ones((2, 2))}, ["weight of shape (2, 2) for 2 ids"]),
        ({"numerator": [3.0, 0.0], "denominator": [1.0, 1.0]}, ["between 0 and 1, times 100"]),
    ],
)
def test_parts_that_make_no_score_are_refused(given: dict[str, Any], words: list[str]) -> None:
    """Negative and missing weights, none at all, other shapes, and shares beyond 100 %."""
    message = refused(Scores.from_arrays(None, given))
    assert [word for word in words if word not in message] == []


def test_other_parts_and_one_side_alone_are_refused() -> None:
    """The keys are two pairs of words, and both sides have scores of one form."""
    with pytest.raises(UsageError, match="a score has two parts"):
        Scores.from_arrays(None, {"score": [1.0], "weights": [1.0]})
    with pytest.raises(UsageError, match="numerator and denominator"):
        Scores.from_files(None, "a.csv", score={"numerator": "errors"})
    assert "only one side has scores of two parts" in refused(Scores.from_arrays([0.0] * 4, RATIO, better="lower"))


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (["a", "a", "b"], ["cluster of shape (3,) for 4 ids"]),
        (["a"] * 4, ["all samples are of one cluster", "got: a", "leave out cluster"]),
        ([1.5, 1.5, 2.0, 2.0], ["sample 0", "a text or a whole number", "1.5", "cluster='...'"]),
    ],
)
def test_clusters_that_tell_nothing_are_refused(cluster: list[Any], words: list[str]) -> None:
    """Another length, one cluster for all, and numbers that are no names."""
    message = refused(Scores.from_arrays(None, [1.0, 0.0, 1.0, 0.0], cluster=cluster))
    assert [word for word in words if word not in message] == []


def test_a_key_of_the_document_is_the_cluster_of_a_logged_sample(tmp_path: Path) -> None:
    """`doc.subject` leads into the document of lm-eval; a key that is not there is named with its line."""
    rows = [
        {"doc_id": place, "filter": "none", "metrics": ["acc"], "acc": 1.0, "doc": {"subject": f"s{place // 2}"}}
        for place in range(4)
    ]
    folder = samples(tmp_path, rows)
    (paired,) = read_scores(Scores.from_lm_eval(None, folder, cluster="doc.subject"))
    assert paired.clusters == ("s0", "s0", "s1", "s1")
    assert "line 1: there is no 'doc.topic'" in refused(Scores.from_lm_eval(None, folder, cluster="doc.topic"))


def test_another_cluster_under_an_id_is_another_sample(tmp_path: Path) -> None:
    """Both sides have to agree on who spoke."""
    rows: list[dict[str, object]] = [{"id": place, "score": 1.0, "speaker": place % 2} for place in range(4)]
    others: list[dict[str, object]] = [{**row, "speaker": 7} for row in rows[:2]] + rows[2:]
    files = (write_lines(tmp_path / name, listed) for name, listed in (("r.jsonl", rows), ("c.jsonl", others)))
    assert "has other prompts for 2 of 4 samples: 0, 1" in refused(Scores.from_files(*files, cluster="speaker"))


@pytest.mark.parametrize(
    ("metric", "count", "formula"),
    [
        ("word_perplexity", 4, lambda mean: math.exp(-mean)),
        ("byte_perplexity", 20, lambda mean: math.exp(-mean)),
        ("bits_per_byte", 20, lambda mean: -mean / math.log(2.0)),
    ],
)
def test_perplexities_of_lm_eval_are_of_the_sums(tmp_path: Path, metric: str, count: int, formula: Any) -> None:
    """A row of wikitext has the log-likelihood of a document and its words or bytes, which lm-eval adds up."""
    likelihoods = [-12.5, -33.0, -8.25]
    rows = [
        {"doc_id": place, "filter": "none", "metrics": [metric], metric: [value, count * (place + 1)]}
        for place, value in enumerate(likelihoods)
    ]
    (paired,) = read_scores(Scores.from_lm_eval(None, samples(tmp_path, rows, task="wikitext")))
    assert scores_of(paired) == pytest.approx([formula(sum(likelihoods) / (6 * count))], rel=1e-12)
    assert (paired.better, paired.unit) == ("lower", "")
