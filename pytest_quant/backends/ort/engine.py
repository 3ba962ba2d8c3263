"""One open session, and what a check asks of it: also which nodes really ran in which precision, by their profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.onnx_files import model_file, read_signature, size_bytes
from pytest_quant.backends.onnx_files.graphs import constant_names
from pytest_quant.backends.onnx_files.lineage import excluded_among
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.layers import time_layers
from pytest_quant.backends.ort.macs import FLOAT_OPS, ONNX_OPS, RanNode, kind_of, macs_of, read_profile
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.backends.ort.recipe import DYNAMIC, recipe_of
from pytest_quant.backends.ort.session import ON_CPU, Provider, new_run_options, open_session, profiled, refused
from pytest_quant.backends.readback import LayerTime, Tallied, tally
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
        if any(name == node or name.startswith(f"{node}/") for node in self.weightless):
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
    op_types = recipe_of(spec).op_types
    return Reach(None if op_types is None else frozenset({*op_types, *DYNAMIC, "Gemm"}), weightless)


def _weightless(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of products none of whose operands is a constant, the products inside bodies included."""
    constants = constant_names(graph)
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


def open_engine(spec: EngineSpec, folder: Path) -> OrtEngine:
    """Open the engine that `build` wrote on the CPU. Raises `BuildError` or `ModelError`."""
    threads = parse_options(spec.options).threads
    return OrtEngine(spec, engine_file(spec, folder), threads=threads, notes=recipe_of(spec).notes)


class OrtEngine(Engine):
    """A session on some providers, the first of which is the one that is judged.

    Parameters
    ----------
    path : the ONNX file to open.
    threads : of one operator; ``None`` leaves them to ONNX Runtime.
    notes : choices made for the user, one sentence each; one on the nodes that stay on the CPU is added.

    Attributes
    ----------
    path : the ONNX file that is open, for whoever wants to run it without this package.
    """

    _excluded_among = excluded_among

    def __init__(
        self,
        spec: EngineSpec,
        path: Path,
        providers: Sequence[Provider] = ON_CPU,
        *,
        threads: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.spec = spec
        self.provider = providers[0].name
        self.signature = read_signature(path)
        self.size_bytes = size_bytes(path)
        self.threads = threads
        self.path, self._providers = path, providers
        self._names = [tensor.name for tensor in self.signature.outputs]
        session, beside = open_session(path, providers, threads=threads)
        self._session: Any = session
        self._run_options = self._new_run_options()
        self.notes = (*notes, *beside)

    def _run(self, feeds: Feeds) -> Outputs:
        try:
            outputs = self._session.run(self._names, feeds, self._run_options)
        except Exception as error:
            raise refused(f"a run of {self.spec.id}", error) from error
        return dict(zip(self._names, outputs, strict=True))

    def _new_run_options(self) -> Any:
        return new_run_options()

    def _stop(self) -> bool:
        """Let ONNX Runtime end the run before its next node; the nodes of a loop count."""
        stopped, self._run_options = self._run_options, self._new_run_options()
        stopped.terminate = True
        return True

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the session's own `run` over `feeds`."""
        return partial(self._session.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Profile one run in a session of its own and count the products that ran in the asked precision, and where."""
        with self._profiled(feeds) as file:
            nodes = read_profile(file)
        return count_coverage(nodes, self.spec.precision, reach_of(self.spec, self.path))

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return the median time of each node, see `pytest_quant.backends.ort.layers`."""
        return time_layers(self.path, self._known_model(), self._providers, feeds, threads=self.threads)

    def _known_model(self) -> Path:
        """Return the file whose nodes are the source of layers: one that arrives quantized need not share a tensor."""
        return model_file(self.spec.quantized or self.spec.model)

    def _profiled(self, feeds: Feeds) -> AbstractContextManager[Path]:
        return profiled(self.path, self._providers, feeds, f"a profiled run of {self.spec.id}", threads=self.threads)

    def _close(self) -> None:
        self._session = None
