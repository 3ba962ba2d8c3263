"""An engine that was built and cannot run here: its plan and layers are real, its outputs are simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.onnx_files import read_nodes
from pytest_quant.backends.ort import CPU
from pytest_quant.backends.ort.half import range_notes, write_rounded
from pytest_quant.backends.ort.session import Provider, open_session, translate_errors
from pytest_quant.backends.trt.build import LAYERS_FILE, build_notes
from pytest_quant.backends.trt.coverage import Layer, read_layers
from pytest_quant.backends.trt.engine import PlanEngine
from pytest_quant.backends.trt.network import GRAPH_FILE, profile_of, shape_misfit, shape_notes
from pytest_quant.backends.trt.options import operators_of
from pytest_quant.environment.machine import usable_cores
from pytest_quant.errors import DataError
from pytest_quant.files import temporary_folder
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

PRODUCT = "TensorRT-RTX"


class SimulatedEngine(PlanEngine):
    """Runs the graph that was built in float: Q/DQ pairs round, and so does each result of float16 or bfloat16.

    Coverage is read from the build.

    Parameters
    ----------
    stands_for : the product that TensorRT-RTX built in the place of; empty when it was asked for itself.
    """

    simulated = True

    def __init__(self, spec: EngineSpec, folder: Path, stands_for: str = "") -> None:
        super().__init__(spec, folder)
        self.plan_of = PRODUCT if stands_for else ""
        target = self._options.compute_capability
        product = f"{PRODUCT} in the place of {stands_for}" if stands_for else PRODUCT
        built_for = f"{product} for {target}" if target else product
        self.provider = f"{built_for}, simulated in float"
        with temporary_folder() as work:
            on_cpu = (Provider(CPU, libraries=operators_of(spec)),)
            runs, self._watched = write_rounded(self._graph, work / GRAPH_FILE)
            self.threads = usable_cores()
            self._session: Any = open_session(runs, on_cpu, threads=self.threads, simulates=True)[0]
        self._reached: Any = 0.0
        self._names = [tensor.name for tensor in self.signature.outputs]
        self._shapes = profile_of(spec, self.signature)
        self.notes = self._built = (
            f"built for {target or 'the GPU here'}, run as a float simulation of the same graph",
            *shape_notes(self._shapes),
            *build_notes(folder),
        )
        self._built_layers = read_layers(folder / LAYERS_FILE)
        self._has_pairs = any(node.op_type == "QuantizeLinear" for node in read_nodes(self._graph).graph.node)

    def _misfit(self, feeds: Feeds) -> DataError | None:
        """Refuse also the shapes that the engine on a device would refuse."""
        return super()._misfit(feeds) or shape_misfit(self._shapes, feeds)

    def _run(self, feeds: Feeds) -> Outputs:
        with translate_errors(f"a simulated run of {self.spec.id}"):
            ran = self._session.run(None, feeds)
        self._reached = np.maximum(self._reached, ran[len(self._names) :])
        self.notes = (*self._built, *range_notes(self._watched, self._reached))
        return dict(zip(self._names, ran, strict=False))

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one simulated run, whose time says nothing about the device."""
        return partial(self._session.run, self._names, feeds)

    def _layers(self, feeds: Feeds) -> Sequence[Layer]:  # noqa: ARG002
        """Return those that the build listed."""
        return self._built_layers

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count what was built. Explicit INT8 needs Q/DQ pairs in every product: a graph without any has none."""
        return replace(super()._coverage(feeds), plan_of=self.plan_of if self._has_pairs else "")

    def _close(self) -> None:
        self._session = None
