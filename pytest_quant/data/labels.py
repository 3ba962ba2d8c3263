"""What kind of labels there are, found while the data is read."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.label_forms import is_object
from pytest_quant.data.source import Block
from pytest_quant.errors import DataError

LabelKind = Literal["none", "int", "float", "object"]

LABEL_DTYPES: dict[LabelKind, type[np.int64 | np.float64 | np.object_]] = {
    "none": np.int64,
    "int": np.int64,
    "float": np.float64,
    "object": np.object_,
}
"""How the labels of each kind are kept."""


class LabelScan:
    """Sees every block once and knows the kind and the range of the labels then.

    Attributes
    ----------
    kind : ``none``, ``int``, ``float`` when any label is one, or ``object`` when they are not numbers of one shape.
    range : smallest and largest number in any label, ``None`` without labels and for objects.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._shape: tuple[int, ...] | None = None
        self._seen = 0
        self._types: set[str] = set()
        self.kind: LabelKind = "none"
        self.range: tuple[float, float] | None = None

    @property
    def type_name(self) -> str:
        """What the objects are, as a message names it; empty for other kinds."""
        if self.kind != "object":
            return ""
        return " and ".join(sorted(self._types)) or "arrays of different shapes"

    def see(self, block: Block) -> None:
        """Take note of the labels of the next block.

        Raises
        ------
        DataError : only some samples have a label.
        """
        labels = block.labels
        if self._seen and (labels is None) != (self.kind == "none"):
            raise self._partly(self._seen)
        if labels is not None:
            if is_object(labels):
                self._see_objects(labels)
            else:
                self._see_numbers(labels)
        self._seen += block.n

    def _see_objects(self, labels: NDArray[Any]) -> None:
        for index, label in enumerate(labels):
            if label is None:
                raise self._partly(self._seen + index)
            self._types.add(type(label).__name__)
        self.kind, self.range = "object", None

    def _see_numbers(self, labels: NDArray[Any]) -> None:
        if self.kind == "object" or self._shape not in (None, labels.shape[1:]):
            self.kind, self.range = "object", None
            return
        self._shape = labels.shape[1:]
        if self.kind != "float":
            self.kind = "float" if labels.dtype.kind == "f" else "int"
        numbers = [labels.min().item(), labels.max().item(), *(self.range or ())] if labels.size else self.range
        self.range = (min(numbers), max(numbers)) if numbers else None

    def _partly(self, sample: int) -> DataError:
        return DataError(
            f"{self._what}: some samples have a label and some have none",
            value=f"sample {sample} is the first that is different",
            allowed="a label for every sample, or for none",
            fix="label them all, or give inputs only",
        )
