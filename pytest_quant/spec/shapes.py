"""The shapes that the runs of a check have, for backends that build an engine for them."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputShapes:
    """The shapes that one input has over all runs of a check, the batch axis included.

    Attributes
    ----------
    name : of the input, as the engine's own graph spells it.
    smallest, largest : by axis; no single run need have all of them at once.
    usual : of the commonest sample at the batch size that is timed.
    batch_axis : the axis that counts samples; ``None`` where the graph fixes it or there is none.
    """

    name: str
    smallest: Shape
    usual: Shape
    largest: Shape
    batch_axis: int | None = 0
