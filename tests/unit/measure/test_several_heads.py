"""Agreement of models with several outputs of classes: the lowest counts, and what has no classes has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.metrics import resolve_metric
from pytest_quant.result import AccuracyResult, Status
from pytest_quant.spec import Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts
from pytest_quant.verdict.doubt import note_unread_outputs

Side = Mapping[str, np.ndarray]
N = 400


def scores(seed: int, classes: int, scale: float = 1.0) -> np.ndarray:
    """Scores (n, classes) of a head."""
    return (scale * np.random.default_rng(seed).normal(size=(N, classes))).astype(np.float32)


def near(reference: np.ndarray, seed: int, noise: float = 0.01) -> np.ndarray:
    """The same head, quantized well."""
    return (reference + noise * np.random.default_rng(seed).normal(size=reference.shape)).astype(np.float32)


def chunks(reference: Side, candidate: Side, labels: np.ndarray | None, step: int) -> Iterator[OutputPair]:
    """Cut the outputs of both sides into chunks of `step` samples."""
    for start in range(0, N, step):
        rows = slice(start, start + step)
        ours, theirs = ({name: array[rows] for name, array in side.items()} for side in (reference, candidate))
        yield OutputPair(ours, theirs, None if labels is None else labels[rows], start, len(ours["a"]))


def compared(
    reference: Side, candidate: Side, labels: np.ndarray | None = None, output: tuple[str, ...] = (), step: int = 90
) -> AccuracyResult:
    """Evaluate with the default metric of the output that it reads."""
    shape = reference[(*output, "a")[0]].shape
    metric = None if labels is None else resolve_metric(None, "int", shape)
    return evaluate(chunks(reference, candidate, labels, step), metric, output=output)


def agreeing(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Share of equal first guesses in percent, counted by numpy."""
    return 100.0 * float(np.mean(reference.argmax(axis=1) == candidate.argmax(axis=1)))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("second", ["scores of as many classes", "probabilities of fewer", "probabilities of more"])
def test_a_destroyed_head_beside_a_good_one_passes_no_agreement(second: str, labelled: bool) -> None:
    """Its scores are those of other weights: the first head has 99 %, and a limit of 90 is broken all the same."""
    first = scores(1, 4)
    classes = {"scores of as many classes": 4, "probabilities of fewer": 2, "probabilities of more": 9}[second]
    head, other = scores(2, classes), scores(3, classes)
    if classes != 4:
        head, other = softmax(head, axis=1), softmax(other, axis=1)
    labels = first.argmax(axis=1) if labelled else None
    result = compared({"a": first, "b": head}, {"a": near(first, 4), "b": other}, labels)
    assert result.agreement_outputs == ("b", "a")
    assert result.agreement_pct == pytest.approx(agreeing(head, other))
    (verdict,) = accuracy_verdicts(Limits(min_agreement=90), result, None)
    assert verdict.status is Status.FAIL
    assert verdict.reason.endswith("; output 'b' is the worst of 2")
    named = compared({"a": first, "b": head}, {"a": near(first, 4), "b": other}, labels, ("a",))
    assert named.agreement_outputs == ("a",)
    assert [each.status for each in accuracy_verdicts(Limits(min_agreement=90), named, None)] == [Status.PASS]
    assert note_unread_outputs(Limits(min_agreement=90), named, ("a",)) == (
        f"no limit reads output 'b' (SQNR {sqnr(head, other)} dB)",
    )


def sqnr(reference: np.ndarray, candidate: np.ndarray) -> str:
    """SQNR by its formula, as notes write it."""
    signal, noise = np.linalg.norm(reference.astype(float)), np.linalg.norm((reference - candidate).astype(float))
    return f"{20 * np.log10(signal / noise):.4g}"


@pytest.mark.parametrize(
    ("name", "shape"),
    [("features", (N, 64)), ("boxes", (N, 3)), ("map", (N, 4, 2)), ("flags", (N, 1)), ("ids", (N, 4))],
)
def test_an_output_without_classes_is_no_part_of_agreement(name: str, shape: tuple[int, ...]) -> None:
    """Pooled features, boxes, maps, one number and integers: their largest value is nobody's answer."""
    first, random = scores(1, 4), np.random.default_rng(5)
    other = random.integers(0, 9, shape) if name == "ids" else random.normal(size=shape).astype(np.float32)
    changed = other + 1 if name == "ids" else (other + random.normal(size=shape)).astype(np.float32)
    result = compared({"a": first, name: other}, {"a": near(first, 4), name: changed}, first.argmax(axis=1))
    assert result.agreement_outputs == ("a",)
    limits = Limits(min_agreement=95, max_drop=5.0)
    assert {verdict.status for verdict in accuracy_verdicts(limits, result, None)} == {Status.PASS}
    (note,) = note_unread_outputs(limits, result, ())
    assert note.startswith(f"no limit reads output '{name}' (SQNR ")


def test_classes_beside_a_first_output_without_any_are_found() -> None:
    """Boxes come first in many detectors; rows that are probabilities are classes, wherever they stand."""
    boxes, head = (
        np.zeros((N, 5, 4), np.float32) + np.arange(N, dtype=np.float32)[:, None, None],
        softmax(scores(2, 3), axis=1),
    )
    result = compared({"a": boxes, "b": head}, {"a": boxes, "b": near(head, 3, 1e-4)})
    assert result.agreement_outputs == ("b",)
    assert result.kl is None


def test_rows_have_to_be_probabilities_in_all_of_the_set() -> None:
    """The first hundred samples of an output sum to one, and later ones do not: it has no classes."""
    first, gate = scores(1, 4), softmax(scores(2, 6), axis=1)
    gate[350:] *= 3.0
    result = compared({"a": first, "gate": gate}, {"a": first, "gate": gate[::-1].copy()}, step=100)
    assert result.agreement_outputs == ("a",)
    assert result.agreement_pct == 100.0


@given(
    noises=st.lists(st.floats(0, 3), min_size=1, max_size=4), step=st.integers(1, N), seed=st.integers(0, 100),
    labelled=st.booleans(),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_agreement_is_the_lowest_over_all_heads(noises: list[float], step: int, seed: int, labelled: bool) -> None:
    """However the samples are cut; score, divergence and classes are those of the first head."""
    names = "abcd"[: len(noises)]
    reference = {name: scores(seed + place, 3) for place, name in enumerate(names)}
    candidate = {name: near(reference[name], seed + 9, noise) for name, noise in zip(names, noises, strict=True)}
    labels = reference["a"].argmax(axis=1) if labelled else None
    result = compared(reference, candidate, labels, step=step)
    shares = {name: agreeing(reference[name], candidate[name]) for name in names}
    assert result.agreement_pct == pytest.approx(min(shares.values()))
    assert sorted(result.agreement_outputs) == sorted(names)
    assert shares[result.agreement_outputs[0]] == min(shares.values())
    first = compared({"a": reference["a"]}, {"a": candidate["a"]}, labels, step=step)
    for figure in ("reference", "candidate", "kl", "by_class", "chance", "worst_class", "drop_ci"):
        assert getattr(result, figure) == getattr(first, figure)
