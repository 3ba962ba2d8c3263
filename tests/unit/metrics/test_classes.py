"""Agreement, divergence and worst class against SciPy, what luck gives against a draw of it; groups of channels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

from pytest_quant.metrics.channels import add_groups, split
from pytest_quant.metrics.classes import MOST_CLASSES, ClassError
from pytest_quant.result import ClassScore, WorstClass
from pytest_quant.spec import ChannelGroup
from tests.unit.metrics.scoring import said, scores


def compared(
    reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray | None = None, sound: np.ndarray | None = None
) -> ClassError:
    """Compare one chunk of sound outputs."""
    result = ClassError(reference.shape[1])
    result.add(reference, candidate, labels, np.ones(len(reference), dtype=bool) if sound is None else sound)
    return result


@given(seed=st.integers(0, 1000))
def test_divergence_of_scores_is_that_of_their_softmax(seed: int) -> None:
    """SciPy's relative entropy, in nats, though the exponential of a score of 800 overflows."""
    r, c = scores(seed)
    expected = rel_entr(softmax(r.astype(float), axis=1), softmax(c.astype(float), axis=1)).sum(axis=1).mean()
    assert compared(r, c).kl == pytest.approx(expected)


@given(seed=st.integers(0, 1000))
def test_probabilities_are_taken_as_they_are(seed: int) -> None:
    """A second softmax would flatten them."""
    r, c = (softmax(side.astype(float), axis=1) for side in scores(seed))
    assert compared(r, c).kl == pytest.approx(rel_entr(r, c).sum(axis=1).mean(), abs=1e-10)


def test_a_class_that_is_ruled_out_diverges_finitely() -> None:
    """Probability 1 against 0 counts as 1 against 1e-12."""
    r, c = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert compared(r, c).kl == pytest.approx(np.log(1e12), rel=1e-6)


def test_masked_classes_add_nothing_to_the_divergence() -> None:
    """The same minus infinity on both sides is a probability of 0 on both."""
    r, c = scores(1)
    masked = [np.column_stack([side, np.full(len(side), -np.inf, dtype=np.float32)]) for side in (r, c)]
    assert compared(*masked).kl == pytest.approx(compared(r, c).kl)


def test_samples_that_are_not_sound_agree_with_nothing() -> None:
    """Argmax takes a NaN for the largest score, which by chance is the right class."""
    r = 2.0 * np.eye(3)[[0, 1, 2, 0]]
    c = 0.1 * r
    sound = np.array([False, True, True, True])
    rest = compared(r[sound], c[sound])
    c[0, 0] = np.nan
    result = compared(r, c, np.array([0, 1, 2, 0]), sound)
    assert (result.agreement_pct, rest.agreement_pct) == (75.0, 100.0)
    assert result.worst_class == WorstClass(label=0, n=2, reference=100.0, candidate=50.0)
    assert rest.kl is not None
    assert rest.kl > 0.1
    assert result.kl == pytest.approx(rest.kl)


@given(st.integers(0, 2**32 - 1), st.integers(1, 39))
def test_answers_that_changed_are_listed_by_the_margin_of_the_reference(seed: int, cut: int) -> None:
    """Over several chunks, at most 20, without what cannot be compared or was ruled out."""
    r, c = scores(seed)
    c[:, 0] += 1.0
    r[3, 2], sound = -np.inf, np.arange(len(r)) % 7 > 0
    found = ClassError(r.shape[1])
    for part in (slice(None, cut), slice(cut, None)):
        found.add(r[part], c[part], None, sound[part])
    wanted = [
        (float(np.float64(ours[ours.argmax()]) - ours[theirs.argmax()]), sample, ours.argmax(), theirs.argmax())
        for sample, (ours, theirs) in enumerate(zip(r, c, strict=True))
        if sound[sample] and ours.argmax() != theirs.argmax()
    ]
    expected = [(sample, own, other, margin) for margin, sample, own, other in sorted(wanted) if np.isfinite(margin)]
    assert [tuple(each) for each in found.changed] == expected[:20]


