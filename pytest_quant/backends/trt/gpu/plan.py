"""A plan on a GPU: deserialized, its contexts, its inputs and outputs, and the device memory that it says it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_quant.backends.cuda import OutOfMemoryError
from pytest_quant.backends.cuda.device import complaints, make_logger
from pytest_quant.backends.trt.configure import register_plugins
from pytest_quant.errors import BuildError

if TYPE_CHECKING:
    import tensorrt


_LOGGERS: dict[type, Any] = {}
"""The one logger of this process, by its base class: plugins of every plan use the one that was registered last."""


class Plan:
    """The engine in the file `path`; the primary context must be current.

    Attributes
    ----------
    engine : TensorRT's own object.
    lines : what TensorRT logged of it, severity in front.

    Raises
    ------
    BuildError : TensorRT does not take the plan, with what it logged: another version or another GPU made it.
    """

    def __init__(self, trt: Any, path: Path) -> None:
        self.lines: list[str] = []
        # TensorRT holds no reference to its logger and its runtime; without ours they are freed under it.
        self._logger = _LOGGERS.setdefault(trt.ILogger, make_logger(trt, []))
        self.listen()
        register_plugins(trt, self._logger)
        self._quiet = trt.ProfilingVerbosity.NONE
        self._runtime: tensorrt.Runtime | None = trt.Runtime(self._logger)
        # A plan of the version-compatible kind holds code; it is our own build.
        self._runtime.engine_host_code_allowed = True
        self.engine: Any = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self.engine is None:
            self.close()
            if _NO_ROOM.search(complaints(self.lines)):
                raise _no_memory("this engine", self.lines)
            raise BuildError(
                f"TensorRT {trt.__version__} does not take the plan it was given",
                value=complaints(self.lines),
                fix="pytest-quant cache clear --kind engine, and the next run builds it for this GPU and version",
            )

    def listen(self) -> None:
        """Take what TensorRT logs from now on, until another plan does."""
        self._logger.lines = self.lines

    def new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context. Raises `BuildError` when there is no memory for one.

        It tells NVTX nothing: markers in the detail that the inspector wants of the plan would lengthen every run.
        """
        context: tensorrt.IExecutionContext | None = self.engine.create_execution_context()
        if context is None:
            raise _no_memory("an execution context", self.lines)
        context.nvtx_verbosity = self._quiet
        return context

    def close(self) -> None:
        """Drop engine and runtime in this order, after the contexts; closing twice is harmless."""
        self.engine = None
        self._runtime = None


_NO_ROOM = re.compile("out of ?memory", re.IGNORECASE)


def _no_memory(what: str, lines: list[str]) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"TensorRT has no memory for {what}",
        value=complaints(lines),
        fix="nvidia-smi tells who holds the GPU's memory; smaller batches, fewer workers (-n) and closed engines need "
        "less",
    )


def held_bytes(trt: Any, engine: Any, plan_bytes: int) -> int:
    """Return the bytes of device memory that `engine` reports for its activations and weights.

    The figure for activations had another name in early versions 10, and counts as 0 where there is none.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    engine : a ``tensorrt.ICudaEngine``.
    plan_bytes : size of the plan's file in bytes, taken for the weights where this version does not report them.
    """
    for name in ("device_memory_size_v2", "device_memory_size"):
        activations = getattr(engine, name, None)
        if activations is not None:
            break
    else:
        activations = 0
    statistic = getattr(getattr(trt, "EngineStat", None), "TOTAL_WEIGHTS_SIZE", None)
    weights = plan_bytes if statistic is None else engine.get_engine_stat(statistic)
    return int(activations) + int(weights)


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
