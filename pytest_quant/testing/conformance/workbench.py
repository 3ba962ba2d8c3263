"""From an example to an open engine, through the steps of a backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from pytest_quant.backends import TARGET, Backend, Engine, Outputs
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example

CALIBRATION_SEEDS = range(20, 28)
_GPU = "SM89"
SEVERAL = 16
"""Samples in a batch where their number is not the point: what compiles for each number does so once."""


_SHARED: dict[tuple[object, ...], Engine] = {}
_AT_THE_END = ExitStack()


class Workbench:
    """Base of the tests: the fixture to override, and how specs are built."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend under test; every author overrides this."""
        raise NotImplementedError("override the fixture 'backend'")

    @classmethod
    def teardown_class(cls) -> None:
        """Close the engines that the tests shared."""
        _SHARED.clear()
        _AT_THE_END.close()


def model_for(backend: Backend, example: Example, folder: Path) -> Model:
    """Return an example as a model in the form that the backend reads.

    Parameters
    ----------
    backend : reads ONNX files or torch modules.
    example : the model, with inputs and expected outputs.
    folder : an existing folder, to which the file is written if the backend reads files.
    """
    if backend.offer.reads == "onnx":
        return example.write(folder)
    from pytest_quant.testing.conformance.modules import module_model

    return module_model(example)


def options_for(backend: Backend) -> tuple[tuple[str, object], ...]:
    """Return the name of a GPU to build for, where `backend` takes one and there is none here."""
    spec = EngineSpec(backend.name, "fp32", None, Model("any"))
    needed = TARGET in backend.offer.options and not backend.availability(spec).available
    return ((TARGET, _GPU),) if needed else ()


def specs(backend: Backend, model: Model, *, exclude: tuple[str, ...] = ()) -> list[EngineSpec]:
    """Return one spec for each quantized precision and scheme of a backend that starts from a float model.

    Parameters
    ----------
    backend : its offer is read.
    model : the float model.
    exclude : names of nodes to leave in float.
    """
    return [
        EngineSpec(backend.name, precision, scheme, model, exclude=exclude, options=options_for(backend))
        for precision, schemes in backend.offer.precisions.items()
        for scheme in schemes
        if scheme not in (None, "qat")
    ]


def float_spec(backend: Backend, model: Model) -> EngineSpec:
    """Return the spec of the FP32 reference."""
    return EngineSpec(backend.name, "fp32", None, model, options=options_for(backend))


def shared(backend: Backend, spec: EngineSpec, example: Example) -> Engine:
    """Return an engine that all tests of a class share; it is built at its first use and closed after the last test.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    """
    key = (spec.id, spec.exclude, example.name, *sorted(backend.ingredients(shaped(backend, spec, example)).items()))
    if key not in _SHARED:
        _SHARED[key] = _AT_THE_END.enter_context(opened(backend, spec, example))
    return _SHARED[key]


@contextmanager
def opened(backend: Backend, spec: EngineSpec, example: Example) -> Iterator[Engine]:
    """Build an engine, calibrated if its scheme needs it, and open it; it is closed at the end of the block.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    """
    spec = shaped(backend, spec, example)
    with TemporaryDirectory() as folder:
        engine = backend.open(spec, build(backend, spec, example, Path(folder)))
        try:
            yield engine
        finally:
            engine.close()


def shaped(backend: Backend, spec: EngineSpec, example: Example) -> EngineSpec:
    """Return `spec` with the shapes of an example, which stand for those of data, if the backend builds for shapes."""
    return replace(spec, shapes=example.shapes) if backend.offer.fixed_shapes else spec


def build(backend: Backend, spec: EngineSpec, example: Example, folder: Path) -> Path:
    """Build an engine, calibrated if its scheme needs it, and return the folder that holds it.

    Parameters
    ----------
    backend, spec : what to build, and with what.
    example : gives the calibration samples and the shapes.
    folder : an existing, empty folder; ranges and engine each get a folder in it.
    """
    spec = shaped(backend, spec, example)
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    for each in (ranges, engine):
        each.mkdir()
    static = backend.calibration_ingredients(spec) is not None
    if static:
        backend.calibrate(spec, lambda: (example.feeds(4, seed) for seed in CALIBRATION_SEEDS), ranges)
    backend.build(spec, ranges if static else None, engine)
    return engine


def sqnr_db(reference: Outputs, candidate: Outputs) -> float:
    """Return 20 log10(||r|| / ||r - c||) over all outputs; infinite when they are equal."""
    wanted = np.concatenate([array.ravel() for array in reference.values()]).astype(np.float64)
    values = np.concatenate([candidate[name].ravel() for name in reference]).astype(np.float64)
    error = np.linalg.norm(wanted - values)
    return float("inf") if error == 0 else float(20 * np.log10(np.linalg.norm(wanted) / error))
