"""What is said about a metric, labels or outputs that cannot be: the whole message, the value and the way out."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torchmetrics.classification

from pytest_quant.errors import QuantError, UsageError
from pytest_quant.metrics import Metric, metric_by_name, resolve_metric
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.channels import with_groups
from pytest_quant.metrics.metric import resolve_wrapped
from pytest_quant.metrics.scores import Scores
from pytest_quant.metrics.tensor import check_reference, find_mismatch, find_unsound
from pytest_quant.result import AccuracyResult, OutputFault
from pytest_quant.spec import ChannelGroup

WRAP = "or wrap a callable that reads them: metric=Metric(fn, better='higher')"
OF_CLASSES = "name another metric, or another output of the model with output='...'"


def said(call: Callable[[], object]) -> str:
    """Return the message of the error that `call` raises."""
    with pytest.raises(QuantError) as raised:
        call()
    return str(raised.value)


class Loud:
    """A callable that is no function."""

    def __call__(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        """Say something short."""
        return "<loud>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"better": "up"}, "Metric: better tells the direction\n  got: 'up'\n  allowed: higher, lower"),
        ({"fn": "f1"}, "Metric: fn must be callable\n  got: 'f1'\n  next: Metric(fn, better='higher')"),
        ({"fn": Loud}, f"Metric: fn is a class\n  got: {Loud!r}\n  next: give an object, Loud()"),
        ({"unit": 3}, "Metric: unit must be text\n  got: 3\n  next: unit='' for a plain number"),
        (
            {"scale": -1},
            "Metric: scale must be a positive number\n  got: -1\n  next: scale=1, unit='' keeps scores",
        ),
    ],
)
def test_a_metric_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """The option, what it was and what it may be."""
    assert said(lambda: Metric(**{"fn": np.equal, **options})) == message


def test_what_a_metric_is_unless_told() -> None:
    """A share in percent, where more is better, by the name of the function or of the class."""
    metric = Metric(functools.partial(np.isclose, atol=1.0))
    assert (metric.better, metric.unit, metric.scale, metric.name) == ("higher", "%", 100.0, "isclose")
    assert Metric(Loud()).name == "Loud"
    assert isinstance(Metric(Loud(), scale=2).scale, float)


@pytest.mark.parametrize(
    ("metric", "labels", "shape", "message"),
    [
        (
            Loud(),
            "int",
            (1, 3),
            "metric must be a name or a Metric\n  got: <loud>\n"
            "  next: wrap a callable, Metric(fn, better='higher', unit='%', scale=100): "
            "its direction cannot be guessed",
        ),
        (
            "f1",
            "none",
            (1, 3),
            "the metric 'f1' needs labels, and the data has none\n"
            "  next: give labels, or limit min_agreement, min_sqnr_db or min_cosine, which need none",
        ),
        (
            "top1",
            "object",
            (1, 3),
            "the metric 'top1' cannot read these labels\n  got: labels of type dict\n"
            f"  allowed: one class index for each sample\n  next: map each label to the index of its class, {WRAP}",
        ),
        (
            "mae",
            "object",
            (1, 3),
            "the metric 'mae' cannot read these labels\n  got: labels of type dict\n"
            f"  allowed: numbers of one shape\n  next: give them as numbers, {WRAP}",
        ),
        (
            "top5",
            "int",
            (1, 5),
            "the metric 'top5' needs class labels and an output (n, classes)\n"
            f"  got: int labels, output of shape (1, 5)\n  allowed: at least 6 classes\n  next: {OF_CLASSES}",
        ),
        (
            "top1",
            "float",
            (2, 3),
            "the metric 'top1' needs class labels and an output (n, classes)\n"
            f"  got: float labels, output of shape (2, 3)\n  allowed: at least 2 classes\n  next: {OF_CLASSES}",
        ),
    ],
)
def test_a_metric_that_does_not_suit(metric: object, labels: str, shape: tuple[int, ...], message: str) -> None:
    """The metric, the labels and the output, and how each could be another."""
    assert said(lambda: resolve_metric(metric, labels, shape, "dict")) == message


@pytest.mark.parametrize(("name", "fewest"), [("top1", 2), ("top5", 6), ("f1", 2)])
def test_the_fewest_classes_do(name: str, fewest: int) -> None:
    """With one more than it may hold, an answer can be wrong."""
    found = resolve_metric(name, "int", (4, fewest))
    assert found is BUILTIN[name]


def test_what_each_metric_tells_the_evaluation() -> None:
    """Which scores are rates, of how many answers, and which metrics read classes, objects, or all samples at once."""
    told = {
        name: (one.rate, one.answers, one.reads_classes, one.reads_objects, one.costly) for name, one in BUILTIN.items()
    }
    assert told == {
        "top1": (100.0, 1, True, False, False),
        "top5": (100.0, 5, True, False, False),
        "f1": (None, None, True, False, False),
        **dict.fromkeys(("mae", "cosine"), (1.0, None, False, False, False)),
        "rmse": (None, None, False, False, False),
    }
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
    own, theirs, tensors = (
        resolve_wrapped(Metric(fn, scale=2.0)) for fn in (np.equal, sklearn.metrics.accuracy_score, accuracy)
    )
    assert (own.rate, own.reads_objects, own.costly) == (2.0, True, False)
    assert (theirs.rate, theirs.reads_objects, theirs.costly) == (None, True, True)
    assert (tensors.rate, tensors.reads_objects, tensors.costly) == (None, False, True)
    assert not any(one.reads_classes or one.answers for one in (own, theirs, tensors))


def test_labels_that_a_built_in_metric_cannot_read() -> None:
    """With the shapes that were found."""
    scores = np.zeros((4, 3), dtype=np.float32)
    assert said(lambda: BUILTIN["top1"].statistics(scores, np.zeros((4, 3), dtype=int))) == (
        "a classification metric needs one class index per sample\n  got: labels of shape (4, 3)\n"
        "  next: give the index of the class, not a vector, or name another metric"
    )
    assert said(lambda: BUILTIN["mae"].statistics(scores, np.zeros(4))) == (
        "output and label of a sample differ in size, and this metric compares them value by value\n"
        "  got: outputs (4, 3), labels (4,)\n"
        "  next: give labels of the output's shape, or name another metric or another output"
    )


@pytest.mark.parametrize(
    ("given_back", "value"),
    [
        (np.zeros((4, 1)), "an array of shape (4, 1) and dtype float64 for 4 samples"),
        (np.array(["a"] * 4), "an array of shape (4,) and dtype <U1 for 4 samples"),
        (0.5, "an array of shape () and dtype float64 for 4 samples"),
    ],
)
def test_a_callable_that_gives_no_score_for_each_sample(given_back: object, value: str) -> None:
    """What it gave, and what to return."""
    metric = resolve_wrapped(Metric(lambda _outputs, _labels: given_back, name="own"))
    assert said(lambda: metric.statistics(np.zeros((4, 2)), np.zeros(4))) == (
        f"metric 'own' must give one score per sample\n  got: {value}\n  allowed: numbers of shape (4,)\n"
        "  next: return one number for each row of outputs, not their mean"
    )


def test_an_object_that_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with what needs none."""
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
    monkeypatch.delitem(sys.modules, "torch")
    assert said(lambda: resolve_wrapped(Metric(accuracy))) == (
        "a metric with update, compute and reset is fed torch tensors, and torch is not imported\n"
        f"  got: {accuracy!r}\n"
        "  next: wrap a callable that gives one score per sample: Metric(fn, better='higher')"
    )


