"""From an example to an open engine, through the steps of a backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pytest_quant.backends import TARGET, Backend, Engine, Outputs
from pytest_quant.spec import ARRIVING, EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, module_model

SEVERAL = 16
"""Samples in a batch where their number is not the point: what compiles for each number does so once."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """A backend under test, and its engines of examples, each of which all tests of a class share.

    Attributes
    ----------
    folder : an existing folder, to which examples are written if the backend reads files.
    at_the_end : closes the engines after the last test of the class.
    """

    backend: Backend
    folder: Path
    at_the_end: ExitStack
    built: dict[tuple[object, ...], Engine] = field(default_factory=dict)

    def model(self, example: Example) -> Model:
        """Return an example as a model in the form that the backend reads."""
        return model_for(self.backend, example, self.folder)

    def float_spec(self, example: Example) -> EngineSpec:
        """Return the spec of the FP32 reference."""
        return float_spec(self.backend, self.model(example))

    def specs(self, example: Example, *, exclude: tuple[str, ...] = ()) -> list[EngineSpec]:
        """Return one spec for each quantized precision and scheme."""
        return specs(self.backend, self.model(example), exclude=exclude)

    def float_engine(self, example: Example) -> Engine:
        """Return the FP32 engine of an example."""
        return self._engine(self.float_spec(example), example)

    def engines(self, example: Example, *, exclude: tuple[str, ...] = ()) -> list[Engine]:
        """Return the engine of each quantized precision and scheme."""
        return [self._engine(spec, example) for spec in self.specs(example, exclude=exclude)]

    def _engine(self, spec: EngineSpec, example: Example) -> Engine:
        ingredients = self.backend.ingredients(_shaped(self.backend, spec, example))
        key = (spec.id, spec.exclude, example.name, *sorted(ingredients.items()))
        if key not in self.built:
            self.built[key] = self.at_the_end.enter_context(opened(self.backend, spec, example))
        return self.built[key]


def model_for(backend: Backend, example: Example, folder: Path) -> Model:
    """Return an example as a model in the form that `backend` reads; files are written into `folder`."""
    return example.write(folder) if backend.offer.reads == "onnx" else module_model(example)


def _options(backend: Backend) -> tuple[tuple[str, object], ...]:
    """Return the name of a GPU to build for, where `backend` takes one and there is none here."""
    spec = EngineSpec(backend.name, "fp32", None, Model("any"))
    needed = TARGET in backend.offer.options and not backend.availability(spec).available
    return ((TARGET, "SM89"),) if needed else ()


def specs(backend: Backend, model: Model, *, exclude: tuple[str, ...] = ()) -> list[EngineSpec]:
    """Return one spec for each quantized precision and scheme of a backend that starts from a float model."""
    return [
        EngineSpec(backend.name, precision, scheme, model, exclude=exclude, options=_options(backend))
        for precision, schemes in backend.offer.precisions.items()
        for scheme in schemes
        if scheme not in (None, *ARRIVING)
    ]


def float_spec(backend: Backend, model: Model) -> EngineSpec:
    """Return the spec of the FP32 reference."""
    return EngineSpec(backend.name, "fp32", None, model, options=_options(backend))


@contextmanager
def opened(backend: Backend, spec: EngineSpec, example: Example) -> Iterator[Engine]:
    """Build an engine and open it; it is closed at the end of the block. Parameters as in `build`."""
    spec = _shaped(backend, spec, example)
    with TemporaryDirectory() as folder, backend.open(spec, build(backend, spec, example, Path(folder))) as engine:
        yield engine


def _shaped(backend: Backend, spec: EngineSpec, example: Example) -> EngineSpec:
    """Return `spec` with the shapes of an example, which stand for those of data, if the backend builds for shapes."""
    return replace(spec, shapes=example.shapes) if backend.offer.fixed_shapes else spec


def build(backend: Backend, spec: EngineSpec, example: Example, folder: Path) -> Path:
    """Build an engine, calibrated if its scheme needs it, and return the folder that holds it.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    folder : an empty folder, or a new one; ranges and engine each get a folder in it.
    """
    spec = _shaped(backend, spec, example)
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    for each in (ranges, engine):
        each.mkdir(parents=True)
    static = backend.calibration_ingredients(spec) is not None
    if static:
        backend.calibrate(spec, lambda: (example.feeds(4, seed) for seed in range(20, 28)), ranges)
    backend.build(spec, ranges if static else None, engine)
    return engine


def sqnr_db(reference: Outputs, candidate: Outputs) -> float:
    """Return 20 log10(||r|| / ||r - c||) over all outputs; infinite when they are equal."""
    wanted = np.concatenate([array.ravel() for array in reference.values()]).astype(np.float64)
    values = np.concatenate([candidate[name].ravel() for name in reference]).astype(np.float64)
    error = np.linalg.norm(wanted - values)
    return float("inf") if error == 0 else float(20 * np.log10(np.linalg.norm(wanted) / error))
