"""Outputs that cannot be compared are told, and what a mark demands of data and outputs before anything is measured."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.data import Data, open_data
from pytest_quant.errors import DataError, ModelError, UsageError
from pytest_quant.measure.choices import choose_metric, choose_output
from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import resolve_metric
from pytest_quant.result import AccuracyResult
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model, Signature, TensorInfo
from tests.unit.measure.evaluated import CLASSES, N, outputs, pairs, top1


def faulty(reference: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> AccuracyResult:
    """Evaluate in chunks of 10 samples, the last ones of a candidate without a sample axis being all of it."""
    cut = [
        OutputPair(
            {"y": reference[start : start + 10]},
            {"y": candidate[start : start + 10] if candidate.ndim else candidate},
            labels[start : start + 10],
            start,
            10,
        )
        for start in range(0, N, 10)
    ]
    return evaluate(cut, resolve_metric(None, "int", reference.shape), output=("y",))


@pytest.mark.parametrize(
    ("spoil", "kind", "sample"),
    [
        (lambda c: np.where(np.arange(N)[:, None] == 37, np.nan, c).astype(np.float32), "not finite", 37),
        (lambda c: c[:, :4], "other shape", 0),
        (lambda c: c.astype(np.float64), "other dtype", 0),
        (lambda c: c[0, 0].reshape(()), "other shape", 0),
    ],
)
def test_an_output_that_cannot_be_compared_is_a_fault(spoil: object, kind: str, sample: int) -> None:
    """NaN, another shape and another dtype are named, with the sample, and the rest is compared."""
    assert callable(spoil)
    r, c, labels = outputs(4)
    (fault,) = faulty(r, spoil(c), labels).faults
    assert (fault.output, fault.kind, fault.sample) == ("y", kind, sample)


def test_a_missing_output_is_a_fault() -> None:
    """Every output of the reference is looked for in the candidate."""
    r, c, labels = outputs(5)
    pair = OutputPair({"y": r, "z": r}, {"y": c}, labels, 0, N)
    (fault,) = evaluate([pair], None, output=("y",)).faults
    assert (fault.output, fault.kind) == ("z", "missing")


def test_a_reference_that_gives_nan_is_an_error() -> None:
    """Nothing can be compared with NaN; the message names the sample."""
    r, c, labels = outputs(7)
    r[41, 2] = np.nan
    with pytest.raises(ModelError, match="sample 41"):
        top1(r, c, labels)


@pytest.mark.parametrize("given", [{"y": "float64"}, {}], ids=["other dtype", "missing"])
def test_faulty_outputs_are_never_identical(given: dict[str, str]) -> None:
    """Equal values of another dtype, or all equal but one that is missing, are no proof of equal outputs."""
    r, _, labels = outputs(19)
    candidate = {"z": r, **{name: r.astype(dtype) for name, dtype in given.items()}}
    result = evaluate([OutputPair({"y": r, "z": r}, candidate, labels, 0, N)], None, output=("z",))
    assert result.max_abs_error == 0.0
    assert result.identical is False


def test_a_sample_that_is_not_finite_is_wrong_and_the_rest_is_compared() -> None:
    """It scores as a wrong answer, whatever class argmax makes of a NaN; the others keep their figures."""
    r, _, _ = outputs(10)
    labels = r.argmax(axis=1)
    c = r.copy()
    c[20, labels[20]] = np.nan
    result = top1(r, c, labels)
    assert result.reference == 100.0
    assert result.drop == pytest.approx(100 / N)
    assert result.agreement_pct == pytest.approx(100 * (N - 1) / N)
    assert (result.max_abs_error, result.kl, result.identical) == (0.0, 0.0, False)


@pytest.mark.parametrize("name", ["mae", "f1"])
def test_other_scores_leave_out_a_sample_that_is_not_finite(name: str) -> None:
    """Of both sides, so that they still compare the same samples."""
    r, c, labels = outputs(11)
    targets = labels if name == "f1" else np.zeros_like(r)
    metric = resolve_metric(name, "int" if name == "f1" else "float", r.shape)
    broken, finite = c.copy(), np.arange(N) != 33
    broken[33] = np.inf
    result = evaluate(pairs(r, broken, targets), metric, output=("y",))
    expected = evaluate(pairs(r[finite], c[finite], targets[finite]), metric, output=("y",))
    assert (result.reference, result.candidate) == (expected.reference, expected.candidate)
    assert result.faults[0].sample == 33


def test_an_all_broken_candidate_scores_nothing_right() -> None:
    """No sample left to compare is no crash, and neither a good score nor an equal output."""
    r, c, labels = outputs(12)
    for name in ("top1", "f1"):
        result = evaluate(
            pairs(r, np.full_like(c, np.nan), labels), resolve_metric(name, "int", r.shape), output=("y",)
        )
        assert result.candidate == (0.0 if name == "top1" else None)
        assert (result.agreement_pct, result.max_abs_error, result.identical) == (0.0, None, False)


def best_three(scores: np.ndarray) -> np.ndarray:
    """All but the three largest of each sample's scores are masked."""
    return np.where(scores >= np.sort(scores, axis=1)[:, -3:-2], scores, np.float32(-np.inf))


