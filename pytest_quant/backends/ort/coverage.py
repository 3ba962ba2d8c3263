"""What really ran, in which precision: counted from the profile of one run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.ort.macs import macs_of
from pytest_quant.backends.ort.op_table import ONNX_OPS, kind_of
from pytest_quant.backends.ort.profile import RanNode, read_profile
from pytest_quant.backends.ort.reach import Reach, reach_of
from pytest_quant.backends.ort.refusal import run_refused
from pytest_quant.backends.ort.session import open_session
from pytest_quant.backends.tally import Tallied, tally
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Signature


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
    return count_coverage(nodes, spec.precision, reach_of(spec, path))


def count_coverage(nodes: list[RanNode], precision: str, reach: Reach | None = None) -> Coverage:
    """Return the coverage of the nodes that ran; `reach` is what the scheme can quantize, everything unless given."""
    counted = [
        Tallied(
            node.name,
            node.op_type,
            kind_of(node, precision),
            macs_of(node),
            ONNX_OPS.get(node.op_type, ""),
            "" if reach is None else reach.beyond(node.name, node.op_type),
        )
        for node in nodes
    ]
    return tally(counted, ", ".join(sorted({node.provider for node in nodes})))
