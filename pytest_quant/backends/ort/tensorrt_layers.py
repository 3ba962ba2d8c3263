"""The layers of engines that ONNX Runtime's TensorRT provider built, as far as they can be known.

The provider builds without the detailed verbosity (no option of version 1.31 asks for it), so that the inspector of its
engines gives names only. With its option ``trt_detailed_build_log`` TensorRT logs one line for each layer of an engine
that it builds, with the types that the layer reads and writes::

    Layer(CaskConvolution): conv1 + relu1, Tactic: 0x47, x (Int8[1,3:4,64,64]) -> y (Int8[1,32:32,64,64])

The types of a tensor stand in brackets behind its name, directly in versions before 10. A fused layer has the names of
its nodes, joined by ``+``; one that Myelin compiled has the first and the last only, and cannot be seen into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_quant.backends.trt.coverage import Layer

_LINE = re.compile(
    r"^Layer\((?P<kind>[^)]*)\): (?P<name>.+?), Tactic: (?P<tactic>[^,]*), (?P<inputs>.*?) ?-> (?P<outputs>.*)$"
)
_TYPE = re.compile(r"[\[(](Float|Half|BFloat16|Int8|Int4|FP8|UInt8|Int32|Int64|Bool)[\[(]")
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_VERBOSE = " UNKNOWN] "
"""How the provider marks a line of TensorRT's verbose log, for whose severity it has no word."""


def told_of_build(log: str) -> str:
    """Return the log of a build without colors and without what only TensorRT's developers read; layers stay."""
    plain = _COLORS.sub("", log)
    return "".join(f"{line}\n" for line in plain.splitlines() if _VERBOSE not in line)


def layers_in_summary(log: str, nodes: Iterable[str]) -> list[dict[str, Any]]:
    """Return every layer that the log of a build lists, in the JSON form of a `Layer`.

    Parameters
    ----------
    log : of one build or of several, one after another.
    nodes : names of the nodes of the graph, which are looked for in the names of layers.
    """
    spelled = {node: _spelling(node) for node in nodes if node}
    return [
        {
            "name": found["name"],
            "kind": found["kind"],
            "input_types": _TYPE.findall(found["inputs"]),
            "nodes": [node for node, pattern in spelled.items() if pattern.search(found["name"])],
        }
        for found in map(_LINE.match, _COLORS.sub("", log).splitlines())
        if found is not None
    ]


def _spelling(node: str) -> re.Pattern[str]:
    """Return a pattern of the name as a whole; a fusion of ONNX Runtime's appends to it what it fused."""
    return re.compile(rf"(?<![\w./:-]){re.escape(node)}(?:/\w*Fusion\w*)?(?![\w./:-])")


def is_told_of(layers: Sequence[Layer], names: Sequence[str]) -> bool:
    """Tell whether engines whose inspector gives `names` have all `layers` of a log that hold nodes of the graph."""
    known = set(names)
    return all(layer.name in known for layer in layers if layer.nodes and layer.kind != "Reformat")
