"""The time of each layer in ONNX Runtime, from its profiler, in a session with the kernels of one that is timed."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.coverage import precision_of
from pytest_quant.backends.layers import LayerTime, Role, medians, warm_runs
from pytest_quant.backends.onnx_files import normalized
from pytest_quant.backends.ort.lineage import trace
from pytest_quant.backends.ort.macs import INT8_OPS, NARROW_OPS
from pytest_quant.backends.ort.session import OPTIMIZED_FILE, Provider, open_session, refused

_SUFFIX = "_kernel_time"
_MS_PER_US = 1e-3


@dataclass(frozen=True, slots=True)
class Event:
    """One execution of one node, by the profiler; `dtype` of its first input, as ONNX Runtime spells it."""

    name: str
    op: str
    dtype: str
    start_us: int
    spent_us: int


def read_runs(text: str) -> list[list[Event]]:
    """Return the events of each run in a profile, both in the order of time.

    Nodes inside the body of a loop or a branch are left out: the node around them has their time.
    """
    rows = [row for row in json.loads(text) if row.get("dur") is not None]
    spans = sorted((row["ts"], row["ts"] + row["dur"]) for row in rows if row["name"] == "model_run")
    events = sorted(
        (_event(row) for row in rows if row.get("cat") == "Node" and row["name"].endswith(_SUFFIX)),
        key=lambda event: (event.start_us, -event.spent_us),
    )
    return [_outermost([event for event in events if start <= event.start_us <= end]) for start, end in spans]


_CONTAINERS = frozenset({"If", "Loop", "Scan"})


def _event(row: Mapping[str, Any]) -> Event:
    facts = row["args"]
    first: Mapping[str, object] = next(iter(facts.get("input_type_shape", [])), {})
    name = row["name"].removesuffix(_SUFFIX)
    return Event(name, facts["op_name"], next(iter(first), ""), row["ts"], row["dur"])


def _outermost(events: Sequence[Event]) -> list[Event]:
    found: list[Event] = []
    until_us = -1
    for event in events:
        if event.start_us >= until_us:
            found.append(event)
            if event.op in _CONTAINERS:
                until_us = event.start_us + event.spent_us
    return found


def layers_of(runs: Sequence[Sequence[Event]], traced: Mapping[str, tuple[tuple[str, ...], Role]]) -> list[LayerTime]:
    """Return each node once, in the order they run, with the median over `runs` of its time in each.

    Parameters
    ----------
    runs : see `read_runs`; one at least.
    traced : nodes of the user's model and the role, by the name of an optimized node.
    """
    totals: list[Counter[str]] = []
    for run in runs:
        spent: Counter[str] = Counter()
        for event in run:
            spent[event.name] += event.spent_us
        totals.append(spent)
    firsts = {event.name: event for run in reversed(runs) for event in reversed(run)}
    found = []
    for name, spent_us in medians(totals).items():
        nodes, role = traced.get(name, ((), "other"))
        event = firsts[name]
        found.append(LayerTime(name, event.op, _precision(event), _MS_PER_US * spent_us, nodes, role))
    return found


def _precision(event: Event) -> str:
    if event.op in INT8_OPS:
        return "int8"
    return "int4" if event.op in NARROW_OPS else precision_of(event.dtype)


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
    optimized: onnx.GraphProto, run: Sequence[Event], engine: Path, model: Path
) -> dict[str, tuple[tuple[str, ...], Role]]:
    opened = onnx.load(engine, load_external_data=False)
    known = normalized(onnx.load(model, load_external_data=False))
    found: dict[str, tuple[tuple[str, ...], Role]] = {}
    # Names need not be unique; what the profiler counts as one layer stands for the nodes of all that have its name.
    for name, (nodes, role) in zip(
        names_in_profile(optimized, run), trace(optimized, opened.graph, known.graph), strict=True
    ):
        found[name] = (tuple(dict.fromkeys((*found.get(name, ((), role))[0], *nodes))), role)
    return found


def names_in_profile(optimized: onnx.GraphProto, run: Sequence[Event]) -> list[str]:
    """Return the name that each node of `optimized` has in the profile; empty where that is not clear.

    The profiler calls a node without a name by its operator and a number that no file holds: ``Conv_12``. Those of one
    operator come in the order of the graph.
    """
    named = {node.name for node in optimized.node}
    nameless: dict[str, list[str]] = defaultdict(list)
    for event in run:
        if event.name not in named and event.name not in nameless[event.op]:
            nameless[event.op].append(event.name)
    for op, names in nameless.items():
        if len(names) != sum(not node.name and node.op_type == op for node in optimized.node):
            names.clear()
    return [node.name or (nameless[node.op_type].pop(0) if nameless[node.op_type] else "") for node in optimized.node]
