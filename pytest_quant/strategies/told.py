"""How a broken property is told: which output, where, both figures, and the inputs in short."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Feeds

_SHOWN = 8


def told(what: str, output: str, index: tuple[int, ...], figures: dict[str, object], feeds: Feeds) -> str:
    """Return the message: `figures` are named by who gave them, and are shown in their order."""
    place = f"output '{output}' at [{', '.join(map(str, index))}]" if index else f"output '{output}'"
    both = ", ".join(f"{name} {value}" for name, value in figures.items())
    return "\n".join([f"{what}: {place}: {both}", *(_line(name, array) for name, array in feeds.items())])


def _line(name: str, array: NDArray[Any]) -> str:
    """``input 'x' float32 (1, 8): 0 to 2.5, mean 0.3: [0. 0. 2.5 ...]``."""
    first = np.array2string(array.reshape(-1)[:_SHOWN], precision=6, max_line_width=10_000)
    if array.size > _SHOWN:
        first = f"{first[:-1]} ...]"
    text = f"  input '{name}' {array.dtype} {array.shape}"
    if array.size and array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        text += f": {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"
    return f"{text}: {first}"
