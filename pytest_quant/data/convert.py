"""Arrays out of whatever holds numbers; torch is recognized by its methods and never imported."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """``dtype.name``, which numpy spells anew each time: as slow as hashing a small sample."""
    return dtype.name


def to_array(value: object, what: str) -> NDArray[Any]:
    """Return `value` as an array, without a copy where it can be. Raises `DataError` when it is none."""
    tensor: Any = value
    try:
        if hasattr(value, "detach") and hasattr(value, "numpy"):
            tensor = tensor.detach().cpu().numpy()
        array = np.asarray(tensor)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be turned into an array",
            value=f"{type(value).__name__}: {error}",
            allowed="a numpy array, a torch tensor, or numbers of one shape",
            fix="convert it to a numpy array, for example with .float().numpy()",
        ) from error
    # Fixed-width text would be cut when a longer one joins the same batch.
    return array.astype(object) if array.dtype.kind == "U" else array


def to_labels(value: object, what: str) -> NDArray[Any]:
    """Return labels as int64 or float64, so that arithmetic on them cannot overflow. Raises `DataError`."""
    array = to_array(value, what)
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f":
        raise DataError(
            f"{what}: labels must be numbers",
            value=f"dtype {array.dtype}",
            allowed="ints (a class), bools, floats, or vectors of them",
            fix="map each label to the index of its class",
        )
    numbers = array.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise DataError(f"{what} holds NaN or infinity", allowed="finite labels", fix="remove these samples")
    return numbers
