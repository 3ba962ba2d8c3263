"""Verdicts on samples that only stand in for real ones, which tell nothing about accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_quant.result import Status, Verdict
from pytest_quant.spec import Dataset, limits_on
from pytest_quant.verdict.rules import not_measured

_OUTPUTS = "outputs"


def on_placeholder(verdicts: Iterable[Verdict], dataset: Dataset) -> Iterator[Verdict]:
    """Yield `verdicts`, those on accuracy as not measured, so that none of them passes or fails.

    Where no limit is on accuracy there is one verdict that says so, because a check that passes counts as judged.

    Parameters
    ----------
    verdicts : all those of a check.
    dataset : the placeholder, see `Dataset.placeholder`.
    """
    why = (
        f"{dataset.name} is a placeholder, whose samples tell nothing about accuracy; "
        "next: return real ones there, Dataset.from_arrays(inputs, labels, calibration=100)"
    )
    on_accuracy = (_OUTPUTS, *limits_on("score", "reference", "accuracy", "output"))
    told = False
    for verdict in verdicts:
        if verdict.limit.partition("[")[0] not in on_accuracy:
            yield verdict
            continue
        told = True
        yield replace(verdict, observed=None, status=Status.INCONCLUSIVE, reason=f"not measured: {why}")
    if not told:
        yield replace(not_measured(_OUTPUTS, 0.0, why), implicit=True)
