"""Errors of words and characters beside jiwer, spans of tags beside seqeval, and texts by hand."""

from __future__ import annotations

import warnings

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from pytest_quant import Metric, UsageError, character_errors, span_f1, word_errors
from pytest_quant.metrics import resolve_metric
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import ResolvedMetric, resolve_wrapped
from pytest_quant.metrics.texts import exact_matches
from pytest_quant.result import AccuracyResult
from tests.unit.metrics.scoring import said

WORDS = st.lists(st.sampled_from(["a", "b", "ab", "über", "c"]), max_size=9).map(" ".join)
"""Few words, so that texts share many; some are empty."""

PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8)


def texts(*values: str) -> np.ndarray:
    """Return texts as a runtime gives them."""
    return np.array(values, dtype=object)


def resolved(name: str) -> ResolvedMetric:
    """Return the metric of that name for texts."""
    metric = resolve_metric(name, "object", (0,))
    assert metric is not None
    return metric


def score(name: str, pairs: list[tuple[str, str]]) -> float:
    """Score (text, reference) pairs by the metric of that name, in two chunks."""
    metric = resolved(name)
    sides = [texts(*side) for side in zip(*pairs, strict=True)]
    half = len(pairs) // 2
    rows = [metric.statistics(*(side[part] for side in sides)) for part in (slice(half), slice(half, None))]
    return metric.aggregate(np.concatenate(rows))


@settings(max_examples=200)
@given(pairs=PAIRS)
def test_error_rates_equal_jiwers(pairs: list[tuple[str, str]]) -> None:
    """Of a corpus, in percent: sums of edits by sums of words or characters; empty texts among them."""
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    if any(theirs):
        assert score("wer", pairs) == pytest.approx(100 * jiwer.wer(theirs, ours), abs=1e-9)
        assert score("cer", pairs) == pytest.approx(100 * jiwer.cer(theirs, ours), abs=1e-9)
    else:
        assert not np.isfinite(score("wer", pairs))


@pytest.mark.parametrize(
    ("text", "reference", "words", "characters"),
    [
        ("the cat sat", "the cat sat", (0, 3), (0, 11)),
        (" the\tcat\nsat ", "the cat sat", (0, 3), (2, 11)),
        ("the cat", "the cat sat", (1, 3), (4, 11)),
        ("a the cat sat", "the cat sat", (1, 3), (2, 11)),
        ("the hat sat", "the cat sat", (1, 3), (1, 11)),
        ("", "the cat", (2, 2), (7, 7)),
        ("the cat", "", (2, 0), (7, 0)),
        ("", " ", (0, 0), (0, 0)),
    ],
)
def test_errors_of_one_text(text: str, reference: str, words: tuple[int, int], characters: tuple[int, int]) -> None:
    """Left out, added and replaced; two empty texts count for nothing."""
    for errors, expected in ((word_errors, words), (character_errors, characters)):
        counts = errors([text], [reference])
        assert (counts["numerator"].tolist(), counts["denominator"].tolist()) == ([expected[0]], [expected[1]])


def test_a_long_text_is_quick_enough_to_compare() -> None:
    """A thousand words a side, of which each tenth is another and some are missing: as many edits as were made."""
    reference = [f"w{number}" for number in range(1000)]
    text = [word if number % 10 else "other" for number, word in enumerate(reference)]
    del text[501:511:2]
    assert word_errors([" ".join(text)], [" ".join(reference)])["numerator"].tolist() == [105]


@pytest.mark.parametrize("name", ["wer", "cer", "exact_match"])
@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (np.zeros(2), texts("a", "b")),
        (texts("a", "b"), np.zeros(2)),
        (texts("a", "b"), np.array([["a"], "b"], object)),
        (np.array([["a", "b"], ["c", "d"]], object), texts("a", "b")),
    ],
)
def test_texts_are_compared_with_texts(name: str, outputs: np.ndarray, labels: np.ndarray) -> None:
    """One of each sample."""
    metric = resolved(name)
    assert f"{name} compares one text of each sample" in said(lambda: metric.statistics(outputs, labels))


def test_an_exact_match_leaves_space_around_a_text_out() -> None:
    """Nothing else: case and space within count."""
    outputs, labels = texts("yes", " yes\n", "Yes", "a  b", ""), texts("yes", "yes", "yes", "a b", " ")
    assert exact_matches(outputs, labels).tolist() == [True, True, False, False, True]
    assert exact_matches(outputs.reshape(5, 1), labels).tolist() == [True, True, False, False, True]
    metric = resolved("exact_match")
    assert metric.aggregate(metric.statistics(outputs, labels)) == 60.0


