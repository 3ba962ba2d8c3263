"""From the nodes that ran to a `Coverage`: words for precisions, compute and shares, the same for every runtime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from pytest_quant.result import Coverage, OpCoverage

_FLOAT_NAMES_SHOWN = 10


class Kind(Enum):
    """What a node means for coverage."""

    ASKED = "eligible, in the asked precision"
    OTHER = "eligible, in another precision"
    CONVERSION = "turns float into integers or back"
    OPAQUE = "a product whose precision cannot be seen, or a fused node that may hold some"
    BESIDE = "not compute: no weights, few operations"


_WORDS = {
    "fp64": ("double", "f64"),
    "fp32": ("float", "f32"),
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
    small = word.lower().removeprefix("c10::")
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


@dataclass(frozen=True, slots=True)
class Tallied:
    """One node that ran.

    Attributes
    ----------
    macs : its multiply-accumulates; ``None`` where shapes do not give them.
    stands_for : the operator of the user's model, where `op_type` is the runtime's own; else empty.
    beyond : its operator, where the scheme cannot quantize it; empty where it can.
    """

    name: str
    op_type: str
    kind: Kind
    macs: int | None = None
    stands_for: str = ""
    beyond: str = ""


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
    missed = dict.fromkeys(node.name for node in eligible if node.kind is Kind.OTHER)
    return Coverage(
        pct=100.0 * done / total if total else None,
        unit="MACs" if by_macs else "nodes",
        by_op=(*_rows(eligible), *_rows([node for node in nodes if node.kind is Kind.CONVERSION])),
        provider=provider,
        opaque_nodes=len(opaque),
        float_nodes=tuple(missed)[:_FLOAT_NAMES_SHOWN],
        asked_nodes=tuple(dict.fromkeys(node.name for node in eligible if node.kind is Kind.ASKED)),
        scheme_pct=100.0 * done / within if within else None,
        not_quantizable={name: 100.0 * part / total for name, part in sorted(beyond.items())} if total else {},
        high_pct=100.0 * (done + hidden) / total if total and hidden else None,
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