def test_a_score_that_is_not_finite() -> None:
    """The sample is named by its index in the set."""
    scores = Scores(resolve_wrapped(Metric(lambda outputs, _labels: outputs[:, 0], name="own")))
    outputs = np.array([[1.0], [2.0], [np.inf]])
    sound = np.array([True, False, True])
    assert said(lambda: scores.add(outputs, outputs, np.zeros(3), sound, 40)) == (
        "metric 'own' must give a finite score for every sample\n  got: inf for sample 42\n"
        "  next: give the score of such a sample its worst value, or leave the sample out of the data"
    )


def test_a_third_party_that_gives_no_score() -> None:
    """What it said, and what would be a score."""

    def refuses(_labels: object, _outputs: object) -> float:
        raise ValueError("only one class")

    refuses.__module__ = "sklearn.metrics._ranking"
    scores = Scores(resolve_wrapped(Metric(refuses, name="auc")))
    outputs = np.zeros((5, 2))
    scores.add(outputs, outputs, np.zeros(5), np.ones(5, dtype=bool), 0)
    assert said(lambda: scores.added_to(AccuracyResult(n=5), None, 0.95)) == (
        "metric 'auc' gives no score for 5 samples\n  got: ValueError: only one class\n"
        "  allowed: one number for labels and outputs of all samples\n"
        "  next: set its options with functools.partial, or wrap a callable (outputs, labels) -> one score per sample"
    )


