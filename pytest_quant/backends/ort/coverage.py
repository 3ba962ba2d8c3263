"""What really ran, in which precision: counted from the profile of one run."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.ort.macs import macs_of
from pytest_quant.backends.ort.op_table import Kind, kind_of
from pytest_quant.backends.ort.profile import RanNode, read_profile
from pytest_quant.backends.ort.refusal import run_refused
from pytest_quant.backends.ort.session import open_session
from pytest_quant.result import Coverage, OpCoverage
from pytest_quant.spec import EngineSpec, Signature

_FLOAT_NAMES_SHOWN = 10


def measure_coverage(path: Path, spec: EngineSpec, threads: int, feeds: Feeds, signature: Signature) -> Coverage:
    """Run the model in `path` once over `feeds` and return the share of eligible compute in `spec`'s precision.

    Raises
    ------
    DataError : `feeds` do not fit the model.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
        session = open_session(path, threads, profile=Path(folder))
        try:
            session.run(None, feeds)
        except Exception as error:
            raise run_refused(error, feeds, signature, f"a profiled run of {spec.id}") from error
        nodes = read_profile(Path(session.end_profiling()))
    return count_coverage(nodes, spec.precision)


def count_coverage(nodes: list[RanNode], precision: str) -> Coverage:
    """Return the coverage of the nodes that ran: by MACs when they are known for all eligible ones, else by count."""
    kinds = [kind_of(node, precision) for node in nodes]
    eligible = [(node, kind) for node, kind in zip(nodes, kinds, strict=True) if kind in (Kind.ASKED, Kind.OTHER)]
    macs = {id(node): macs_of(node) for node, _ in eligible}
    known = [value for value in macs.values() if value is not None]
    by_macs = len(known) == len(eligible) and sum(known) > 0
    weights = [(macs[id(node)] or 0) if by_macs else 1 for node, _ in eligible]
    total = sum(weights)
    done = sum(weight for weight, (_, kind) in zip(weights, eligible, strict=True) if kind is Kind.ASKED)
    beside = [node for node, kind in zip(nodes, kinds, strict=True) if kind is Kind.CONVERSION]
    missed = dict.fromkeys(node.name for node, kind in eligible if kind is Kind.OTHER)
    return Coverage(
        pct=100.0 * done / total if total else None,
        unit="MACs" if by_macs else "nodes",
        by_op=(*_rows(eligible, macs), *_rows([(node, Kind.CONVERSION) for node in beside], {})),
        provider=", ".join(sorted({node.provider for node in nodes})),
        opaque_nodes=sum(kind is Kind.OPAQUE for kind in kinds),
        float_nodes=tuple(missed)[:_FLOAT_NAMES_SHOWN],
    )


def _rows(nodes: Sequence[tuple[RanNode, Kind]], macs: dict[int, int | None]) -> list[OpCoverage]:
    """One row for each op type, the most compute first."""
    by_type: dict[str, list[tuple[RanNode, Kind]]] = defaultdict(list)
    for node, kind in nodes:
        by_type[node.op_type].append((node, kind))
    rows = []
    for op_type, members in by_type.items():
        found = [macs.get(id(node)) for node, _ in members]
        total = None if None in found else sum(value or 0 for value in found)
        asked = [node for node, kind in members if kind is Kind.ASKED]
        rows.append(
            OpCoverage(
                op_type=op_type,
                nodes=len(members),
                quantized_nodes=len(asked),
                macs=total,
                quantized_macs=None if total is None else sum(macs[id(node)] or 0 for node in asked),
            )
        )
    return sorted(rows, key=lambda row: (-(row.macs or 0), -row.nodes, row.op_type))
