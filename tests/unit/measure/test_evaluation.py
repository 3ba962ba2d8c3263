"""Two engines over one set: figures from formulas and independent libraries, whatever the chunks."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from scipy.stats import binomtest
from sklearn.metrics import f1_score, recall_score

from pytest_quant.errors import UsageError
from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import OutputError, WorstClass
from pytest_quant.spec import ChannelGroup
from pytest_quant.stats.paired import zero_event_share
from tests.unit.measure.evaluated import CLASSES, N, outputs, pairs, top1


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_figures_equal_their_formulas(seed: int) -> None:
    """Scores, drop, agreement, SQNR, cosine, largest error, divergence and p, each computed another way."""
    r, c, labels = outputs(seed)
    result = top1(r, c, labels)
    r_right, c_right = r.argmax(1) == labels, c.argmax(1) == labels
    assert result.reference == pytest.approx(100 * r_right.mean())
    assert result.candidate == pytest.approx(100 * c_right.mean())
    assert result.drop == pytest.approx(100 * (r_right.mean() - c_right.mean()))
    assert result.agreement_pct == pytest.approx(100 * (r.argmax(1) == c.argmax(1)).mean())
    r64, c64 = r.astype(np.float64), c.astype(np.float64)
    sqnr_db = 20 * np.log10(np.linalg.norm(r64) / np.linalg.norm(r64 - c64))
    assert result.sqnr_db == pytest.approx(sqnr_db)
    assert result.cosine == pytest.approx(np.vdot(r64, c64) / np.linalg.norm(r64) / np.linalg.norm(c64))
    error = np.abs(r64 - c64)
    assert result.max_abs_error == pytest.approx(error.max())
    assert result.max_abs_error_sample == np.unravel_index(error.argmax(), error.shape)[0]
    assert result.kl == pytest.approx(rel_entr(softmax(r64, axis=1), softmax(c64, axis=1)).sum(axis=1).mean())
    lost, won = int((r_right & ~c_right).sum()), int((c_right & ~r_right).sum())
    assert result.discordant == lost + won
    expected = binomtest(lost, lost + won).pvalue if lost + won else 1.0
    assert result.p_value == pytest.approx(expected)


@given(seed=st.integers(0, 100), step=st.integers(1, N))
@settings(max_examples=30)
def test_chunks_change_nothing(seed: int, step: int) -> None:
    """Counts are equal and sums agree to rounding, however the samples are cut."""
    r, c, labels = outputs(seed)
    whole, cut = (asdict(top1(r, c, labels, size)) for size in (N, step))
    for result in (whole, cut):
        result |= result.pop("by_output")[0]
    for name, value in whole.items():
        assert cut[name] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


def test_the_worst_class_is_the_one_that_lost_most() -> None:
    """A dead class hides in an average: here class 2 falls from all right to none."""
    labels = np.arange(N) % CLASSES
    r = np.eye(CLASSES, dtype=np.float32)[labels]
    c = r.copy()
    c[labels == 2] = np.eye(CLASSES, dtype=np.float32)[3]
    assert top1(r, c, labels).worst_class == WorstClass(label=2, n=N // CLASSES, reference=100.0, candidate=0.0)


@given(seed=st.integers(0, 100))
@settings(max_examples=10)
def test_the_classes_are_parts_of_the_score(seed: int) -> None:
    """Of each class the recall of both engines; weighed by their samples they are the scores of all."""
    r, c, labels = outputs(seed)
    result = top1(r, c, labels)
    present = np.unique(labels)
    assert [each.label for each in result.by_class] == present.tolist()
    assert [each.n for each in result.by_class] == [int((labels == label).sum()) for label in present]
    for side, name in ((r, "reference"), (c, "candidate")):
        shares = [getattr(each, name) for each in result.by_class]
        recalls = 100.0 * recall_score(labels, side.argmax(1), labels=present, average=None)
        assert shares == pytest.approx(recalls, abs=5e-5)
        weighed = np.average(shares, weights=[each.n for each in result.by_class])
        assert weighed == pytest.approx(getattr(result, name), abs=5e-5)


def test_only_top1_has_classes() -> None:
    """First guesses are no part of another metric's score, nor of outputs that are compared without labels."""
    r, c, labels = outputs(2)
    r, c = np.hstack([r, r - 1]), np.hstack([c, c - 1])
    for metric in (resolve_metric("top5", "int", r.shape), resolve_metric("f1", "int", r.shape), None):
        result = evaluate(pairs(r, c, labels), metric, output=())
        assert (result.by_class, result.agreement_pct is None) == ((), False)


