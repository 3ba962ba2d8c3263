"""The nodes that really ran, and their precision: counted from the profile of one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from pytest_quant.backends.coverage import Tallied, tally
from pytest_quant.backends.ort.macs import FLOAT_OPS, ONNX_OPS, RanNode, kind_of, macs_of
from pytest_quant.backends.ort.recipe import DYNAMIC, recipe_of
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

_BETWEEN = " between activations"


@dataclass(frozen=True, slots=True)
class Reach:
    """The products that a scheme can quantize.

    Attributes
    ----------
    op_types : operators by their names in the user's model; ``None`` for all.
    weightless : names of the products that have no weights, both of whose operands are computed.
    """

    op_types: frozenset[str] | None
    weightless: frozenset[str]

    def beyond(self, name: str, op_type: str) -> str:
        """Return the operator of a node that the scheme cannot quantize, for reports; empty for one that it can.

        A node of the optimized graph keeps its name, or has one that begins with it.
        """
        operator = ONNX_OPS.get(op_type, op_type)
        if any(name == one or name.startswith(f"{one}/") for one in self.weightless):
            return operator + _BETWEEN
        return "" if self.op_types is None or operator in self.op_types else operator


def reach_of(spec: EngineSpec, path: Path) -> Reach | None:
    """Return the products in the model `path` that the scheme of `spec` can quantize; ``None`` where it takes all."""
    if spec.scheme not in ("dynamic", "weight-only"):
        return None
    graph = onnx.load(path, load_external_data=False).graph
    weightless = frozenset(_weightless(graph))
    if spec.scheme == "weight-only":
        return Reach(frozenset({"Gemm", "MatMul"}), weightless)
    asked = recipe_of(spec).op_types
    return Reach(None if asked is None else frozenset({*asked, *DYNAMIC, "Gemm"}), weightless)


def _weightless(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of products none of whose operands is a constant, the products inside bodies included."""
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" or (node.input and constants.issuperset(name for name in node.input if name)):
            constants.update(node.output)
        elif node.op_type in FLOAT_OPS and constants.isdisjoint(node.input[:2]) and node.name:
            yield node.name
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _weightless(attribute.g)


def count_coverage(nodes: list[RanNode], precision: str, reach: Reach | None = None) -> Coverage:
    """Return the coverage of the nodes that ran.

    Parameters
    ----------
    nodes : from the profile of one run, see `read_profile`.
    precision : the one asked for, ``fp32``, ``int8`` or ``int4``.
    reach : the products that the scheme can quantize, see `reach_of`; ``None`` for all.
    """
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