def test_classes_that_are_masked_by_design_are_right_by_their_largest() -> None:
    """Another set of minus infinity is no fault; NaN is one, and so is a mask where the reference has none."""
    reference, candidate, labels = outputs(0)
    plain = top1(reference, candidate, labels)
    r, c = best_three(reference), best_three(candidate)
    assert np.any(np.isneginf(r) != np.isneginf(c))
    masked = top1(r, c, labels)
    for figure in ("reference", "candidate", "drop", "agreement_pct", "worst_class", "faults"):
        assert getattr(masked, figure) == getattr(plain, figure), figure
    c[7] = np.nan
    assert [(fault.kind, fault.sample) for fault in top1(r, c, labels).faults] == [("not finite", 7)]
    right = reference.argmax(axis=1)
    candidate = reference.copy()
    candidate[np.arange(N), (right + 1) % CLASSES] = -np.inf
    result = top1(reference, candidate, labels)
    assert (result.agreement_pct, result.drop) == (100.0, 0.0)
    assert [(each.kind, each.sample) for each in result.faults] == [("not finite", 0)]


SIGNATURE = Signature((TensorInfo("x", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 4)),))
INPUTS = np.eye(6, 3, dtype=np.float32)
SCORES = {"y": np.eye(6, 4, dtype=np.float32)}


def check(
    limits: Limits | None = None, *, metric: object | None = None, output: tuple[str, ...] = (), labels: object = None
) -> tuple[Check, Data]:
    """Return a check and its opened data."""
    dataset = Dataset.from_arrays(INPUTS, labels)
    model = Model("m")
    numpy_check = Check(
        nodeid="t.py::t",
        series_nodeid="t.py::t",
        candidate=EngineSpec("numpy", "int8", "static", model),
        reference=EngineSpec("numpy", "fp32", None, model),
        dataset=dataset,
        limits=limits or Limits(),
        metric=metric,
        output=output,
    )
    return numpy_check, open_data(dataset, SIGNATURE)


@pytest.mark.parametrize("limit", ["min_sqnr_db", "min_cosine", "max_abs_error"])
def test_an_unknown_output_names_the_nearest(limit: str) -> None:
    """The first is the default and the mark's wins; before anything is judged, for a limit on nothing always holds."""
    outputs = {"scores": INPUTS, "boxes": INPUTS}
    existing, unknown = (Limits(**{limit: ((name, 1.0),)}) for name in ("boxes", "boxs"))  # type: ignore[arg-type]
    assert choose_output(check(existing)[0], outputs) == "scores"
    assert choose_output(check(output=("boxes",))[0], outputs) == "boxes"
    with pytest.raises(UsageError, match="did you mean 'boxes'"):
        choose_output(check(output=("boxs",))[0], outputs)
    with pytest.raises(UsageError, match=f"{limit} limits an output 'boxs'(.|\n)*did you mean 'boxes'"):
        choose_output(check(unknown)[0], outputs)


@pytest.mark.parametrize(
    "limits",
    [
        *(Limits(max_drop=1.0), Limits(min_ratio=0.9), Limits(max_drop_increase=1.0)),
        *(Limits(min_accuracy=1.0), Limits(min_reference_accuracy=1.0)),
    ],
)
def test_a_limit_on_the_score_needs_labels(limits: Limits) -> None:
    """Each limit that needs a metric says so, and what works without labels."""
    with pytest.raises(UsageError, match=r"needs labels(.|\n)*min_agreement"):
        choose_metric(*check(limits), SCORES, "y")
    assert choose_metric(*check(Limits(min_agreement=99)), SCORES, "y") is None


def test_float_labels_have_no_default_metric() -> None:
    """A drop of what? The message shows how to name one."""
    with pytest.raises(UsageError, match=r"max_drop needs a metric(.|\n)*metric='mae'"):
        choose_metric(*check(Limits(max_drop=1.0), labels=np.ones(6)), {"y": INPUTS[:, :1]}, "y")


