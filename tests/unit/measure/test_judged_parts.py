"""A mark limits labels and groups that the data has; what the data has not is an error that says what to give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_quant.data import open_data
from pytest_quant.errors import UsageError
from pytest_quant.measure.choices import find_parts
from pytest_quant.metrics.parts import Parts
from pytest_quant.spec import Dataset, Limits
from tests.unit.data.samples import ONE, numbers
from tests.unit.record.examples import a_check

BOTH = (("label", 3.0), ("group", 2.0))


def found(labels: Any, groups: Any, drops: Any, *, stands_in: bool = False) -> Parts:
    """Find the parts of four samples."""
    dataset = replace(Dataset.from_arrays(numbers(4), labels, groups=groups), stands_in=stands_in)
    check = replace(a_check(), dataset=dataset, limits=Limits(max_drop=drops))
    return find_parts(check, open_data(dataset, ONE))


def test_groups_are_parts_if_a_limit_is_on_them_and_clusters_if_not() -> None:
    """Integers of one shape are labels, also in a column."""
    parts = found(np.arange(4)[:, None], list("abba"), BOTH)
    assert (parts.label, parts.group, parts.clusters) == (3.0, 2.0, None)
    clusters = found(None, list("abba"), 1.0).clusters
    assert clusters is not None
    assert clusters.tolist() == [0, 1, 1, 0]
    assert found(None, None, 1.0).clusters is None


@pytest.mark.parametrize("labels", [None, np.arange(4.0), np.zeros((4, 2), int), list("abcd")])
def test_what_is_no_class_index_cannot_be_limited_by_label(labels: Any) -> None:
    """The message names what there is, and what to give."""
    with pytest.raises(UsageError, match="limits each label, and quant_data has no class index"):
        found(labels, list("abba"), BOTH)


def test_data_without_groups_cannot_be_limited_by_group() -> None:
    """The message names the argument."""
    with pytest.raises(UsageError, match="limits each group, and quant_data has none") as caught:
        found(np.arange(4), None, BOTH)
    assert caught.value.fix == "give the group of each sample: Dataset.from_arrays(inputs, labels, groups=groups)"


def test_what_stands_in_for_samples_needs_neither() -> None:
    """Its check says that real samples are missing."""
    parts = found(None, None, BOTH, stands_in=True)
    assert (parts.label, parts.group) == (None, None)
