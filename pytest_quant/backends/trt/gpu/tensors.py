"""What goes in and out of an engine, by its own account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_quant.backends.trt.gpu.io_types import numpy_type

if TYPE_CHECKING:
    import tensorrt


@dataclass(frozen=True, slots=True)
class Slot:
    """One input or output.

    Attributes
    ----------
    dtype : the engine's own; INT64 stays INT64 since TensorRT 9 and was INT32 before.
    on_host : its values decide shapes, so TensorRT reads them from host memory.
    """

    name: str
    is_input: bool
    dtype: np.dtype[Any]
    on_host: bool


def slots_of(trt: Any, engine: tensorrt.ICudaEngine) -> tuple[Slot, ...]:
    """Return the inputs and outputs of `engine`, in its order. Raises `BuildError` for a type numpy does not have."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    return tuple(
        Slot(
            name=name,
            is_input=engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT,
            dtype=numpy_type(name, engine.get_tensor_dtype(name)),
            on_host=bool(engine.is_shape_inference_io(name)),
        )
        for name in names
    )
