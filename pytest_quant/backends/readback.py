"""What runtimes report of a run, in the same words: precisions and compute of nodes, and the time of layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from statistics import median
from typing import Literal, TypeAlias, TypeVar

from pytest_quant.clocks import REAL
from pytest_quant.result import Coverage, DeviceTimes, OpCoverage


class Kind(Enum):
    """What a node means for coverage."""

    ASKED = "eligible, in the asked precision"
    OTHER = "eligible, in another precision"
    CONVERSION = "turns float into integers or back"
    OPAQUE = "a product whose precision cannot be seen, or a fused node that may hold some"
    BESIDE = "not compute: no weights, few operations"


_WORDS = {
    "fp64": ("double", "float64", "f64"),
    "fp32": ("float", "float32", "f32"),
    "fp16": ("half", "float16", "f16"),
    "bf16": ("bfloat16",),
    "int8": ("i8", "uint8", "u8"),
    "int4": ("i4", "uint4", "u4"),
}
"""What runtimes call a precision, in small letters, beside our own word for it."""

_PRECISIONS = {word: precision for precision, words in _WORDS.items() for word in words}

FLOATS = frozenset({"fp64", "fp32", "fp16", "bf16"})


def precision_of(word: str) -> str:
    """Return the precision that a runtime calls `word`, ``fp32`` for ``Float``; else `word` in small letters."""
    small = word.lower().removeprefix("torch.")
    return _PRECISIONS.get(small, small)


def product_kind(word: str, precision: str) -> Kind:
    """Return how a product counts in the coverage of an engine.

    Parameters
    ----------
    word : what it computed in, as the runtime spells it. A product of other integers than bytes, token numbers for
        example, is no compute of the network.
    precision : the one asked for, ``fp32`` or ``int8`` for example.
    """
    computed_in = precision_of(word)
    if computed_in not in FLOATS | {"int8"}:
        return Kind.BESIDE
    return Kind.ASKED if computed_in == precision else Kind.OTHER


# Of an engine that is asked for int8.
FOUR_BITS = "weights of this model have four bits: precision='int4' judges it as that"

Shape = tuple[int, ...]


def convolution_macs(elements: Shape, weights: Shape, leading: int = 1) -> int:
    """Return the multiply-accumulates of a convolution: each element takes one for each weight of its channel.

    Parameters
    ----------
    elements : shape of its output, or of its input where it is a transposed one.
    weights : shape of its weights.
    leading : how many first axes of `weights` count groups and channels of `elements`.
    """
    return prod(elements) * prod(weights[leading:])


def matrix_macs(first: Shape, output: Shape) -> int:
    """Return the multiply-accumulates of a product of matrices or vectors: K for each element of the output.

    Either matrix may be transposed: the first one holds M x K elements.
    """
    if len(first) == 1 or len(output) < len(first):
        return prod(output) * first[-1]
    return prod(output) * prod(first[-2:]) // max(1, output[-2])


def recurrent_macs(sequence: Shape, weights: Shape, recurrence: Shape) -> int:
    """Return the multiply-accumulates of a recurrent cell: all its weights, for each step of each sample."""
    return prod(sequence[:-1]) * (prod(weights) + prod(recurrence))


def attention_macs(queries: Shape, keys: Shape, values: Shape) -> int:
    """Return the multiply-accumulates of an attention: each query with each key, and the scores with the values.

    Parameters
    ----------
    queries, keys, values : shapes, whose last two axes are tokens and width; a mask leaves nothing out.
    """
    return prod(queries[:-1]) * keys[-2] * (queries[-1] + values[-1])


@dataclass(frozen=True, slots=True)
class Tallied:
    """One node that ran.

    Attributes
    ----------
    macs : its multiply-accumulates; ``None`` where shapes do not give them.
    stands_for : the operator of the user's model, where `op_type` is the runtime's own; else empty.
    beyond : its operator, where the scheme cannot quantize it; empty where it can.
    holds : its weights are stored in the asked precision, whatever it computes in.
    in_int8 : it multiplies integers of eight bits, whatever is asked.
    """

    name: str
    op_type: str
    kind: Kind
    macs: int | None = None
    stands_for: str = ""
    beyond: str = ""
    holds: bool = False
    in_int8: bool = False


def tally(nodes: Sequence[Tallied], provider: str) -> Coverage:
    """Return the share of eligible compute that is ASKED: by MACs when all of it has them, else by count.

    OPAQUE nodes are part of the compute, and none of them is ASKED at least, and each at most.
    """
    eligible = [node for node in nodes if node.kind in (Kind.ASKED, Kind.OTHER)]
    opaque = [node for node in nodes if node.kind is Kind.OPAQUE]
    counted = [node.macs for node in (*eligible, *opaque) if node.macs is not None]
    by_macs = len(counted) == len(eligible) + len(opaque) and sum(counted) > 0
    weights = {id(node): (node.macs or 0) if by_macs else 1 for node in (*eligible, *opaque)}
    hidden = sum(weights[id(node)] for node in opaque)
    total = sum(weights[id(node)] for node in eligible) + hidden if eligible else 0
    done = sum(weights[id(node)] for node in eligible if node.kind is Kind.ASKED)
    beyond: dict[str, int] = defaultdict(int)
    for node in eligible:
        if node.beyond and node.kind is Kind.OTHER:
            beyond[node.beyond] += weights[id(node)]
    within = total - sum(beyond.values())
    held = sum(weights[id(node)] for node in eligible if node.holds and node.kind is Kind.OTHER)
    in_int8 = sum(weights[id(node)] for node in eligible if node.in_int8 and node.kind is Kind.OTHER)
    missed = dict.fromkeys(node.name for node in eligible if node.kind is Kind.OTHER)
    return Coverage(
        pct=100.0 * done / total if total else None,
        unit="MACs" if by_macs else "nodes",
        by_op=(*_rows(eligible), *_rows([node for node in nodes if node.kind is Kind.CONVERSION])),
        provider=provider,
        opaque_nodes=len(opaque),
        float_nodes=tuple(missed)[:10],
        asked_nodes=tuple(dict.fromkeys(node.name for node in eligible if node.kind is Kind.ASKED)),
        scheme_pct=100.0 * done / within if within else None,
        not_quantizable={name: 100.0 * part / total for name, part in sorted(beyond.items())} if total else {},
        high_pct=100.0 * (done + hidden) / total if total and hidden else None,
        weights_pct=100.0 * held / total if held else None,
        int8_pct=100.0 * in_int8 / total if in_int8 else None,
    )


def _rows(nodes: Sequence[Tallied]) -> list[OpCoverage]:
    """One row for each op type, the most compute first."""
    by_type: dict[str, list[Tallied]] = defaultdict(list)
    for node in nodes:
        by_type[node.op_type].append(node)
    rows = []
    for op_type, members in by_type.items():
        all_counted = all(node.macs is not None for node in members)
        done = [node for node in members if node.kind is Kind.ASKED]
        rows.append(
            OpCoverage(
                op_type=op_type,
                nodes=len(members),
                quantized_nodes=len(done),
                macs=sum(node.macs or 0 for node in members) if all_counted else None,
                quantized_macs=sum(node.macs or 0 for node in done) if all_counted else None,
                stands_for=members[0].stands_for,
            )
        )
    return sorted(rows, key=lambda row: (-(row.macs or 0), -row.nodes, row.op_type))


Role: TypeAlias = Literal["compute", "reformat", "copy", "other"]
"""``compute``: nodes of the model. ``reformat``: another type or layout of the same values. ``copy``: between devices.
``other``: the runtime's own, or a layer that cannot be traced to a node."""