def test_right_answers_are_kept_bit_by_bit() -> None:
    """Unpacked, they are the flags of every sample in order."""
    r, c, labels = outputs(3)
    result = top1(r, c, labels)
    for packed, side in ((result.reference_correct, r), (result.candidate_correct, c)):
        assert packed is not None
        flags = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8))[:N]
        np.testing.assert_array_equal(flags.astype(bool), side.argmax(1) == labels)


def test_the_first_output_is_read_unless_one_is_named() -> None:
    """Its score, and not that of the first."""
    r, c, labels = outputs(18)
    pair = OutputPair({"y": r, "z": c}, {"y": c, "z": c}, labels, 0, N)
    metric = resolve_metric(None, "int", r.shape)
    first, named = evaluate([pair], metric, output=()), evaluate([pair], metric, output=("y",))
    assert (first.agreement_outputs, named.agreement_outputs) == (("y", "z"), ("y",))
    assert replace(first, agreement_outputs=("y",)) == named
    assert evaluate([pair], metric, output=("z",)).drop == 0.0


@pytest.mark.parametrize("n", [1, 2, N])
def test_a_result_is_plain_json(n: int) -> None:
    """No numpy scalar and no infinity comes out, for one sample either."""
    r, c, labels = outputs(8)
    third_party = Metric(functools.partial(f1_score, average="macro"), scale=np.float32(100))  # type: ignore[arg-type]
    own = Metric(lambda o, y: (o.argmax(axis=1) == y).astype(np.float32), scale=np.int64(100), name="own")  # type: ignore[arg-type]
    for metric in (resolve_metric(each, "int", r.shape) for each in ("top1", "f1", third_party, own)):
        result = evaluate(pairs(r[:n], c[:n], labels[:n]), metric, output=("y",), margin=1.0)
        json.dumps(asdict(result), allow_nan=False)
        for name, value in asdict(result).items():
            assert not isinstance(value, np.generic), name  # numpy's float64 is a float, and json takes it


@given(seed=st.integers(0, 100), log_scale=st.integers(-4, 6))
@settings(max_examples=30)
def test_each_output_has_figures_of_its_own(seed: int, log_scale: int) -> None:
    """Whatever the scale of the output beside it; the figures of the whole are the worst ones."""
    r, c, _ = outputs(seed)
    scale = np.float32(10.0**log_scale)
    pair = OutputPair({"y": r, "z": scale * c}, {"y": c, "z": scale * r}, None, 0, N)
    result = evaluate([pair], None, output=())
    alone = {
        "y": evaluate([OutputPair({"y": r}, {"y": c}, None, 0, N)], None, output=("y",)),
        "z": evaluate([OutputPair({"z": scale * c}, {"z": scale * r}, None, 0, N)], None, output=("z",)),
    }
    for each in result.by_output:
        whole = alone[each.name]
        assert (each.sqnr_db, each.cosine, each.max_abs_error, each.sample, each.identical) == (
            whole.sqnr_db, whole.cosine, whole.max_abs_error, whole.max_abs_error_sample, whole.identical
        )  # fmt: skip
    assert result.sqnr_db == min(each.sqnr_db for each in result.by_output if each.sqnr_db is not None)
    assert result.cosine == min(each.cosine for each in result.by_output if each.cosine is not None)
    assert result.max_abs_error == max(
        each.max_abs_error for each in result.by_output if each.max_abs_error is not None
    )
    worst = next(each for each in result.by_output if each.name == result.worst_output)
    assert worst.sqnr_db == result.sqnr_db
    for name, whole in alone.items():
        # A mark that names an output says that the others do not matter.
        named = evaluate([pair], None, output=(name,))
        assert named.by_output == result.by_output
        assert replace(named, by_output=whole.by_output) == whole


def test_a_named_output_that_is_identical_has_no_figures_of_another() -> None:
    """It is said to be identical, unless another one is broken: that fails the check whatever the mark names."""
    r, c, _ = outputs(5)
    result = evaluate([OutputPair({"y": r, "z": r}, {"y": r, "z": c}, None, 0, N)], None, output=("y",))
    assert (result.identical, result.sqnr_db, result.max_abs_error, result.worst_output) == (True, None, 0.0, None)
    broken = evaluate([OutputPair({"y": r, "z": r}, {"y": r}, None, 0, N)], None, output=("y",))
    assert (broken.identical, len(broken.faults)) == (False, 1)


def test_an_output_without_a_figure_hides_behind_no_other() -> None:
    """Zeros have no cosine with anything: then there is none of the whole, and never that of the output beside it."""
    r, c, _ = outputs(1)
    result = evaluate([OutputPair({"y": r, "z": r}, {"y": c, "z": 0 * r}, None, 0, N)], None, output=())
    assert (result.worst_output, result.cosine) == ("z", None)
    assert result.sqnr_db == pytest.approx(0.0, abs=1e-9)
    result = evaluate([OutputPair({"y": r, "z": 0 * r}, {"y": c, "z": r}, None, 0, N)], None, output=())
    assert (result.worst_output, result.sqnr_db, result.cosine) == ("z", None, None)


