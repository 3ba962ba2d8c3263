"""What goes into a model and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model.

    Attributes
    ----------
    name : as the graph spells it.
    dtype : numpy's name for the element type, for example ``"float32"`` or ``"int64"``.
    shape : one entry for each axis, ``None`` where the size is free.
        ``None`` in place of the tuple when the graph does not tell the rank.
    symbols : one name for each axis, as the graph spells its free sizes; empty text for an axis without one.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    symbols: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model, in the graph's order."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
