"""Builds by ONNX Runtime's TensorRT provider, in a process of their own, and the layers that their log lists.

Opening a session builds the engines where there are none in the provider's folder; what TensorRT says meanwhile goes to
native standard error. A native crash ends that process and no other.

The provider builds without the detailed verbosity (no option of version 1.31 asks for it), so that the inspector of its
engines gives names only. With its option ``trt_detailed_build_log`` TensorRT logs one line for each layer of an engine
that it builds, with the types that the layer reads and writes::

    Layer(CaskConvolution): conv1 + relu1, Tactic: 0x47, x (Int8[1,3:4,64,64]) -> y (Int8[1,32:32,64,64])

The types of a tensor stand in brackets behind its name, directly in versions before 10. A fused layer has the names of
its nodes, joined by ``+``; one that Myelin compiled has the first and the last only, and cannot be seen into.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_quant.backends.apart import TIME_LIMIT_S, ApartError, call_apart
from pytest_quant.backends.onnx_files import read_graph
from pytest_quant.backends.ort.libraries import TENSORRT, find_provider
from pytest_quant.backends.ort.session import Provider, open_session
from pytest_quant.backends.runtime import failed
from pytest_quant.backends.trt.configure import LAYERS_FILE, write_log
from pytest_quant.backends.trt.coverage import Layer, ops_of
from pytest_quant.backends.trt.provider_settings import TABLE_FILE
from pytest_quant.errors import BuildError

CACHED_FILE = "cached.json"
"""Names of the files that the provider is to find beside the model, all of them written by the build."""

_CACHED = ("*.engine", "*.profile", TABLE_FILE)
LISTS_LAYERS = "trt_detailed_build_log"
_NEXT = "backend='trt' takes the graph whole or says what it cannot; pytest-quant doctor tells what is installed"


def build_engines(model: Path, providers: Sequence[Provider], folder: Path, name: str) -> None:
    """Build the engines of a model into the folder that the options of the first provider name.

    Parameters
    ----------
    model : the ONNX file.
    providers : as a session is asked for them, the shapes to build for among their options.
    folder : gets the log, the layers that it lists and the names of what the provider wrote, beside the engines.
    name : of the engine, for errors.

    Raises
    ------
    BuildError : the provider does not load, ONNX Runtime refuses the model, or the process crashed or did not end.
    """
    first, *others = providers
    # It lists the layers; sessions that find the engines built have nothing to log.
    listing = Provider(first.name, {**first.options, LISTS_LAYERS: "1"})
    try:
        _, log = call_apart(open_here, model, [listing, *others], limit_s=TIME_LIMIT_S)
    except ApartError as ended:
        raise failed(
            f"ONNX Runtime's TensorRT provider refused to build {name}"
            if ended.error
            else f"ONNX Runtime's TensorRT provider did not build {name}: it {ended.how}",
            ended.said,
            value=str(ended.error or told_of_build(ended.said)[-600:]) or "it said nothing",
            fix=_NEXT,
        ) from ended
    write_log(folder, told_of_build(log))
    layers = layers_in_summary(log, ops_of(read_graph(model).graph))
    (folder / LAYERS_FILE).write_text(json.dumps(layers), encoding="utf-8")
    cached = sorted(file.name for pattern in _CACHED for file in folder.glob(pattern))
    (folder / CACHED_FILE).write_text(json.dumps(cached), encoding="utf-8")


def open_here(model: Path, providers: Sequence[Provider]) -> None:
    """Load the provider's libraries into this process, which is a new one, and build as a session opens."""
    support = find_provider(TENSORRT)
    if not support.available:
        raise BuildError(support.reason)
    open_session(model, providers)


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
            "name": matched["name"],
            "kind": matched["kind"],
            "input_types": _TYPE.findall(matched["inputs"]),
            "nodes": [node for node, pattern in spelled.items() if pattern.search(matched["name"])],
        }
        for matched in map(_LINE.match, _COLORS.sub("", log).splitlines())
        if matched is not None
    ]


def _spelling(node: str) -> re.Pattern[str]:
    """Return a pattern of the name as a whole; a fusion of ONNX Runtime's appends to it what it fused."""
    return re.compile(rf"(?<![\w./:-]){re.escape(node)}(?:/\w*Fusion\w*)?(?![\w./:-])")


def is_told_of(layers: Sequence[Layer], names: Sequence[str]) -> bool:
    """Tell whether engines whose inspector gives `names` have all `layers` of a log that hold nodes of the graph."""
    node_names = set(names)
    return all(layer.name in node_names for layer in layers if layer.nodes and layer.kind != "Reformat")
