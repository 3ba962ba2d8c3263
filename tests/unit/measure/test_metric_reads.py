"""A metric only reads: what a user's function writes into its arguments or its result changes no figure and no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import AccuracyResult
from pytest_quant.spec import ChannelGroup
from tests.unit.measure.evaluated import N, outputs, pairs

Fn = Callable[[Any, Any], Any]


def largest_first(outputs: Any, labels: Any) -> Any:
    """Sort the scores in place: the largest is the first then."""
    right = outputs.argmax(axis=1) == labels
    outputs[:] = -np.sort(-outputs, axis=1)
    return right


def whole_scores(outputs: Any, labels: Any) -> Any:
    """Round the outputs in place, which takes small errors out of both sides."""
    np.rint(outputs, out=outputs)
    return outputs.argmax(axis=1) == labels


def sorted_labels(outputs: Any, labels: Any) -> Any:
    """Count right answers, and leave the labels in another order."""
    right = outputs.argmax(axis=1) == labels
    labels.sort()
    return right


BUFFER = np.zeros(N, dtype=bool)


def one_buffer(outputs: Any, labels: Any) -> Any:
    """Give a view of one array, which the next call writes into."""
    view = BUFFER[: len(outputs)]
    np.equal(outputs.argmax(axis=1), labels, out=view)
    return view


def kept_scores() -> Fn:
    """Return a function that clears the outputs of its earlier calls."""
    earlier: list[Any] = []

    def right(outputs: Any, labels: Any) -> Any:
        for array in earlier:
            array[:] = 0.0
        earlier.append(outputs)
        return outputs.argmax(axis=1) == labels

    return right


WRITERS: dict[str, Callable[[], Fn]] = {
    "sorts scores": lambda: largest_first,
    "rounds scores": lambda: whole_scores,
    "sorts labels": lambda: sorted_labels,
    "gives one buffer": lambda: one_buffer,
    "clears earlier outputs": kept_scores,
}


def scored(fn: Fn | None, seed: int, step: int) -> AccuracyResult:
    """Evaluate in chunks of `step` samples by a function, or without a metric."""
    r, c, labels = outputs(seed)
    metric = None if fn is None else resolve_metric(Metric(fn, name="own"), "int", r.shape)
    return evaluate(pairs(r, c, labels, step), metric, output=())


def apart(result: AccuracyResult) -> AccuracyResult:
    """Return the figures that need no metric."""
    return AccuracyResult(
        n=result.n, by_output=result.by_output, agreement_pct=result.agreement_pct, kl=result.kl,
        sqnr_db=result.sqnr_db, cosine=result.cosine, max_abs_error=result.max_abs_error,
        agreement_chance=result.agreement_chance,
    )  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
@given(seed=st.integers(0, 1000), step=st.integers(1, N))
@settings(max_examples=10, deadline=None)
def test_a_metric_that_writes_changes_no_figure(writer: str, seed: int, step: int) -> None:
    """SQNR, cosine, error and agreement are those without a metric, the score is that of a function which copies."""
    fn = WRITERS[writer]()
    result, without = scored(fn, seed, step), scored(None, seed, step)
    assert apart(result) == apart(without)
    r, c, labels = outputs(seed)
    rounds = np.rint if writer == "rounds scores" else np.asarray
    shares = [100 * np.mean(rounds(side).argmax(axis=1) == labels) for side in (r, c)]
    assert [result.reference, result.candidate] == pytest.approx(shares)


@pytest.mark.parametrize("writer", ["sorts scores", "sorts labels"])
def test_the_users_data_and_what_an_engine_keeps_stay_as_they_are(writer: str) -> None:
    """Labels are views of the dataset's, and an engine may give the same array for the same input once more."""
    r, c, labels = outputs(5)
    before = [side.copy() for side in (r, c, labels)]
    metric = resolve_metric(Metric(WRITERS[writer](), name="own"), "int", r.shape)
    first, again = (evaluate(pairs(r, c, labels, 7), metric, output=()) for _ in range(2))
    assert first == again
    for side, was in zip((r, c, labels), before, strict=True):
        np.testing.assert_array_equal(side, was)


def test_labels_that_are_objects_stay_as_they_are() -> None:
    """The reference is scored first: a candidate that equals it loses nothing where annotations are used up."""
    r, _, labels = outputs(6)
    annotations = np.empty(N, dtype=object)
    annotations[:] = [{"accepted": [int(label)]} for label in labels]

    def used_up(outputs: Any, annotations: Any) -> Any:
        both = zip(outputs, annotations, strict=True)
        return [bool(one["accepted"]) and row.argmax() == one["accepted"].pop() for row, one in both]

    metric = resolve_metric(Metric(used_up), "object", r.shape)
    result = evaluate(pairs(r, r, annotations, 11), metric, output=())
    assert result.reference == pytest.approx(100 * np.mean(r.argmax(axis=1) == labels))
    assert result.drop == 0.0
    assert [one["accepted"] for one in annotations] == [[label] for label in labels]


def test_groups_of_channels_are_views_of_one_output() -> None:
    """A metric that clears its group leaves the groups beside it and the whole as they were."""
    r, c, labels = outputs(7)
    groups = (ChannelGroup("y", "few", 1, 0, 3), ChannelGroup("y", "all", 1, 0, None))

    def cleared(outputs: Any, labels: Any) -> Any:
        right = outputs.argmax(axis=1) == labels
        outputs[:] = 0.0
        return right

    metric = resolve_metric(Metric(cleared), "int", (N, 3))
    results = [
        evaluate([OutputPair({"y": r.copy()}, {"y": c.copy()}, labels, 0, N)], each, output=("y.few",), channels=groups)
        for each in (metric, None)
    ]
    assert apart(results[0]) == apart(results[1])
