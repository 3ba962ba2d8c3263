"""The options of the TensorRT backends. An option of another scheme is ignored, an unknown one is not.

====================  ====================  ==============================================================
option                type                  meaning
====================  ====================  ==============================================================
compute_capability    "SM75" and later      the GPU to build for; needed where there is none
workspace_mb          int >= 1              memory that a layer may use while it runs, 10^6 bytes
optimization_level    int 0..5              time the builder takes to find faster kernels
shapes                dict by input         smallest, usual and largest shape of an input, three lists of ints;
                                            default: what the data has. Of an input that is itself a shape: values
max_batch             int >= 1              largest batch; default: the larger of the evaluation's and the timed one
opt_batch             int >= 1              batch that kernels are chosen for; default: the timed one
timing_cache          path                  a file that keeps measured kernels; builds get faster, not reproducible
version_compatible    bool                  the plan runs in later versions too; slower (only `trt`)
hardware_compatible   "AMPERE_PLUS" or      the plan runs on other GPUs too; slower
                      "SAME_COMPUTE_CAPABILITY"
tf32                  bool, default False   float32 products may round their inputs to ten bits
native_instancenorm   bool, default True    False takes the plugin, which is faster for some models
quantization          "explicit" or         Q/DQ pairs in the graph, or TensorRT 10's own calibrator;
                      "implicit"            default explicit (only `trt`)
beside                "fp16", "bf16" or     what implicit INT8 computes the rest in; default fp16, as without it
                      "fp32"                what has no INT8 kernel would be slower than it need be (only `trt`)
====================  ====================  ==============================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.options import FLAG, Rule, checked, one_of, whole_number
from pytest_quant.errors import UsageError
from pytest_quant.spec import Shape

if TYPE_CHECKING:
    import tensorrt


def sizes_of(dims: tensorrt.Dims) -> tuple[int, ...]:
    """Return the sizes of `dims`, -1 where one is free; the binding promises length and items, and no iterator."""
    return tuple(int(dims[index]) for index in range(len(dims)))


def _is_range(name: object, shapes: object) -> bool:
    if not isinstance(name, str) or not isinstance(shapes, (list, tuple)) or len(shapes) != 3:
        return False
    if not all(isinstance(shape, (list, tuple)) and len(shape) == len(shapes[0]) for shape in shapes):
        return False
    if not all(type(size) is int and size >= 0 for shape in shapes for size in shape):
        return False
    return all(low <= usual <= high for low, usual, high in zip(*shapes, strict=True))


RULES = {
    "compute_capability": Rule(
        "a compute capability such as 'SM89'",
        lambda value: isinstance(value, str) and bool(re.fullmatch(r"SM\d{2,3}", value)),
    ),
    "workspace_mb": whole_number(1),
    "optimization_level": one_of(0, 1, 2, 3, 4, 5),
    "max_batch": whole_number(1),
    "opt_batch": whole_number(1),
    "shapes": Rule(
        "a dict of smallest, usual and largest shape by input, whole numbers in that order: "
        "{'x': [(1, 3, 32, 32), (1, 3, 64, 64), (8, 3, 96, 320)]}",
        lambda value: isinstance(value, Mapping) and bool(value) and all(map(_is_range, value.keys(), value.values())),
    ),
}
"""Options that every way to TensorRT has."""

BUILDER_RULES = RULES | {
    "timing_cache": Rule("the path of a file", lambda value: isinstance(value, str) and bool(value)),
    "hardware_compatible": one_of("AMPERE_PLUS", "SAME_COMPUTE_CAPABILITY"),
    "tf32": FLAG,
    "native_instancenorm": FLAG,
}
NATIVE_RULES = BUILDER_RULES | {
    "quantization": one_of("explicit", "implicit"),
    "beside": one_of("fp16", "bf16", "fp32"),
    "version_compatible": FLAG,
}
"""TensorRT-RTX has no calibrator, no weak types, and no lean runtime to put into a plan."""

Range = tuple[Shape, Shape, Shape]
"""Smallest, usual and largest."""

_RULES_OF = {"trt": NATIVE_RULES, "trt-rtx": BUILDER_RULES}


@dataclass(frozen=True, slots=True)
class TrtOptions:
    """Options as asked; ``None`` leaves the choice to TensorRT."""

    compute_capability: str | None = None
    workspace_mb: int | None = None
    optimization_level: int | None = None
    max_batch: int | None = None
    opt_batch: int | None = None
    shapes: Mapping[str, Range] = field(default_factory=dict)
    timing_cache: str | None = None
    version_compatible: bool = False
    hardware_compatible: str | None = None
    tf32: bool = False
    native_instancenorm: bool = True
    quantization: str = "explicit"
    beside: str = "fp16"

    @property
    def implicit(self) -> bool:
        """Whether TensorRT finds the ranges itself."""
        return self.quantization == "implicit"


def parse_options(backend: str, options: Iterable[tuple[str, object]]) -> TrtOptions:
    """Turn the options of a mark into `TrtOptions`. Raises `UsageError`."""
    found: dict[str, Any] = checked(backend, options, _RULES_OF.get(backend, RULES))
    if "shapes" in found:
        found["shapes"] = {name: tuple(map(tuple, shapes)) for name, shapes in found["shapes"].items()}
    parsed = TrtOptions(**found)
    if parsed.opt_batch is not None and parsed.max_batch is not None and parsed.opt_batch > parsed.max_batch:
        raise UsageError(
            "opt_batch lies above max_batch",
            value=f"{parsed.opt_batch} above {parsed.max_batch}",
            fix="raise max_batch",
        )
    if not parsed.native_instancenorm and (parsed.version_compatible or parsed.hardware_compatible):
        raise UsageError(
            "a plan for other versions or GPUs cannot hold the InstanceNorm plugin",
            value="native_instancenorm=False",
            fix="drop it, or drop version_compatible and hardware_compatible",
        )
    return parsed
