"""A session on ONNX Runtime's TensorRT provider over engines that are built already, and what is known of them.

The provider reads engines from a folder, and writes into it whenever it does not like what it finds there: another GPU
has other names of files, other shapes are another engine. An entry of the cache must not change, so it gets a copy.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import read_graph
from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
from pytest_quant.backends.ort.libraries import TENSORRT
from pytest_quant.backends.ort.macs import FLOAT_OPS, PRODUCT_OPS
from pytest_quant.backends.readback import Kind, Tallied, tally
from pytest_quant.backends.trt.build import build_notes
from pytest_quant.backends.trt.builder import LAYERS_FILE
from pytest_quant.backends.trt.coverage import (
    Layer,
    macs_by_node,
    ops_of,
    precision_notes,
    read_layers,
    tallied_products,
)
from pytest_quant.backends.trt.graph import GRAPH_FILE
from pytest_quant.backends.trt.provider_build import CACHED, providers_of
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

_ANEW = (
    "the provider built its engine anew while it opened, in place of the one that was built and timed: clear the cache "
    "(pytest-quant cache clear --kind engine)"
)


class OrtTrtEngine(OrtGpuEngine):
    """Runs the model in `folder`, which `build` filled. Raises `BuildError`, also where TensorRT took nothing of it."""

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        self._copy = tempfile.TemporaryDirectory(prefix="pytest-quant-")
        cache = Path(self._copy.name)
        for file in (file for pattern in CACHED for file in folder.glob(pattern)):
            shutil.copyfile(file, cache / file.name)
        copied = _state(cache)
        providers = providers_of(spec, folder / GRAPH_FILE, cache)
        super().__init__(spec, folder / GRAPH_FILE, providers, notes=build_notes(folder))
        self._is_anew = _state(cache) != copied
        if self._is_anew:
            self.notes = (*self.notes, _ANEW)
        self._layers = read_layers(folder / LAYERS_FILE)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the products that TensorRT runs by the layers of its engines, and those that it left as not its own."""
        left = left_products(self._session.get_provider_graph_assignment_info())
        ops = ops_of(read_graph(self.path).graph)
        layers, why_not = self._known_layers()
        return count_products(layers, ops, left, self.spec.precision, macs_by_node(self.path, feeds), why_not)

    def _known_layers(self) -> tuple[Sequence[Layer], str]:
        """Return the layers of the engines that are open, or none and why they are not known."""
        if self._is_anew:
            return (), "the engine was built anew while it opened, and nothing tells of its layers"
        if not self._layers:
            return (), "the log of the provider's build does not tell the precision of layers"
        return self._layers, ""

    def _close(self) -> None:
        super()._close()
        self._copy.cleanup()


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the last change of each engine."""
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.glob("*.engine")}


def left_products(parts: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """Return operator and provider of each product that TensorRT left to another, by its name.

    `parts` is what each provider runs, ``get_provider_graph_assignment_info()``.
    """
    return {
        node.name: (node.op_type, part.ep_name)
        for part in parts
        if part.ep_name != TENSORRT
        for node in part.get_nodes()
        if node.op_type in PRODUCT_OPS
    }


def count_products(
    layers: Sequence[Layer],
    ops: Mapping[str, str],
    left: Mapping[str, tuple[str, str]],
    precision: str,
    macs: Mapping[str, int | None],
    why_not: str = "",
) -> Coverage:
    """Return the share of products that TensorRT runs in `precision`; one that it left to CUDA counts in float32 only.

    Parameters
    ----------
    layers : those of TensorRT's engines, as far as they are known.
    ops : op type of each node of the ONNX graph, see `ops_of`.
    left : products that TensorRT left to another provider, see `left_products`.
    precision : the one asked for.
    macs : multiply-accumulates of the products of the graph, see `macs_by_node`.
    why_not : why no layer is known; empty where they are.
    """
    inside = {name: op for name, op in ops.items() if not any(is_of(coverage, name) for coverage in left)}
    outside = [
        Tallied(name, op, _left_kind(op, precision), next((macs[node] for node in macs if is_of(name, node)), None))
        for name, (op, _) in left.items()
    ]
    where = ", ".join(dict.fromkeys((TENSORRT, *(provider for _, provider in left.values()))))
    coverage = tally([*tallied_products(layers, inside, precision, macs), *outside], where)
    return replace(coverage, notes=(why_not,) if why_not else precision_notes(layers, inside, precision))


def is_of(optimized: str, node: str) -> bool:
    """Tell whether a node of the optimized graph is `node` of the graph, to whose name a fusion appends."""
    return optimized == node or optimized.startswith(f"{node}/")


def _left_kind(op_type: str, precision: str) -> Kind:
    return Kind.ASKED if precision == "fp32" and op_type in FLOAT_OPS else Kind.OTHER
