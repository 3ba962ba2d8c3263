"""What kind of labels there are, found while the data is read."""

from __future__ import annotations

from typing import Literal

from pytest_quant.data.source import Block
from pytest_quant.errors import DataError

LabelKind = Literal["none", "int", "float"]


class LabelScan:
    """Sees every block once and knows the kind and the range of the labels then.

    Attributes
    ----------
    kind : ``none``, ``int``, or ``float`` when any label is one.
    range : smallest and largest number in any label, ``None`` without labels.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._shape: tuple[int, ...] | None = None
        self._seen = 0
        self.kind: LabelKind = "none"
        self.range: tuple[float, float] | None = None

    def see(self, block: Block) -> None:
        """Take note of the labels of the next block.

        Raises
        ------
        DataError : only some samples have a label, or labels differ in shape.
        """
        labels = block.labels
        if self._seen and (labels is None) != (self.kind == "none"):
            raise DataError(
                f"{self._what}: some samples have a label and some have none",
                value=f"sample {self._seen} is the first that is different",
                allowed="a label for every sample, or for none",
                fix="label them all, or give inputs only",
            )
        if labels is not None:
            if self._shape not in (None, labels.shape[1:]):
                raise DataError(
                    f"{self._what}: labels differ in shape",
                    value=f"sample {self._seen}: {labels.shape[1:]} after {self._shape}",
                    allowed="labels of one shape",
                    fix="pad them to one shape",
                )
            self._shape = labels.shape[1:]
            if self.kind != "float":
                self.kind = "float" if labels.dtype.kind == "f" else "int"
            numbers = [labels.min().item(), labels.max().item(), *(self.range or ())] if labels.size else self.range
            self.range = (min(numbers), max(numbers)) if numbers else None
        self._seen += block.n
