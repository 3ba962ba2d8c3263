"""The inputs and outputs of a TensorRT engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_quant.errors import BuildError

if TYPE_CHECKING:
    import tensorrt


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


@dataclass(frozen=True, slots=True)
class Slot:
    """One input or output.

    Attributes
    ----------
    dtype : the engine's own; INT64 stays INT64 since TensorRT 9 and was INT32 before.
    on_host : TensorRT reads or writes it in host memory, as it does most tensors whose values decide shapes.
    """

    name: str
    is_input: bool
    dtype: np.dtype[Any]
    on_host: bool


def slots_of(trt: Any, engine: tensorrt.ICudaEngine) -> tuple[Slot, ...]:
    """Return the inputs and outputs of `engine`, in its order. Raises `BuildError` for a type numpy does not have."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return tuple(map(partial(_slot, trt, engine), names))


def _slot(trt: Any, engine: tensorrt.ICudaEngine, name: str) -> Slot:
    return Slot(
        name=name,
        is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
        dtype=numpy_type(name, engine.get_tensor_dtype(name)),
        on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
    )