F32 = np.ones((3, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("candidate", "kind", "detail"),
    [
        (None, "missing", "the candidate does not give it"),
        (F32[:, :1], "other shape", "(3, 1) in place of (3, 2)"),
        (F32.astype(np.int8), "other dtype", "int8 in place of float32"),
        (F32.astype(str), "other dtype", "<U32 in place of float32"),
    ],
)
def test_another_kind_of_output(candidate: np.ndarray | None, kind: str, detail: str) -> None:
    """What it is in place of what; the first sample of the chunk stands for all."""
    assert find_mismatch("y", F32, candidate, 7) == OutputFault("y", kind, 7, detail)


def test_texts_are_of_one_kind_whatever_holds_them() -> None:
    """Objects and NumPy's texts of any length; two texts of other lengths too."""
    texts = np.array([["a", "b"]])
    assert find_mismatch("y", texts, texts.astype(object), 0) is None
    assert find_mismatch("y", texts, np.array([["abc", "b"]]), 0) is None
    assert find_mismatch("y", F32, F32.copy(), 0) is None


def test_outputs_that_are_not_finite() -> None:
    """The reference's stop everything; the candidate's are a fault that says which side is not."""
    spoiled = F32.copy()
    spoiled[1, 1] = np.nan
    assert said(lambda: check_reference("y", spoiled, 10)) == (
        "the reference gives NaN in output 'y'\n  got: sample 11\n"
        "  next: check the model and the sample in FP32 first; where NaN is meant, export the model without this "
        "output, or with numbers in place of NaN: torch.nan_to_num(x), or Where(IsNaN(x), 0, x) in ONNX"
    )
    sound = np.array([True, False, True])
    expected = OutputFault("y", "not finite", 11, "NaN or Inf where the reference is finite")
    assert find_unsound("y", spoiled, sound, 10) == expected
    expected = OutputFault("y", "not finite", 11, "finite where the reference is infinite")
    assert find_unsound("y", F32, sound, 10) == expected
    assert find_unsound("y", spoiled, np.ones(3, dtype=bool), 10) is None


HEAD = np.zeros((2, 6, 5))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            [("heads", "a", 1, 0, None)],
            "channels names an output 'heads', which the model does not have\n  allowed: did you mean 'head'?",
        ),
        (
            [("head", "taken", 1, 0, None)],
            "channels calls a group 'taken', and 'head.taken' is an output of the model\n"
            "  next: give the group another name",
        ),
        (
            [("head", "a", 3, 0, None)],
            "channels: output 'head' has no axis 3 of channels\n  got: shape (n, 6, 5)\n"
            "  allowed: an axis after that of the samples, which is 0",
        ),
        (
            [("head", "a", -3, 0, None)],
            "channels: output 'head' has no axis -3 of channels\n  got: shape (n, 6, 5)\n"
            "  allowed: an axis after that of the samples, which is 0",
        ),
        (
            [("head", "a", -1, 0, 6)],
            "channels: group 'a' goes beyond output 'head'\n  got: (0, 6) on axis 2 of shape (n, 6, 5)\n"
            "  allowed: 0 to 5",
        ),
        (
            [("head", "a", 1, 0, 2), ("head", "b", 1, 3, None)],
            "channels: output 'head' has channels that are in no group\n  got: 2 to 3 of 6\n"
            "  next: name them too: 'rest': (2, 3)",
        ),
        (
            [("head", "a", 1, 0, 2)],
            "channels: output 'head' has channels that are in no group\n  got: 2 to 6 of 6\n"
            "  next: name them too: 'rest': (2, 6)",
        ),
    ],
)
def test_groups_of_channels_that_do_not_fit(groups: list[tuple[Any, ...]], message: str) -> None:
    """The output with its shape, and the channels that are meant."""
    chosen = [ChannelGroup(*group) for group in groups]
    found = said(lambda: with_groups({"head": HEAD, "head.taken": HEAD}, chosen))
    assert found.startswith(message.partition("?")[0])


def test_a_usage_error_is_what_users_catch() -> None:
    """Every message above is of an error that the package documents."""
    with pytest.raises(UsageError):
        metric_by_name("no such metric")