def test_of_classes_that_lost_as_much_the_first_is_worst() -> None:
    """Classes 1 and 3 lose half of their answers each."""
    labels = np.repeat(np.arange(4), 2)
    r = np.eye(4)[labels]
    c = r.copy()
    c[[2, 6]] = np.eye(4)[0]
    assert compared(r, c, labels).worst_class == WorstClass(label=1, n=2, reference=100.0, candidate=50.0)


def test_no_class_is_worst_when_none_fell() -> None:
    """An improvement is no loss."""
    labels = np.array([0, 1])
    assert compared(np.eye(2)[[1, 1]], np.eye(2)[[0, 1]], labels).worst_class is None


@pytest.mark.parametrize("labels", [[0, -1, 1], [0, 3, 1]])
def test_labels_beyond_the_classes_leave_no_worst_class(labels: list[int]) -> None:
    """A user's own metric may read integers that are no class indices."""
    outputs = np.eye(3)
    result = compared(outputs, outputs[::-1], np.array(labels))
    assert (result.worst_class, result.by_class) == (None, ())
    assert result.agreement_pct == pytest.approx(100 / 3)


def test_a_class_without_samples_is_not_listed() -> None:
    """There is nothing to take a share of; without labels there is none at all. A third has four decimals."""
    labels = np.array([0, 2, 2, 2])
    r = np.eye(4)[labels]
    c = np.eye(4)[[0, 2, 0, 1]]
    assert compared(r, c, labels).by_class == (ClassScore(0, 1, 100.0, 100.0), ClassScore(2, 3, 100.0, 33.3333))
    assert compared(r, c).by_class == ()


def test_of_very_many_classes_none_is_listed() -> None:
    """A part of them would be taken for all; the worst one is told however many there are."""
    for classes, listed in ((MOST_CLASSES, MOST_CLASSES), (MOST_CLASSES + 1, 0)):
        outputs = np.eye(classes, dtype=np.float32)
        result = compared(outputs, outputs[::-1], np.arange(classes))
        assert len(result.by_class) == listed
        assert result.worst_class is not None


@pytest.mark.parametrize(
    ("labels", "answered", "guesses", "chance"),
    [
        ([0] * 50, [0] * 49 + [1], 1, 100.0),
        ([0] * 60 + [1] * 40, [0] * 100, 1, 61.0),
        ([0, 1] * 50, [0, 1] * 50, 1, 100 * (0.5 + 3 * 0.5 / np.sqrt(99))),
        ([0, 1, 2, 3] * 25, [0] * 100, 2, 100 * (0.5 + 3 * 0.05)),
    ],
)
def test_chance_is_what_no_look_at_the_samples_scores(
    labels: list[int], answered: list[int], guesses: int, chance: float
) -> None:
    """One class is right always; the commonest label and one sample; luck in another order; luck of two guesses."""
    answers = np.eye(4)[answered]
    result = compared(answers, answers, np.array(labels))
    assert result.chance(guesses) == pytest.approx(chance)
    assert result.commonest_pct == 100.0 * max(np.bincount(answered)) / len(answered)
    assert compared(answers, answers).chance(guesses) is None


BOXES = ChannelGroup("head", "boxes", 1, 0, 4)
SCORES = ChannelGroup("head", "scores", 1, 4, None)
HEAD = np.arange(2 * 6 * 5).reshape(2, 6, 5)


@given(cuts=st.lists(st.integers(1, 9), unique=True), axis=st.sampled_from([1, 2, -1, -2]), seed=st.integers(0, 99))
def test_groups_side_by_side_are_the_output(cuts: list[int], axis: int, seed: int) -> None:
    """Joined along their axis they give it back; none is a copy."""
    output = np.random.default_rng(seed).normal(size=(3, 10, 10))
    edges = [0, *sorted(cuts), None]
    groups = [ChannelGroup("y", f"g{i}", axis, first or 0, end) for i, (first, end) in enumerate(pairwise(edges))]
    parts = [part for _, part in split(output, groups)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=axis), output)
    assert all(np.shares_memory(part, output) for part in parts)


