"""The layers of a compiled model, as OpenVINO's runtime model lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer that the CPU plugin runs.

    Attributes
    ----------
    kind : the plugin's type of it, ``FullyConnected`` or ``Subgraph`` for example.
    kernel : its implementation, ``brgemm_avx512_i8``; the last word is often what it multiplies in.
    precision : the type that the plugin reports for it.
    origins : names of the operators of the model that became part of it.
    input_types : element types of its inputs, constants among them, in OpenVINO's short words, ``f32`` or ``i8``.
    shapes : those of its inputs and last that of its first output; ``None`` where one is not fixed.
    """

    name: str
    kind: str
    kernel: str
    precision: str
    origins: tuple[str, ...]
    input_types: tuple[str, ...]
    shapes: tuple[Shape, ...] | None


def layers_of(runtime: Any) -> list[Layer]:
    """Return the layers of ``CompiledModel.get_runtime_model()`` in the order they run."""
    return [_layer(node) for node in runtime.get_ordered_ops()]


def _layer(node: Any) -> Layer:
    facts = node.get_rt_info()
    return Layer(
        name=node.get_friendly_name(),
        kind=_text(facts, "layerType"),
        kernel=_text(facts, "primitiveType"),
        precision=_text(facts, "runtimePrecision"),
        origins=tuple(name for name in _text(facts, "originalLayersNames").split(",") if name),
        input_types=tuple(port.get_element_type().get_type_name() for port in node.inputs()),
        shapes=fixed_shapes(node),
    )


def fixed_shapes(node: Any) -> tuple[Shape, ...] | None:
    """Return the shapes of all inputs and of the first output of a node; ``None`` where one is not fixed."""
    ports = [port.get_partial_shape() for port in (*node.inputs(), *node.outputs()[:1])]
    if any(shape.is_dynamic for shape in ports):
        return None
    return tuple(tuple(shape.to_shape()) for shape in ports)


def _text(facts: Any, name: str) -> str:
    return str(facts[name].astype(str)) if name in facts else ""
