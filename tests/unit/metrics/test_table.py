"""One table of metrics by name, and what a mark's `metric` means."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import sklearn.metrics

from pytest_quant.errors import UsageError
from pytest_quant.metrics import Metric, metric_by_name, metrics_by_name, resolve_metric
from pytest_quant.metrics import builtin as table

OURS = Metric(lambda outputs, _labels: np.max(outputs, axis=1), better="higher", unit="logit", scale=1)
NOT_A_METRIC = max


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points that a test adds, seen by a table read afresh."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(table, "entry_points", lambda group: [point for point in points if point.group == group])
    for cached in (metrics_by_name, metric_by_name):
        cached.cache_clear()
    yield points
    for cached in (metrics_by_name, metric_by_name):
        cached.cache_clear()


def point(name: str, value: str = "OURS") -> EntryPoint:
    """Register something of this module as a metric."""
    return EntryPoint(name, f"{__name__}:{value}", "pytest_quant.metrics")


def test_a_third_partys_metric_stands_beside_the_built_in_ones(installed: list[EntryPoint]) -> None:
    """It is found by the name of its entry point and keeps its direction and unit."""
    installed.append(point("largest"))
    found = resolve_metric("largest", "int", (1, 3))
    assert found is not None
    assert (found.name, found.better, found.unit) == ("largest", "higher", "logit")
    assert {"largest", "top1", "top5", "mae", "rmse", "f1", "cosine"} == set(metrics_by_name())


@pytest.mark.parametrize(("name", "taken"), [("top1", "built in"), ("largest", f"{__name__}:OURS")])
def test_two_metrics_of_one_name_are_an_error(installed: list[EntryPoint], name: str, taken: str) -> None:
    """Neither a built-in one nor another package's is replaced in silence; both are named."""
    installed += [point("largest"), point(name, "NOT_A_METRIC")]
    with pytest.raises(UsageError) as raised:
        metric_by_name("mae")
    assert str(raised.value) == (
        f"two packages register a metric named '{name}'\n  got: {taken} and {__name__}:NOT_A_METRIC\n"
        "  next: uninstall one of them, or rename its entry point"
    )


def test_a_package_that_is_found_twice_is_one_package(installed: list[EntryPoint]) -> None:
    """The same entry point on two paths is no conflict."""
    installed += [point("largest"), point("largest")]
    assert metric_by_name("largest") == Metric(OURS.fn, "higher", "logit", 1, "largest")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            "NOT_A_METRIC",
            "the metric 'broken' is registered as builtin_function_or_method\n"
            f"  got: {__name__}:NOT_A_METRIC\n  allowed: a pytest_quant.Metric",
        ),
        (
            "GONE",
            f"the metric 'broken' does not load\n  got: {__name__}:GONE: module '{__name__}' has no attribute 'GONE'",
        ),
    ],
)
def test_a_broken_registration_hurts_only_its_own_name(installed: list[EntryPoint], value: str, says: str) -> None:
    """What cannot be used is an error when it is asked for, and no other metric is lost."""
    installed.append(point("broken", value))
    assert metric_by_name("mae").name == "mae"
    with pytest.raises(UsageError) as raised:
        metric_by_name("broken")
    assert str(raised.value) == says


def test_an_unwrapped_callable_is_refused() -> None:
    """Its direction cannot be guessed; the message shows how to wrap it."""
    with pytest.raises(UsageError, match=r"Metric\(fn, better="):
        resolve_metric(sklearn.metrics.accuracy_score, "int", (1, 3))


def test_an_unknown_name_names_the_nearest() -> None:
    """A typo is told what was meant."""
    with pytest.raises(UsageError, match="did you mean 'top1'"):
        resolve_metric("topp1", "int", (1, 3))


def test_the_default_is_top1_for_classes_only() -> None:
    """Integer labels and an output (n, classes) have a default, nothing else does."""
    default = resolve_metric(None, "int", (1, 3))
    assert default is not None
    assert default.name == "top1"
    for labels, shape in (("float", (1, 3)), ("none", (1, 3)), ("int", (1, 3, 3)), ("int", (1, 1)), ("int", (1,))):
        assert resolve_metric(None, labels, shape) is None


def test_a_named_metric_without_labels_is_refused() -> None:
    """What cannot be scored is not scored in silence."""
    with pytest.raises(UsageError, match="needs labels"):
        resolve_metric("top1", "none", (1, 3))


@pytest.mark.parametrize(
    ("name", "labels", "shape"),
    [("top1", "float", (1, 3)), ("f1", "int", (1, 3, 3)), ("top1", "int", (1, 1)), ("top5", "int", (1, 5))],
)
def test_a_metric_that_could_say_nothing_is_refused(name: str, labels: str, shape: tuple[int, ...]) -> None:
    """Of one class top1, and of five top5, are always right, whatever the model says."""
    with pytest.raises(UsageError, match="needs class labels"):
        resolve_metric(name, labels, shape)


def test_the_name_of_a_metric_is_its_functions() -> None:
    """Through functools.partial too, unless it is given one."""
    assert Metric(functools.partial(sklearn.metrics.f1_score, average="macro")).name == "f1_score"
    assert Metric(sklearn.metrics.accuracy_score, name="acc").name == "acc"