MIN_RUNS = 10
"""Fewest runs, after warm ones, that the time of a layer is the median of."""

_WARM_RUNS = 3
_TIMED_RUNS = 21
_MAX_RUNS = 100
_ENOUGH_S = 1.0
"""Runs go on to `_MAX_RUNS` for at most so long: many profilers count whole microseconds, and short layers have few."""

Told = TypeVar("Told")


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


def warm_runs(run: Callable[[], Told]) -> list[Told]:
    """Call `run` until the engine is warm, then `MIN_RUNS` times or more, and return the results of these calls."""
    for _ in range(_WARM_RUNS):
        run()
    until_s = REAL.perf_counter() + _ENOUGH_S
    runs: list[Told] = []
    while len(runs) < MIN_RUNS or (len(runs) < _MAX_RUNS and REAL.perf_counter() < until_s):
        runs.append(run())
    return runs


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median time of each layer by its name, in the order they run.

    A layer that a run does not tell took no time in it: a branch was not taken, or the profiler counts too coarsely.
    """
    names = dict.fromkeys(name for run in sorted(runs, key=len, reverse=True) for name in run)
    return {name: median(run.get(name, 0.0) for run in runs) for name in names}


def device_times(
    copy_in: Callable[[], object],
    start: Callable[[], object],
    copy_out: Callable[[], object],
    *,
    wait: Callable[[], object],
    time_ms: Callable[[Callable[[], object]], float],
    pinned: bool,
) -> DeviceTimes:
    """Take one run apart: copies and compute by the clock of the device, the way to it by the clock of the host.

    Parameters
    ----------
    copy_in, start, copy_out : put the copies of all inputs, one run over them, and the copies of all outputs into the
        engine's stream.
    wait : waits until all of that is done.
    time_ms : milliseconds that the device takes for what a function puts into the stream.
    pinned : see `DeviceTimes`.
    """
    rows = []
    for _ in range(_WARM_RUNS + _TIMED_RUNS):
        h2d_ms = time_ms(copy_in)
        began_ns = REAL.perf_counter_ns()
        start()
        started_ns = REAL.perf_counter_ns()
        wait()
        ended_ns = REAL.perf_counter_ns()
        rows.append((h2d_ms, time_ms(start), time_ms(copy_out), ended_ns - began_ns, started_ns - began_ns))
    h2d_ms, gpu_ms, d2h_ms, host_ns, enqueue_ns = (median(column) for column in zip(*rows[_WARM_RUNS:], strict=True))
    host_ms, enqueue_ms = host_ns * 1e-6, enqueue_ns * 1e-6
    return DeviceTimes(_TIMED_RUNS, gpu_ms, h2d_ms, d2h_ms, host_ms, pinned=pinned, enqueue_ms=enqueue_ms)
