"""What goes into a model and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model.

    Attributes
    ----------
    name : as the graph spells it.
    dtype : numpy's name for the element type, for example ``"float32"`` or ``"int64"``.
    shape : one entry for each axis, ``None`` where the size is free.
        ``None`` in place of the tuple when the graph does not tell the rank.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model, in the graph's order."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    @property
    def fixed_batch_size(self) -> int | None:
        """The size of the leading axis when the graph fixes it, ``None`` when it is free."""
        sizes = {tensor.shape[0] for tensor in self.inputs if tensor.shape}
        fixed = [size for size in sizes if size is not None]
        return fixed[0] if fixed else None