def test_classes_as_floats_are_given_as_integers() -> None:
    """For an output with a score of each class that is named first, and it is taken; for others it is not named."""
    floats = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    with pytest.raises(UsageError, match="needs a metric here") as raised:
        choose_metric(*check(Limits(max_drop=1.0), labels=floats), SCORES, "y")
    assert str(raised.value.fix).startswith("for classes give their indices as labels, labels.astype('int64')")
    metric = choose_metric(*check(Limits(max_drop=1.0), labels=floats.astype("int64")), SCORES, "y")
    assert metric is not None
    assert metric.name == "top1"
    with pytest.raises(UsageError) as raised:
        choose_metric(*check(Limits(max_drop=1.0), labels=floats), {"y": INPUTS[:, :1]}, "y")
    assert "astype" not in str(raised.value.fix)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_one_hot_labels_are_given_as_indices(kind: type[np.generic]) -> None:
    """As floats or integers, and the advice is followed at once: other numbers than indices would only fail later."""
    classes = np.array([0, 1, 2, 0, 1, 2])
    one_hot = np.eye(3)[classes].astype(kind)
    limits = Limits(max_drop=1.0)

    def score(labels: np.ndarray) -> np.ndarray:
        metric = choose_metric(*check(limits, labels=labels), SCORES, "y")
        assert metric is not None
        return metric.statistics(SCORES["y"], labels)

    with pytest.raises(UsageError) as raised:
        score(one_hot)
    assert "labels.argmax(axis=1) if they are one-hot" in str(raised.value.fix)
    assert "astype" not in str(raised.value.fix)
    assert "3)" in str(raised.value.value)
    np.testing.assert_array_equal(score(one_hot.argmax(axis=1)), SCORES["y"].argmax(axis=1) == classes)


@pytest.mark.parametrize(("width", "named"), [(3, "min_agreement=99"), (1, "min_cosine=0.99")])
def test_without_labels_a_limit_that_the_output_bears_is_named(width: int, named: str) -> None:
    """Numbers have no class to agree on."""
    with pytest.raises(UsageError, match="needs labels") as raised:
        choose_metric(*check(Limits(max_drop=1.0)), {"y": INPUTS[:, :width]}, "y")
    assert str(raised.value.fix).endswith(f"or set {named} in place of it")


@pytest.mark.parametrize(("label", "fits"), [(0, True), (3, True), (4, False), (-1, False)])
def test_labels_must_be_classes_of_the_output(label: int, fits: bool) -> None:
    """An output with four classes takes 0 to 3."""
    check_and_data = check(Limits(max_drop=1.0), labels=np.array([0, 1, 2, 3, 0, label]))
    if fits:
        metric = choose_metric(*check_and_data, SCORES, "y")
        assert metric is not None
        assert metric.name == "top1"
    else:
        with pytest.raises(DataError, match="0 to 3"):
            choose_metric(*check_and_data, SCORES, "y")


@pytest.mark.parametrize(("others", "named"), [({}, "..."), ({"boxes": INPUTS[:, :1], "p": SCORES["y"]}, "p")])
def test_class_indices_are_compared_with_nothing_but_themselves(others: dict[str, np.ndarray], named: str) -> None:
    """A mean distance of class indices says nothing: the output with scores is named, or a metric of equality."""
    check_and_data = check(Limits(max_drop=1.0), labels=np.arange(6) % 3)
    with pytest.raises(UsageError, match=r"output 'label' of shape \(6,\)") as caught:
        choose_metric(*check_and_data, {"label": np.arange(6) % 3, **others}, "label")
    assert f"output='{named}'" in str(caught.value)
    assert "outputs.ravel() == labels" in str(caught.value)
    assert "mae" not in str(caught.value)


@pytest.mark.parametrize(("others", "named"), [({}, "..."), ({"scores": np.eye(6, 10, dtype=np.float32)}, "scores")])
def test_labels_beyond_the_classes_name_the_output_that_was_read(others: dict[str, np.ndarray], named: str) -> None:
    """The scores of the three best classes have no place for label 9."""
    check_and_data = check(Limits(max_drop=1.0), labels=np.array([0, 1, 2, 3, 0, 9]))
    with pytest.raises(DataError, match=r"0 to 2, for output 'values' with 3 classes") as caught:
        choose_metric(*check_and_data, {"values": INPUTS, **others}, "values")
    assert f"output='{named}'" in str(caught.value)
