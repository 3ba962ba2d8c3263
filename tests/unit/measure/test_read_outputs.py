"""Metrics of several outputs: what their function gets, of which samples, and what the mark may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from pytest_quant.errors import UsageError
from pytest_quant.marks.keys import read
from pytest_quant.measure.choices import choose_metric, choose_output
from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import Metric, resolve_metric
from pytest_quant.result import AccuracyResult
from pytest_quant.spec import ChannelGroup, Limits
from tests.unit.measure.test_accuracy_faults import INPUTS, check

N, STEP = 60, 7
Side = Mapping[str, np.ndarray]


def heads(seed: int) -> dict[str, np.ndarray]:
    """Outputs of three kinds: boxes (60, 2, 4), scores (60, 3) and a number (60,)."""
    random = np.random.default_rng(seed)
    sizes = {"boxes": (N, 2, 4), "scores": (N, 3), "depth": (N,)}
    return {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def chunks(reference: Side, candidate: Side) -> Iterator[OutputPair]:
    """Cut both sides into chunks of seven samples, labelled by their place."""
    for start in range(0, N, STEP):
        rows = slice(start, start + STEP)
        ours, theirs = ({name: array[rows] for name, array in side.items()} for side in (reference, candidate))
        yield OutputPair(ours, theirs, np.arange(N)[rows], start, len(reference["depth"][rows]))


def scored(fn: Any, *output: str, outputs: Any = "named", seed: int = 2, **more: Any) -> AccuracyResult:
    """Score by a function, which may be of several outputs."""
    metric = resolve_metric(Metric(fn, unit="", outputs=outputs, name="own"), "int", (N, 3))
    return evaluate(chunks(heads(1), heads(seed)), metric, output=output, **more)


def largest(outputs: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
    """The largest value of each sample in any output."""
    flat = np.concatenate([array.reshape(len(labels), -1) for array in outputs.values()], axis=1)
    return np.asarray(flat.max(axis=1))


@pytest.mark.parametrize("names", [("scores", "boxes"), ("boxes", "depth", "scores")])
def test_a_function_gets_the_outputs_that_the_mark_names(names: tuple[str, ...]) -> None:
    """By name, in the order of the mark; the score is the same as of a single array of them."""
    seen: set[tuple[str, ...]] = set()

    def own(outputs: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        seen.add(tuple(outputs))
        return largest(outputs, labels)

    result = scored(own, *names)
    assert seen == {names}
    for score, side in ((result.reference, heads(1)), (result.candidate, heads(2))):
        assert score == pytest.approx(np.mean(largest({name: side[name] for name in names}, np.arange(N))))


def test_a_function_of_all_gets_a_dict_of_all_or_of_those_that_are_named() -> None:
    """Of one, too; without ``outputs="all"`` that is an array."""
    for names, expected in (((), ("boxes", "scores", "depth")), (("depth",), ("depth",))):
        result = scored(lambda given, labels: np.full(len(labels), len(given)), *names, outputs="all")
        assert result.reference == len(expected)
    assert scored(lambda given, _: given, "depth").reference == pytest.approx(heads(1)["depth"].mean())
    assert scored(lambda given, _: given[:, 0, 0]).reference == pytest.approx(heads(1)["boxes"][:, 0, 0].mean())


def test_a_sample_counts_if_it_is_finite_in_each_output_that_is_read() -> None:
    """A NaN in the boxes of sample 3 and in the scores of sample 50 leave both out, one in the depth does not."""
    broken = heads(2)
    broken["boxes"][3], broken["scores"][50, 1], broken["depth"][20] = np.nan, np.nan, np.nan
    metric = resolve_metric(Metric(largest, unit="", name="own"), "int", (N, 3))
    result = evaluate(chunks(heads(1), broken), metric, output=("boxes", "scores"))
    sound = np.delete(np.arange(N), [3, 50])
    kept = {name: array[sound] for name, array in heads(1).items() if name != "depth"}
    assert result.reference == pytest.approx(np.mean(largest(kept, sound)))
    assert {(fault.output, fault.sample) for fault in result.faults} == {("boxes", 3), ("scores", 50), ("depth", 20)}


def test_figures_of_tensors_are_of_the_named_outputs() -> None:
    """The worst of both, and neither that of the third; agreement is that of the first."""
    result = scored(largest, "scores", "boxes")
    by_name = {error.name: error for error in result.by_output}
    assert result.sqnr_db == min(by_name["scores"].sqnr_db or 0.0, by_name["boxes"].sqnr_db or 0.0)
    assert result.agreement_outputs == ("scores",)
    farther = heads(2) | {"depth": heads(1)["depth"] + 1e3}
    both = evaluate(chunks(heads(1), farther), None, output=("scores", "boxes"))
    assert (both.max_abs_error or 0.0) < 1e2 < (evaluate(chunks(heads(1), farther), None, output=()).max_abs_error or 0)


def test_groups_of_channels_are_outputs_to_name() -> None:
    """Beside whole ones."""
    channels = (ChannelGroup("scores", "first", 1, 0, 1), ChannelGroup("scores", "rest", 1, 1, None))
    result = scored(
        lambda given, _: given["scores.first"][:, 0] + given["depth"], "scores.first", "depth", channels=channels
    )
    assert result.reference == pytest.approx(np.mean(heads(1)["scores"][:, 0] + heads(1)["depth"]))


def test_an_output_that_cannot_be_compared_gives_no_score() -> None:
    """It is a fault, and the metric that reads it has nothing to read."""
    missing = {name: array for name, array in heads(2).items() if name != "scores"}
    metric = resolve_metric(Metric(largest, unit="", name="own"), "int", (N, 3))
    result = evaluate(chunks(heads(1), missing), metric, output=("boxes", "scores"))
    assert (result.reference, [fault.kind for fault in result.faults]) == (None, ["missing"])


def test_a_mark_names_one_output_or_a_list() -> None:
    """A list of one is the same as its name, and an output is named once."""
    assert read({"output": "a"}).output == read({"output": ["a"]}).output == ("a",)
    assert read({"output": ["b", "a"]}).output == ("b", "a")
    with pytest.raises(UsageError, match="output names 'a' twice"):
        read({"output": ["a", "b", "a"]})
    for wrong in ([], [""], 3, ["a", None], {"a": 1}):
        with pytest.raises(UsageError, match="output must be a name or a list of names"):
            read({"output": wrong})


def test_what_reads_one_output_refuses_several() -> None:
    """The metric that nobody named is no default then; each name is looked up in the model."""
    both = {"logits": INPUTS, "boxes": INPUTS}
    labels = np.arange(len(INPUTS)) % 2
    asked, data = check(metric="top1", output=("logits", "boxes"), labels=labels)
    with pytest.raises(UsageError, match=r"'top1' reads one output(.|\n)*output='logits'"):
        choose_metric(asked, data, both, choose_output(asked, both))
    for metric in (None, Metric(largest)):
        asked, data = check(metric=metric, output=("logits", "boxes"), labels=labels)
        chosen = choose_metric(asked, data, both, choose_output(asked, both))
        assert (chosen is None) is (metric is None)
    limited, data = check(Limits(max_drop=1.0), output=("logits", "boxes"), labels=labels)
    with pytest.raises(UsageError, match="max_drop needs a metric here"):
        choose_metric(limited, data, both, "logits")
    with pytest.raises(UsageError, match="did you mean 'boxes'"):
        choose_output(check(output=("logits", "boxs"))[0], both)


def test_a_metric_says_which_outputs_it_reads() -> None:
    """By one of two words."""
    with pytest.raises(UsageError, match=r"outputs says which ones fn reads(.|\n)*named, all"):
        Metric(largest, outputs="both")  # type: ignore[arg-type]
