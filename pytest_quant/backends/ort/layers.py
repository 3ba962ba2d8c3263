"""The time of each layer in ONNX Runtime, from its profiler, in a session with the kernels of one that is timed."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files.lineage import trace
from pytest_quant.backends.onnx_files.normalize import normalized
from pytest_quant.backends.ort.macs import INT8_OPS, NARROW_OPS, RanNode, nodes_in
from pytest_quant.backends.ort.session import OPTIMIZED_FILE, Provider, open_session, refused
from pytest_quant.backends.readback import LayerTime, Role, medians, precision_of, warm_runs

_MS_PER_US = 1e-3


def read_runs(text: str) -> list[list[RanNode]]:
    """Return the nodes of each run in a profile, both in the order of time.

    Nodes inside the body of a loop or a branch are left out: the node around them has their time.
    """
    rows = [row for row in json.loads(text) if row.get("dur") is not None]
    spans = sorted((row["ts"], row["ts"] + row["dur"]) for row in rows if row["name"] == "model_run")
    nodes = sorted(nodes_in(rows), key=lambda node: (node.start_us, -node.spent_us))
    return [_outermost([node for node in nodes if start <= node.start_us <= end]) for start, end in spans]


_CONTAINERS = frozenset({"If", "Loop", "Scan"})


def _outermost(nodes: Sequence[RanNode]) -> list[RanNode]:
    outer: list[RanNode] = []
    until_us = -1
    for node in nodes:
        if node.start_us >= until_us:
            outer.append(node)
            if node.op_type in _CONTAINERS:
                until_us = node.start_us + node.spent_us
    return outer


def layers_of(runs: Sequence[Sequence[RanNode]], traced: Mapping[str, tuple[tuple[str, ...], Role]]) -> list[LayerTime]:
    """Return each node once, in the order they run, with the median over `runs` of its time in each.

    Parameters
    ----------
    runs : see `read_runs`; one at least.
    traced : nodes of the user's model and the role, by the name of an optimized node.
    """
    totals: list[Counter[str]] = []
    for run in runs:
        spent: Counter[str] = Counter()
        for node in run:
            spent[node.name] += node.spent_us
        totals.append(spent)
    firsts = {node.name: node for run in reversed(runs) for node in reversed(run)}
    layers = []
    for name, spent_us in medians(totals).items():
        nodes, role = traced.get(name, ((), "other"))
        first = firsts[name]
        layers.append(LayerTime(name, first.op_type, _precision(first), _MS_PER_US * spent_us, nodes, role))
    return layers


def _precision(node: RanNode) -> str:
    if node.op_type in INT8_OPS:
        return "int8"
    return "int4" if node.op_type in NARROW_OPS else precision_of(node.inputs[0].dtype if node.inputs else "")


def time_layers(
    engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds, *, threads: int | None = None
) -> tuple[LayerTime, ...]:
    """Run a model again and again in a session of its own and return the median time of each of its nodes.

    Parameters
    ----------
    engine : the ONNX file to run.
    model : the user's ONNX file, whose nodes are the source of those in `engine`.
    providers, threads : see `open_session`.
    feeds : one batch.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model or a run.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
        session, _ = open_session(engine, providers, threads=threads, trace=Path(folder))
        try:
            count = len(warm_runs(partial(session.run, None, feeds)))
        except Exception as error:
            raise refused(f"a profiled run of {engine.name}", error) from error
        runs = read_runs(Path(session.end_profiling()).read_text(encoding="utf-8"))[-count:]
        optimized = Path(folder) / OPTIMIZED_FILE
        graph = onnx.load(optimized, load_external_data=False).graph if optimized.is_file() else None
    traced = {} if graph is None else _traced(graph, runs[-1], engine, model)
    return tuple(layers_of(runs, traced))


def _traced(
    optimized: onnx.GraphProto, run: Sequence[RanNode], engine: Path, model: Path
) -> dict[str, tuple[tuple[str, ...], Role]]:
    opened = onnx.load(engine, load_external_data=False)
    theirs = normalized(onnx.load(model, load_external_data=False))
    roles: dict[str, tuple[tuple[str, ...], Role]] = {}
    # Names need not be unique; what the profiler counts as one layer stands for the nodes of all that have its name.
    for name, (nodes, role) in zip(
        names_in_profile(optimized, run), trace(optimized, opened.graph, theirs.graph), strict=True
    ):
        roles[name] = (tuple(dict.fromkeys((*roles.get(name, ((), role))[0], *nodes))), role)
    return roles


def names_in_profile(optimized: onnx.GraphProto, run: Sequence[RanNode]) -> list[str]:
    """Return the name that each node of `optimized` has in the profile; empty where that is not clear.

    The profiler calls a node without a name by its operator and a number that no file holds: ``Conv_12``. Those of one
    operator come in the order of the graph.
    """
    named = {node.name for node in optimized.node}
    nameless: dict[str, list[str]] = defaultdict(list)
    for ran in run:
        if ran.name not in named and ran.name not in nameless[ran.op_type]:
            nameless[ran.op_type].append(ran.name)
    for op, names in nameless.items():
        if len(names) != sum(not node.name and node.op_type == op for node in optimized.node):
            names.clear()
    return [node.name or (nameless[node.op_type].pop(0) if nameless[node.op_type] else "") for node in optimized.node]