def test_groups_stand_beside_the_outputs_by_their_names() -> None:
    """The whole output stays, for a metric that reads all of it."""
    result = add_groups({"head": HEAD, "other": HEAD}, [BOXES, SCORES])
    assert {name: array.shape for name, array in result.items()} == {
        "head": (2, 6, 5),
        "other": (2, 6, 5),
        "head.boxes": (2, 4, 5),
        "head.scores": (2, 2, 5),
    }


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([("heads", "a", 1, 0, None)], "output 'heads', which the model does not have\n  allowed: did you mean 'head'"),
        ([("head", "taken", 1, 0, None)], "calls a group 'taken', and 'head.taken' is an output of the model"),
        ([("head", "a", 3, 0, None)], "output 'head' has no axis 3 of channels\n  got: shape (n, 6, 5)"),
        ([("flat", "a", 1, 0, None)], "output 'flat' has no axis 1 of channels\n  got: shape (n)"),
        (
            [("head", "a", -1, 0, 6)],
            "beyond output 'head'\n  got: (0, 6) on axis 2 of shape (n, 6, 5)\n  allowed: 0 to 5",
        ),
        ([("head", "a", 1, 0, 4), ("head", "b", 1, 6, None)], "group 'b' goes beyond output 'head'\n  got: (6, None)"),
        ([("head", "a", 1, 4, None)], "in no group\n  got: 0 to 4 of 6\n  next: name them too: 'rest': (0, 4)"),
        ([("head", "a", 1, 0, 2), ("head", "b", 1, 3, None)], "that are in no group\n  got: 2 to 3 of 6"),
        ([("head", "a", 1, 0, 2)], "that are in no group\n  got: 2 to 6 of 6"),
    ],
)
def test_groups_of_channels_that_do_not_fit(groups: list[tuple[Any, ...]], words: str) -> None:
    """The output with its shape, and the channels that are meant."""
    chosen = [ChannelGroup(*group) for group in groups]
    assert words in said(lambda: add_groups({"head": HEAD, "head.taken": HEAD, "flat": np.zeros(3)}, chosen))


@given(
    shares=st.lists(st.integers(10, 40), min_size=2, max_size=6),
    skew=st.integers(0, 5),
    seed=st.integers(0, 1000),
    side=st.sampled_from([0, 1]),
)
@settings(max_examples=40, deadline=None)
def test_simulated_answers_without_a_look_are_hardly_ever_better_than_chance(
    shares: list[int], skew: int, seed: int, side: int
) -> None:
    """Always one class never is; a side's own answers in 300 random orders are in 2 % at most."""
    classes = len(shares)
    labels = np.repeat(np.arange(classes), shares)
    random = np.random.default_rng(seed)
    own = np.minimum(random.integers(0, classes + skew, len(labels)), classes - 1)
    both = [labels, labels]
    both[side] = own
    result = compared(np.eye(classes)[both[0]], np.eye(classes)[both[1]], labels)
    chance = result.chance(1, side)
    assert chance is not None
    assert chance > 100 * max(shares) / len(labels) or chance == 100.0
    scores = [100 * np.mean(random.permutation(own) == labels) for _ in range(300)]
    assert np.mean(np.array(scores) > chance) <= 0.02


def test_skill_is_lost_where_only_the_candidates_answers_are_luck() -> None:
    """Neither an engine that is worse, nor a pair that knows nothing, has lost it."""
    labels = np.arange(200) % 4
    right, worse, blind = (np.eye(4)[np.where(np.arange(200) < n, labels, 0)] for n in (195, 120, 0))
    for reference, candidate, lost in ((right, blind, True), (right, worse, False), (blind, blind, False)):
        assert compared(reference, candidate, labels).skill_lost is lost
    assert not compared(right, blind).skill_lost
