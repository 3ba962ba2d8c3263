"""What only data and model can tell about a mark is told before anything is measured."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.data import Data, open_data
from pytest_quant.errors import DataError, UsageError
from pytest_quant.measure.accuracy import choose_metric, choose_output
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model, Signature, TensorInfo

SIGNATURE = Signature((TensorInfo("x", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 4)),))
INPUTS = np.eye(6, 3, dtype=np.float32)
SCORES = {"y": np.eye(6, 4, dtype=np.float32)}


def check(
    limits: Limits | None = None, *, metric: object | None = None, output: str | None = None, labels: object = None
) -> tuple[Check, Data]:
    """Return a check and its opened data."""
    dataset = Dataset.from_arrays(INPUTS, labels)
    model = Model("m")
    made = Check(
        nodeid="t.py::t",
        series_nodeid="t.py::t",
        candidate=EngineSpec("numpy", "int8", "static", model),
        reference=EngineSpec("numpy", "fp32", None, model),
        dataset=dataset,
        limits=limits or Limits(),
        metric=metric,
        output=output,
    )
    return made, open_data(dataset, SIGNATURE)


def test_the_first_output_is_the_default() -> None:
    """The mark's output wins, an unknown one names the nearest."""
    outputs = {"scores": INPUTS, "boxes": INPUTS}
    assert choose_output(check()[0], outputs) == "scores"
    assert choose_output(check(output="boxes")[0], outputs) == "boxes"
    with pytest.raises(UsageError, match="did you mean 'boxes'"):
        choose_output(check(output="boxs")[0], outputs)


@pytest.mark.parametrize("limit", ["min_sqnr_db", "min_cosine", "max_abs_error"])
def test_a_limit_on_an_unknown_output_names_the_nearest(limit: str) -> None:
    """Before anything is judged: a limit on nothing would always hold."""
    outputs = {"scores": INPUTS, "boxes": INPUTS}
    assert choose_output(check(Limits(**{limit: (("boxes", 1.0),)}))[0], outputs) == "scores"  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"{limit} limits an output 'boxs'(.|\n)*did you mean 'boxes'"):
        choose_output(check(Limits(**{limit: (("boxs", 1.0),)}))[0], outputs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "limits", [Limits(max_drop=1.0), Limits(min_ratio=0.9), Limits(min_accuracy=1.0), Limits(max_drop_increase=1.0)]
)
def test_a_limit_on_the_score_needs_labels(limits: Limits) -> None:
    """Each of the four limits that need a metric says so, and what works without labels."""
    with pytest.raises(UsageError, match=r"needs labels(.|\n)*min_agreement"):
        choose_metric(*check(limits), SCORES, "y")


def test_without_such_a_limit_no_metric_is_fine() -> None:
    """Agreement and tensor metrics need neither labels nor a metric."""
    assert choose_metric(*check(Limits(min_agreement=99)), SCORES, "y") is None


def test_float_labels_have_no_default_metric() -> None:
    """A drop of what? The message shows how to name one."""
    with pytest.raises(UsageError, match=r"max_drop needs a metric(.|\n)*metric='mae'"):
        choose_metric(*check(Limits(max_drop=1.0), labels=np.ones(6)), {"y": INPUTS[:, :1]}, "y")


@pytest.mark.parametrize(("label", "fits"), [(0, True), (3, True), (4, False), (-1, False)])
def test_labels_must_be_classes_of_the_output(label: int, fits: bool) -> None:
    """An output with four classes takes 0 to 3."""
    made = check(Limits(max_drop=1.0), labels=np.array([0, 1, 2, 3, 0, label]))
    if fits:
        metric = choose_metric(*made, SCORES, "y")
        assert metric is not None
        assert metric.name == "top1"
    else:
        with pytest.raises(DataError, match="0 to 3"):
            choose_metric(*made, SCORES, "y")


@pytest.mark.parametrize(("others", "named"), [({}, "..."), ({"boxes": INPUTS[:, :1], "p": SCORES["y"]}, "p")])
def test_class_indices_are_compared_with_nothing_but_themselves(others: dict[str, np.ndarray], named: str) -> None:
    """A mean distance of class indices says nothing: the output with scores is named, or a metric of equality."""
    made = check(Limits(max_drop=1.0), labels=np.arange(6) % 3)
    with pytest.raises(UsageError, match=r"output 'label' of shape \(6,\)") as caught:
        choose_metric(*made, {"label": np.arange(6) % 3, **others}, "label")
    assert f"output='{named}'" in str(caught.value)
    assert "outputs.ravel() == labels" in str(caught.value)
    assert "mae" not in str(caught.value)


@pytest.mark.parametrize(("others", "named"), [({}, "..."), ({"scores": np.eye(6, 10, dtype=np.float32)}, "scores")])
def test_labels_beyond_the_classes_name_the_output_that_was_read(others: dict[str, np.ndarray], named: str) -> None:
    """The scores of the three best classes have no place for label 9."""
    made = check(Limits(max_drop=1.0), labels=np.array([0, 1, 2, 3, 0, 9]))
    with pytest.raises(DataError, match=r"0 to 2, for output 'values' with 3 classes") as caught:
        choose_metric(*made, {"values": INPUTS, **others}, "values")
    assert f"output='{named}'" in str(caught.value)
