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
