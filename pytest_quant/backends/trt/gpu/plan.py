"""A plan, deserialized: a runtime, an engine, its contexts and its layers.

Version 10 writes format and type as one phrase, ``"Format/Datatype": "Row major linear FP32"``; version 11 writes
``"Format"`` and ``"DataType"`` apart. Without the detailed verbosity a layer is a bare name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.trt.configure import complaints, make_logger
from pytest_quant.backends.trt.coverage import Layer
from pytest_quant.errors import BuildError

if TYPE_CHECKING:
    import tensorrt


_WORDS = {"FP32": "Float", "FP16": "Half", "BF16": "BFloat16", "INT8": "Int8", "FP8": "FP8", "INT4": "Int4"}
_WORD = re.compile(r"\b(FP32|FP16|BF16|BFloat16|INT8|INT4|INT32|INT64|FP8|Float|Half|Bool)\b", re.IGNORECASE)
_CANONICAL = {word.lower(): word for word in ("Float", "Half", "BFloat16", "Int32", "Int64", "Bool")} | {
    short.lower(): word for short, word in _WORDS.items()
}
_ONNX_LAYER = re.compile(r"\[ONNX Layer: (.*?)\]")


def layers_in_inspection(text: str) -> list[Layer]:
    """Return the layers that ``get_engine_information(JSON)`` lists.

    Raises
    ------
    BuildError : it lists names only, so the precision of the layers is not known.
    """
    rows = json.loads(text)["Layers"]
    if any(not isinstance(row, Mapping) for row in rows):
        raise BuildError(
            "the engine's inspector gives names of layers only",
            fix="build it again with ProfilingVerbosity.DETAILED, as this plugin does",
        )
    return [_layer(row) for row in rows]


def _layer(row: Mapping[str, Any]) -> Layer:
    kinds = tuple(_type_of(tensor) for tensor in row.get("Inputs", ()))
    return Layer(row["Name"], row["LayerType"], kinds, tuple(_ONNX_LAYER.findall(row.get("Metadata") or "")))


def _type_of(tensor: Mapping[str, Any]) -> str:
    """Return the type as the builder's log spells it: Float, Half, Int8."""
    phrase = next((tensor[key] for key in ("DataType", "Datatype", "Format/Datatype") if tensor.get(key)), "")
    found = _WORD.search(phrase)
    return _CANONICAL.get(found[1].lower(), found[1]) if found else str(phrase)


class Plan:
    """The engine in the file `path`; the primary context must be current.

    Attributes
    ----------
    engine : TensorRT's own object.
    lines : what TensorRT logged, severity in front.

    Raises
    ------
    BuildError : TensorRT does not take the plan, with what it logged: another version or another GPU made it.
    """

    def __init__(self, trt: Any, path: Path) -> None:
        self.lines: list[str] = []
        # TensorRT holds no reference to its logger and its runtime; without ours they are freed under it.
        self._logger = make_logger(trt, self.lines)
        self._runtime: tensorrt.Runtime | None = trt.Runtime(self._logger)
        # A plan of the version-compatible kind holds code; it is our own build.
        self._runtime.engine_host_code_allowed = True
        self.engine: Any = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self.engine is None:
            raise BuildError(
                f"TensorRT {trt.__version__} does not take the plan it was given",
                value=complaints(self.lines),
                fix="pytest-quant cache clear --kind engine, and the next run builds it for this GPU and version",
            )

    def new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context. Raises `BuildError` when there is no memory for one."""
        context: tensorrt.IExecutionContext | None = self.engine.create_execution_context()
        if context is None:
            raise BuildError(
                "TensorRT could not make an execution context",
                value=complaints(self.lines),
                fix="the device may be out of memory: nvidia-smi tells",
            )
        return context

    def close(self) -> None:
        """Drop engine and runtime in this order, after the contexts; closing twice is harmless."""
        self.engine = None
        self._runtime = None


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
