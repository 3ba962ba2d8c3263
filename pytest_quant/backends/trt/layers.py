"""Layers of a TensorRT engine as a profile has them: their precision, and the nodes that they were made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_quant.backends.coverage import precision_of
from pytest_quant.backends.layers import LayerTime, Role
from pytest_quant.backends.trt.coverage import Layer

_QUANTIZING = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
_REFORMATS = ("Reformat", "Shuffle")
"""How types of layers begin that change type or layout only; of a node of the model they are that node's work."""


def layer_times_of(
    layers: Sequence[Layer], ops: Mapping[str, str], spent_ms: Mapping[str, float] | None = None
) -> tuple[LayerTime, ...]:
    """Return the layers of an engine.

    Parameters
    ----------
    layers : as the inspector or the log of the build lists them.
    ops : op type of each node of the ONNX graph, see `pytest_quant.backends.trt.coverage.ops_of`.
    spent_ms : milliseconds of each layer that ran, by its name; ``None`` where nothing ran, and all are returned.
    """
    known = {layer.name: layer for layer in layers}
    names = list(known) if spent_ms is None else list(spent_ms)
    unknown = Layer("", "", (), ())
    return tuple(
        _layer_time(name, known.get(name, unknown), ops, None if spent_ms is None else spent_ms[name]) for name in names
    )


def _layer_time(name: str, layer: Layer, ops: Mapping[str, str], ms: float | None) -> LayerTime:
    nodes = tuple(node for node in dict.fromkeys(layer.nodes) if ops.get(node) not in _QUANTIZING)
    word = layer.input_types[0] if layer.input_types else ""
    return LayerTime(name, layer.kind, precision_of(word), ms, nodes, _role(layer, nodes))


def _role(layer: Layer, nodes: Sequence[str]) -> Role:
    """Return what a layer does; one that was made from Q/DQ nodes alone changes types."""
    if layer.kind.startswith("Reformat") or (not nodes and (layer.nodes or layer.kind.startswith(_REFORMATS))):
        return "reformat"
    return "compute" if nodes else "other"
