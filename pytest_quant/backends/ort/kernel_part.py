"""The first part of a Q/DQ graph whose kernels compute something else than float does, kept to be run again."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from pytest_quant.backends.feeds import Feeds
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.macs import FLOAT_OPS
from pytest_quant.backends.ort.rounded_tensors import find_pairs, made_by
from pytest_quant.backends.ort.session import open_seen
from pytest_quant.errors import BuildError
from pytest_quant.files import temporary_folder
from pytest_quant.spec import EngineSpec

_REPLAY = Path(__file__).with_name("replay.py.txt")
"""Runs a part by both ways, without this package."""


def keep_part(spec: EngineSpec, engine: Path, feeds: Feeds, folder: Path) -> str:
    """Write the part, its inputs and a script that runs both into `folder`; return the tensor that it rounds.

    A part reaches from some rounded tensors to the next one. It is the first, in the order of the graph, whose kernels
    are further from the same part in float than rounding its result is; the text is empty where none is.

    Parameters
    ----------
    spec : of the engine; there are parts where pairs lie around activations.
    engine : its folder.
    feeds : one batch of it.
    """
    model = onnx.load(engine_file(spec, engine))
    pairs = [pair for pair in find_pairs(model, ())[0] if not pair.is_weight]
    reals, ends = {pair.real for pair in pairs}, {pair.rounded[0] for pair in pairs}
    with temporary_folder() as work:
        values = {**feeds, **_run(model, (reals | ends) - feeds.keys(), feeds, work, simulates=True)}
        for pair in pairs:
            real, rounded = (values[name].astype(np.float64) for name in (pair.real, pair.rounded[0]))
            given = {name: values[name] for name in {*reals, *feeds} - {pair.real}}
            part = _cut(model, pair.rounded[0], given)
            given = {each.name: values[each.name] for each in part.graph.input}
            found = None
            if any(node.op_type in FLOAT_OPS for node in part.graph.node):
                # What cannot stand alone, a body that reads tensors around it for example, is left out.
                with suppress(BuildError):
                    found = _run(part, pair.rounded[:1], given, work)[pair.rounded[0]]
            if found is not None and np.sum((found - rounded) ** 2) > np.sum((rounded - real) ** 2):
                onnx.save_model(part, folder / "part.onnx")
                np.savez(folder / "inputs.npz", *given.values())
                shutil.copyfile(_REPLAY, folder / "replay.py")
                return pair.real
    return ""


def _run(
    model: onnx.ModelProto, names: Collection[str], feeds: Feeds, work: Path, *, simulates: bool = False
) -> Mapping[str, NDArray[Any]]:
    """Return these tensors of a run."""
    session = open_seen(model, names, work / "seen.onnx", simulates=simulates)
    return dict(zip(names, session.run([*names], dict(feeds)), strict=True))


def _cut(model: onnx.ModelProto, output: str, known: Feeds) -> onnx.ModelProto:
    """Return what gives one tensor from the nearest that are `known`."""
    makers, waiting = made_by(model.graph), [output]
    inputs, needed = set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in known:
            inputs.add(name)
        elif name not in needed:
            needed.add(name)
            waiting += makers[name].input if name in makers else ()
    nodes = [node for node in model.graph.node if not needed.isdisjoint(node.output)]
    held = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    types = {name: helper.np_dtype_to_tensor_dtype(known[name].dtype) for name in sorted(inputs)}
    starts = [helper.make_tensor_value_info(*each, None) for each in types.items()]
    graph = helper.make_graph(nodes, "part", starts, [onnx.ValueInfoProto(name=output)], held)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