@pytest.mark.parametrize("beside", [np.array(["a"] * N, dtype=object), np.zeros((N, 2))])
def test_text_and_identical_outputs_leave_the_figures_of_the_others(beside: np.ndarray) -> None:
    """They are not the worst, whatever figure they lack."""
    r, c, _ = outputs(2)
    alone = evaluate([OutputPair({"y": r}, {"y": c}, None, 0, N)], None, output=("y",))
    result = evaluate([OutputPair({"y": r, "z": beside}, {"y": c, "z": beside}, None, 0, N)], None, output=())
    assert (result.worst_output, result.sqnr_db, result.cosine) == ("y", alone.sqnr_db, alone.cosine)


def test_a_group_of_channels_is_as_good_as_an_output() -> None:
    """Figures, agreement and score are those of an output that holds these channels only."""
    r, c, labels = outputs(4)
    boxes = 500 * outputs(5)[0]
    joined = [OutputPair({"y": np.hstack([boxes, r])}, {"y": np.hstack([boxes, c])}, labels, 0, N)]
    channels = [ChannelGroup("y", "boxes", 1, 0, CLASSES), ChannelGroup("y", "scores", -1, CLASSES, None)]
    metric = resolve_metric(None, "int", r.shape)
    result = evaluate(joined, metric, output=("y.scores",), channels=channels, margin=1.0)
    alone = top1(r, c, labels)
    boxes_alone = OutputError("y.boxes", None, 1.0, 0.0, 0, identical=True, group_of="y")
    assert result.by_output == (boxes_alone, replace(alone.by_output[0], name="y.scores", group_of="y"))
    names: dict[str, Any] = {"by_output": (), "worst_output": None, "agreement_outputs": ("y.scores",)}
    assert replace(result, **names) == replace(alone, **names)


def test_a_dead_group_of_channels_is_a_fault() -> None:
    """Living boxes beside it in the same output do not hide it."""
    r, _, _ = outputs(6)
    dead = r.copy()
    dead[:, 2:] = 0
    channels = [ChannelGroup("y", "boxes", 1, 0, 2), ChannelGroup("y", "scores", 1, 2, None)]
    assert evaluate([OutputPair({"y": r}, {"y": dead}, None, 0, N)], None, output=("y",)).faults == ()
    (fault,) = evaluate([OutputPair({"y": r}, {"y": dead}, None, 0, N)], None, output=("y",), channels=channels).faults
    assert (fault.output, fault.kind) == ("y.scores", "constant")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(None, True), (np.zeros(6, int), True), (np.zeros((6, 1), int), True), (np.zeros((6, 5), int), False)],
)
def test_agreement_is_of_classes_only(labels: np.ndarray | None, classes: bool) -> None:
    """A label for each value says that the values of a sample are no scores of classes."""
    values = np.random.default_rng(0).random((6, 5)).astype(np.float32)
    result = evaluate([OutputPair({"y": values}, {"y": values}, labels, 0, 6)], None, output=())
    assert result.agreement_pct == (100.0 if classes else None)


def test_a_metric_that_gives_nan_names_the_sample() -> None:
    """The index is that in the whole set, also when samples before it are left out."""
    r, c, labels = outputs(13)
    c[21] = np.nan
    own = Metric(lambda o, _: np.where(np.abs(o[:, 0] - r[35, 0]) < 1e-6, np.nan, 1.0), name="own")
    with pytest.raises(UsageError, match=r"'own'[\s\S]*sample 35"):
        evaluate(pairs(r, c, labels, step=20), resolve_metric(own, "int", r.shape), output=("y",))


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_callable_of_0_and_1_is_tested_exactly(better: str) -> None:
    """It has top1's interval and p; counted as errors, a rise is the same drop."""
    r, c, labels = outputs(14)
    own = Metric(lambda o, y: (o.argmax(axis=1) == y) == (better == "higher"), better=better, name="own")  # type: ignore[arg-type]
    result = evaluate(pairs(r, c, labels), resolve_metric(own, "int", r.shape), output=("y",), margin=1.0)
    expected = top1(r, c, labels)
    for name in ("drop", "p_value", "discordant", "n_to_resolve", "reference_correct", "candidate_correct"):
        assert getattr(result, name) == getattr(expected, name), name
    assert result.drop_ci == expected.drop_ci


