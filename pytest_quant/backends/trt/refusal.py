"""Why TensorRT refused a model, by its own words, and what to do about that."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_quant.backends.trt.options import Range

SHAPE_INPUT = "the values of an input decide shapes, and nothing tells which values to expect: input"
"""How the building process begins to say so; the name follows in quotes."""

_VALUES = re.compile(re.escape(SHAPE_INPUT) + r" '(?P<name>.*)'")
_NO_OPERATOR = re.compile(r"Plugin not found|No importer registered|UNSUPPORTED_NODE", re.IGNORECASE)
_SHAPES = re.compile(
    r"optimization profile|profile \d|shape constraint|shapeMachine|dimension|reshap|shape error", re.IGNORECASE
)
_QUANTIZED = re.compile(r"quantiz|zero.?point|\bscale\b|int8|fp8|int4", re.IGNORECASE)


def next_step(said: str, shapes: Mapping[str, Range]) -> str:
    """Return what to do about a refusal.

    Parameters
    ----------
    said : what TensorRT said.
    shapes : smallest, usual and largest shape of each input with free axes, as asked for.
    """
    values = _VALUES.search(said)
    if values is not None:
        return (
            f"write smallest, usual and largest values: options={{'shapes': {{'{values['name']}': "
            "[smallest, usual, largest]}}, each a list of ints"
        )
    if _SHAPES.search(said) and not _NO_OPERATOR.search(said):
        return _about_shapes(shapes)
    if _QUANTIZED.search(said) and not _NO_OPERATOR.search(said):
        return "leave the node in float with exclude=[...], or quantize it in another scheme"
    return "export the model with operators that TensorRT has, or use another backend"


def _about_shapes(shapes: Mapping[str, Range]) -> str:
    if not shapes:
        return "no input has a free axis, so the model itself has shapes that do not fit: export it again"
    asked = "; ".join(f"'{name}' from {low} to {high}, usually {usual}" for name, (low, usual, high) in shapes.items())
    return (
        f"it was to be built for {asked}: give data of sizes that the network takes, or write them, "
        "options={'shapes': {" + ", ".join(f"'{name}': [smallest, usual, largest]" for name in shapes) + "}}"
    )
