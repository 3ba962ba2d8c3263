"""The labels and groups of an evaluation set that a mark limits: whether the data has them, and which they are."""

from __future__ import annotations

import numpy as np

from pytest_quant.data import Data
from pytest_quant.errors import UsageError
from pytest_quant.metrics.parts import Parts
from pytest_quant.spec import Check


def find_parts(check: Check, data: Data) -> Parts:
    """Return the parts of `data` whose drop the mark limits; groups that it does not limit are clusters.

    Samples that only stand in for real ones have no parts, see `Dataset.placeholder`.

    Raises
    ------
    UsageError : the mark limits labels or groups, and the data has none.
    """
    drops = {} if check.dataset.stands_in else check.limits.drops
    if "group" in drops and data.groups is None:
        raise UsageError(
            f"max_drop limits each group, and {data.name} has none",
            fix="give the group of each sample: Dataset.from_arrays(inputs, labels, groups=groups)",
        )
    if "label" in drops:
        first = next(data.batches(1)).labels
        if first is None or first.dtype.kind not in "iub" or first.size != 1:
            raise UsageError(
                f"max_drop limits each label, and {data.name} has no class index for each sample",
                value=f"{data.labels} labels" + ("" if first is None else f" of shape {('n', *first.shape[1:])}"),
                fix="give integers (n,) as labels; or limit groups of samples, max_drop={'group': 2.0} with "
                "Dataset.from_arrays(inputs, labels, groups=groups)",
            )
    return Parts(drops.get("label"), drops.get("group"), data.groups, np.asarray(data.input_hashes))
