"""Builds engines of one network in one backend, sound ones and those that something is planted in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import count as numbers
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.base import Engine
from pytest_quant.result.cause import Stage
from pytest_quant.spec import Calibration, EngineSpec
from tests.benchmarks.blame.cases import Case, batches, run_all, spec_of, sqnr_db
from tests.benchmarks.blame.graph import PRODUCTS, Graph, is_called
from tests.benchmarks.blame.networks import Arrays, Network, count, take

N_CALIBRATION = 64
"""Samples of a sound calibration."""

LEAST_DB = 10.0
"""Below it eight bits break a network without any plant, so that a plant costs nothing that can be told."""

TOO_HARD_DB = 6.0
"""How far above what an engine reaches a limit is that nothing but eight bits breaks."""


class Workshop:
    """A place to build in; a healthy engine is built once.

    Parameters
    ----------
    folder : of its own; it outlives all cases.
    """

    def __init__(self, network: Network, backend: str, folder: Path) -> None:
        self.network, self.backend, self.folder = network, backend, folder
        self._numbers = numbers()
        self.model = folder / f"{network.name}.onnx"
        # A copy in which every node has a name.
        Graph.load(network.model()).save(self.model)

    @cached_property
    def samples(self) -> Any:
        """The data of the network."""
        return self.network.samples()

    @cached_property
    def reference(self) -> NDArray[Any]:
        """What the float model answers."""
        return self.run_float(self.model, self.samples.evaluation)

    @cached_property
    def output(self) -> str:
        """The output that is looked at: the first."""
        return str(Graph.load(self.model).outputs[0])

    @cached_property
    def healthy(self) -> tuple[EngineSpec, Path, float]:
        """The engine of a sound calibration with its SQNR."""
        spec, folder = self.build(self.model, self.draw(0, N_CALIBRATION))
        return spec, folder, self.measure(spec, folder)

    def draw(self, seed: int, n: int) -> Arrays:
        """Draw samples that calibrate."""
        size = count(self.samples.pool)
        rows = np.random.default_rng([seed, 1]).permutation(size)[: min(n, size)]
        return take(self.samples.pool, np.sort(rows))

    def new_folder(self) -> Path:
        """Return an empty folder."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    def copy(self, folder: Path) -> Path:
        """Return a copy of an engine's folder, to be changed."""
        copied = self.new_folder()
        shutil.copytree(folder, copied, dirs_exist_ok=True)
        return copied

    def called(self, operation: str) -> tuple[str, ...]:
        """Return the product of the model that an operation of an engine is called after, or whose output it is."""
        graph = Graph.load(self.model)
        products = [node for node in graph.nodes if node.op_type in PRODUCTS]
        named = [node.name for node in products if is_called(operation, node.name)]
        # OpenVINO calls a product with a bias, and others too, as a tensor or as a node after it.
        behind = [node for node in graph.nodes if operation in (node.name, *node.output)]
        return tuple(named or [name for node in behind[:1] for name in graph.near(node.output[0])[:1]])

    def run_float(self, model: Path, arrays: Arrays) -> NDArray[Any]:
        """Return the output of a float model by ONNX Runtime."""
        spec = replace(spec_of("ort", model), precision="fp32", scheme=None)
        folder = self.new_folder()
        backend = get_backend("ort")
        backend.build(spec, None, folder)
        with backend.open(spec, folder) as engine:
            return np.asarray(run_all(engine, arrays, self.network.batch)[self.output])

    def build(
        self,
        model: Path,
        calibration: Arrays,
        *,
        method: Calibration | None = None,
        edit: Callable[[Path], None] | None = None,
    ) -> tuple[EngineSpec, Path]:
        """Quantize a model, with an `edit` of the folder of ranges before the engine is made of it."""
        spec = spec_of(self.backend, model, calibration=method or Calibration("minmax"))
        backend = get_backend(self.backend)
        ranges, folder = self.new_folder(), self.new_folder()
        backend.calibrate(spec, lambda: iter(batches(calibration, self.network.batch)), ranges)
        if edit is not None:
            edit(ranges)
        backend.build(spec, ranges, folder)
        return spec, folder

    def measure(self, spec: EngineSpec, folder: Path, wrap: Callable[[Engine], Engine] | None = None) -> float:
        """Return the SQNR of an engine over the evaluation samples."""
        engine = get_backend(self.backend).open(spec, folder)
        with engine if wrap is None else wrap(engine) as opened:
            outputs = run_all(opened, self.samples.evaluation, self.network.batch)
        return sqnr_db(self.reference, np.asarray(outputs[self.output]))

    def case(
        self,
        kind: str,
        seed: int,
        variant: str,
        stages: tuple[Stage, ...],
        *,
        nodes: tuple[str, ...] = (),
        engine: tuple[EngineSpec, Path] | None = None,
        model: Path | None = None,
        calibration: Arrays | None = None,
        wrap: Callable[[Engine], Engine] | None = None,
    ) -> Case:
        """Return a case; what is not given is that of the healthy engine."""
        spec, folder, healthy_db = self.healthy
        spec, folder = engine or (spec, folder)
        planted_db = self.measure(spec, folder, wrap)
        return Case(
            self.network.name,
            self.network.half,
            self.backend,
            kind,
            seed,
            variant,
            stages,
            nodes,
            self.samples.evaluation,
            self.draw(0, N_CALIBRATION) if calibration is None else calibration,
            self.network.batch,
            self.output,
            model or self.model,
            spec,
            folder,
            healthy_db,
            planted_db,
            planted_db + TOO_HARD_DB if stages == ("none",) else (healthy_db + planted_db) / 2,
            wrap,
        )
