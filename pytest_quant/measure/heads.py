"""Outputs with a metric each, the heads of a model: which metrics they have, which labels, and the row of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.backends import Outputs
from pytest_quant.data import Data
from pytest_quant.data.batch import is_object, labels_of, widen
from pytest_quant.errors import DataError
from pytest_quant.metrics import ResolvedMetric, resolve_metric
from pytest_quant.metrics.metric import Array
from pytest_quant.spec import Check


@dataclass(frozen=True, slots=True)
class Head:
    """An output with its own metric, and the limit on its drop in that metric's unit; ``None`` without one."""

    name: str
    metric: ResolvedMetric
    margin: float | None = None


_MOST_LOOKED_AT = 32


def choose_heads(check: Check, data: Data, outputs: Outputs) -> tuple[Head, ...]:
    """Return the outputs for which the mark names a metric each; none for data that stands in for real samples.

    Parameters
    ----------
    check : its metric, a dict by output, and its limits.
    data : whose first samples show the labels of each output.
    outputs : of a batch, axis 0 the sample.

    Raises
    ------
    UsageError : a metric is not defined for such labels or such an output.
    DataError : labels are no dicts by output, and there are several.
    """
    if not isinstance(check.metric, Mapping) or check.dataset.stands_in:
        return ()
    labels, drops = next(data.batches(_MOST_LOOKED_AT)).labels, check.limits.drops
    heads = []
    for name, metric in check.metric.items():
        own = None if labels is None else labels_of_head(labels, name, alone=len(check.metric) == 1)
        kind = "none" if own is None else "object" if is_object(own) else "float" if own.dtype.kind == "f" else "int"
        found = resolve_metric(metric, kind, outputs[name].shape, "" if own is None else type(own[0]).__name__)
        heads += [] if found is None else [Head(name, found, drops.get(name))]
    return tuple(heads)


def labels_of_head(labels: Array, name: str, *, alone: bool) -> Array:
    """Return the labels (n, ...) of one output: from dicts by output, or all of them for an output that is alone.

    Raises
    ------
    DataError : a label has none for this output.
    """
    has_own = [isinstance(label, Mapping) and name in label for label in labels] if is_object(labels) else [False]
    if alone and not any(has_own):
        return labels
    if not all(has_own):
        raise DataError(
            f"a label has none for output '{name}', which has a metric of its own",
            value=f"{labels[has_own.index(False)]!r:.100}",
            allowed="a dict by output for each sample",
            fix=f"give arrays by output, Dataset.from_arrays(inputs, {{'{name}': ..., ...}})",
        )
    what = f"labels of '{name}'"
    return widen(labels_of([label[name] for label in labels], len(labels), what), what)