def drop_of(metric: ResolvedMetric, reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> AccuracyResult:
    """Score both sides as a check does."""
    statistics = PairedStatistics(metric)
    statistics.add(reference, candidate, labels, np.ones(len(labels), dtype=bool), 0)
    return statistics.add_to(AccuracyResult(n=len(labels)), None, 0.95)


def test_an_own_metric_decodes_before_it_counts() -> None:
    """As of a model with CTC: letters by index, a blank between; its score and interval are those of the texts."""
    letters, random = np.array(list("-ab ")), np.random.default_rng(0)
    labels = random.integers(1, 4, (60, 12))
    sides = [np.where(random.random(labels.shape) < share, 0, labels) for share in (0.05, 0.1)]

    def decode(outputs: np.ndarray) -> list[str]:
        return ["".join(letters[row]).replace("-", "") for row in outputs]

    spoken, (reference, candidate) = texts(*decode(labels)), sides
    own = Metric(lambda outputs, labels: word_errors(decode(outputs), labels), better="lower", unit="%", name="wer")
    by_texts = drop_of(resolved("wer"), texts(*decode(reference)), texts(*decode(candidate)), spoken)
    assert drop_of(resolve_wrapped(own), reference, candidate, spoken) == by_texts
    assert by_texts.drop_ci is not None
    assert by_texts.drop_ci.low > 0


def test_references_without_a_word_give_no_score() -> None:
    """And the note says which samples would; one that has a word is enough."""
    spoken, silent = texts("a", "b", ""), texts("", " ", "")
    nothing = drop_of(resolved("wer"), spoken, spoken, silent)
    assert (nothing.reference, nothing.drop) == (None, None)
    assert "next: evaluate samples that have something to count" in nothing.note
    assert drop_of(resolved("wer"), silent, spoken, texts("a", "", "")).reference == 100.0


TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-PER", "S-LOC", "I", "I-A-B"]
TAGGED = st.lists(
    st.lists(st.tuples(st.integers(0, len(TAGS) - 1), st.integers(0, len(TAGS) - 1)), min_size=1, max_size=9),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200)
@given(sentences=TAGGED, seed=st.integers(0, 1000), alike=st.booleans())
def test_span_f1_equals_seqevals(sentences: list[list[tuple[int, int]]], seed: int, alike: bool) -> None:
    """Micro F1 of any order of tags, valid or not; padded tokens and those within a word do not count."""
    random, tokens = np.random.default_rng(seed), 12
    scores, labels = random.normal(size=(len(sentences), tokens, len(TAGS))), np.full((len(sentences), tokens), -100)
    ours, theirs = [], []
    for sample, sentence in enumerate(sentences):
        places = np.sort(random.permutation(tokens)[: len(sentence)])
        predicted = [true if alike and random.random() < 0.7 else tag for tag, true in sentence]
        labels[sample, places] = [true for _, true in sentence]
        scores[sample, places, predicted] = 9.0
        ours.append([TAGS[tag] for tag in predicted])
        theirs.append([TAGS[true] for _, true in sentence])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = 100 * f1_score(theirs, ours)
    for outputs in (scores, scores.argmax(axis=2)):
        counts = span_f1(TAGS).fn(outputs, labels)
        assert isinstance(counts, dict)
        right, spans = counts["numerator"].sum(), counts["denominator"].sum()
        assert 100 * right / spans == pytest.approx(expected, abs=1e-9) if spans else expected == 0


def test_labels_of_different_lengths_are_read_one_by_one() -> None:
    """A list of labels for each sample, as long as its output."""
    metric = span_f1(["O", "B-X"])
    labels = np.empty(2, object)
    labels[:] = [[1, 0], [0, -100]]
    counts = metric.fn(np.array([[1, 0], [1, 1]]), labels)
    assert isinstance(counts, dict)
    assert (counts["numerator"].tolist(), counts["denominator"].tolist()) == ([2, 0], [2, 1])


@pytest.mark.parametrize(
    ("outputs", "labels", "words"),
    [
        (np.zeros((1, 3, 4)), np.zeros((1, 3), int), "needs the index of a tag for each token"),
        (np.zeros((1, 3, 2)), np.zeros((1, 2), int), "needs the index of a tag for each token"),
        (np.zeros((1, 3)), np.zeros((1, 3), int), "needs the index of a tag for each token"),
        (np.zeros((1, 3, 2)), np.zeros((1, 3)), "needs the index of a tag for each token"),
        (np.full((1, 3), 2), np.zeros((1, 3), int), "int64(3,) from 2 to 2, int64(3,) from 0 to 0"),
        (np.zeros((1, 3), int), np.full((1, 3), -1), "int64(3,) from 0 to 0, int64(3,) from -1 to -1"),
    ],
)
def test_what_is_no_tag_is_refused(outputs: np.ndarray, labels: np.ndarray, words: str) -> None:
    """Shapes that do not fit, scores of other tags, and indices beyond the names."""
    assert words in said(lambda: span_f1(["O", "B-X"]).fn(outputs, labels))


def test_a_tag_that_is_none_is_refused_at_once() -> None:
    """Where the metric is made, with what a tag may be."""
    with pytest.raises(UsageError, match="'PER'\n  allowed: O, B-TYPE"):
        span_f1(["O", "PER"])
