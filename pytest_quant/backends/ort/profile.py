"""Reads the nodes of one run out of ONNX Runtime's profile."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_SUFFIX = "_kernel_time"


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor that a node read or wrote; `dtype` as ONNX Runtime spells it, for example ``uint8``."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RanNode:
    """One execution of one node. Absent optional operands are not listed."""

    name: str
    op_type: str
    provider: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


def read_profile(file: Path) -> list[RanNode]:
    """Return the nodes in the order they ran; the body of a loop comes once for each turn."""
    events = json.loads(file.read_text(encoding="utf-8"))
    return [
        RanNode(
            name=event["name"].removesuffix(_SUFFIX),
            op_type=event["args"]["op_name"],
            provider=event["args"]["provider"],
            inputs=_operands(event["args"].get("input_type_shape", [])),
            outputs=_operands(event["args"].get("output_type_shape", [])),
        )
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX)
    ]


def _operands(entries: list[dict[str, list[int]]]) -> tuple[Operand, ...]:
    return tuple(Operand(dtype, tuple(shape)) for entry in entries for dtype, shape in entry.items())
