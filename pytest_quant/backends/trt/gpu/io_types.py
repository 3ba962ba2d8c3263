"""Element types of an engine's inputs and outputs, by TensorRT's own word for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_quant.errors import BuildError

_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
"""TensorRT's own `nptype` fails for the other types, and old versions of it gave int32 for INT64."""


def numpy_type(tensor: str, data_type: object) -> np.dtype[Any]:
    """Return numpy's type for the ``DataType`` of `tensor`. Raises `BuildError` for one that numpy does not have."""
    name = str(data_type).rpartition(".")[2]
    if name not in _TYPES:
        raise BuildError(
            f"'{tensor}' of the engine is {name}, which numpy does not have",
            allowed=", ".join(_TYPES),
            fix="keep inputs and outputs of the model in float32",
        )
    return np.dtype(_TYPES[name])
