"""Where the time of one run goes: the layers that a runtime ran, each traced to nodes of the user's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from pytest_quant.backends.base import Feeds

Role: TypeAlias = Literal["compute", "reformat", "copy", "other"]
"""``compute``: nodes of the model. ``reformat``: another type or layout of the same values. ``copy``: between devices.
``other``: the runtime's own, or a layer that cannot be traced to a node."""

MIN_RUNS = 10
"""Fewest runs, after warm ones, that the time of a layer is the median of."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer of an engine.

    Attributes
    ----------
    name : as the runtime spells it.
    op : its operator or type, in the runtime's words.
    precision : what it computed in, ``fp32`` or ``int8`` for example; empty where the runtime does not tell.
    ms : median milliseconds over `MIN_RUNS` warm runs or more; ``None`` where it was not measured.
    nodes : names of the nodes of the ONNX graph that became part of it, in the order of the graph; those that only
        quantize or dequantize are left out, because a float model has no counterpart of them.
    role : see `Role`.
    """

    name: str
    op: str
    precision: str
    ms: float | None
    nodes: tuple[str, ...] = ()
    role: Role = "compute"


@runtime_checkable
class LayerTimed(Protocol):
    """An engine that can tell the time of each of its layers, measured on what is timed: same kernels, same layouts."""

    def layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return the layers of one run over `feeds` in the order they run. Raises as `run` does."""


def node_name(name: str, outputs: tuple[str, ...]) -> str:
    """Return what a node of an ONNX graph is called here: its name, or as TensorRT's parser calls it without one."""
    return name or f"node_of_{outputs[0] if outputs else ''}"
