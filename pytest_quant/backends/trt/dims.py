"""TensorRT's shapes as tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorrt


def sizes_of(dims: tensorrt.Dims) -> tuple[int, ...]:
    """Return the sizes of `dims`, -1 where one is free; the binding promises length and items, and no iterator."""
    return tuple(int(dims[index]) for index in range(len(dims)))