@given(seed=st.integers(0, 1000), metric=st.sampled_from(["top1", "f1", "mae", "rmse", "cosine"]))
@settings(max_examples=10)
def test_exchanging_the_engines_exchanges_the_sign(seed: int, metric: str) -> None:
    """A drop is positive exactly when the candidate's score is worse, and its interval encloses no other sign's."""
    r, c, labels = outputs(seed)
    of_classes = metric in ("top1", "f1")
    targets = labels if of_classes else np.eye(CLASSES)[labels]
    resolved = resolve_metric(metric, "int" if of_classes else "float", r.shape)
    first, second = (evaluate(pairs(*sides, targets), resolved, output=("y",)) for sides in ((r, c), (c, r)))
    assert first.drop == -(second.drop or 0.0)
    worse = first.candidate < first.reference if first.better == "higher" else first.candidate > first.reference  # type: ignore[operator]
    assert worse == ((first.drop or 0.0) > 0)
    assert first.drop_ci is not None
    assert second.drop_ci is not None
    expected = (-second.drop_ci.high, -second.drop_ci.low)
    assert (first.drop_ci.low, first.drop_ci.high) == pytest.approx(expected, abs=1e-9)


def test_a_limit_on_an_error_tells_how_many_samples_resolve_it() -> None:
    """At that n half the interval, the normal one and what no sample has shown, reaches the limit."""
    random = np.random.default_rng(15)
    labels, r = np.zeros((400, 1)), np.full((400, 1), 1.0)
    c = r + 0.1 + 0.5 * random.random((400, 1))
    metric = resolve_metric("mae", "float", r.shape)
    result = evaluate(pairs(r, c, labels, step=400), metric, output=("y",), margin=0.3)
    assert result.drop is not None
    n = result.n_to_resolve
    assert n is not None
    error = np.std(c - r) / n**0.5
    reach = (1.96 + 0.8416) * error + c.max() * zero_event_share(n)
    assert reach == pytest.approx(result.drop - 0.3, rel=0.02)


def test_scores_of_tokens_are_compared_token_by_token() -> None:
    """Only those with a label: same top token and KL; the perplexity's ratio has no verdict here, its scores have."""
    random = np.random.default_rng(0)
    r = random.normal(size=(N, 4, CLASSES)).astype(np.float32)
    c = (r + random.normal(size=r.shape)).astype(np.float32)
    labels = random.integers(0, CLASSES, (N, 4))
    labels[random.random(labels.shape) < 0.5] = -100
    labels[7] = -100
    counted = labels != -100
    metric = resolve_metric("perplexity", "int", r.shape)
    results = [evaluate(pairs(r, c, labels, step), metric, output=("y",)) for step in (N, 7)]
    for result in results:
        same = (r.argmax(2) == c.argmax(2))[counted]
        assert result.agreement_pct == pytest.approx(100 * same.mean())
        r64, c64 = (side.astype(np.float64)[counted] for side in (r, c))
        assert result.kl == pytest.approx(rel_entr(softmax(r64, axis=1), softmax(c64, axis=1)).sum(axis=1).mean())
        assert (result.metric, result.better, result.unit) == ("perplexity", "lower", "")
        assert result.drop == pytest.approx((result.candidate or 0) - (result.reference or 0))
        assert result.drop_ci is not None
        assert (result.worst_class, result.by_class, result.chance) == (None, (), None)
    unlabelled = evaluate(pairs(r, c, None), None, output=("y",))
    assert (unlabelled.agreement_pct, unlabelled.kl) == (None, None)


def test_a_token_that_is_not_finite_does_not_agree() -> None:
    """The others of its sample do, and KL leaves it out."""
    r = np.tile(np.eye(3, dtype=np.float32), (2, 1, 1))
    c = r.copy()
    c[1, 0] = np.nan  # whose largest place is the first, as the reference's
    result = evaluate(pairs(r, c, np.zeros((2, 3), int)), None, output=("y",))
    assert result.agreement_pct == pytest.approx(100 * 5 / 6)
    assert result.kl == 0.0
    assert [fault.kind for fault in result.faults] == ["not finite"]


def test_texts_are_compared_word_by_word() -> None:
    """With labels or without; numbers are not."""
    r, c = (np.array(side, object) for side in (["a b", "c", "d e"], ["a b", "x", "d"]))
    for labels in (None, np.array(["a b", "c", "d e"], object)):
        result = evaluate(pairs(r, c, labels, 2), None, output=("y",))
        assert result.agreement_pct == pytest.approx(100 * (1 + 0 + 0.5) / 3)
    assert evaluate(pairs(np.arange(3), np.arange(3), None), None, output=("y",)).agreement_pct is None
