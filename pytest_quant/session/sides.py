"""The two engines of a check, built through the cache and opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from pytest_quant.backends import Backend, Engine, Feeds, get_backend
from pytest_quant.backends.failure import failing_as
from pytest_quant.batching import Batched
from pytest_quant.cache import Cache
from pytest_quant.data import Data, open_data
from pytest_quant.device_lock import shared, shared_if_free
from pytest_quant.engines import BuiltEngine, Step, build_engine
from pytest_quant.errors import BackendUnavailable, BuildError
from pytest_quant.rollout import Rollout
from pytest_quant.spec import Dataset, EngineSpec


@dataclass(frozen=True, slots=True)
class Tools:
    """What a session shares between its checks; `notify` and `step` tell the user what goes on."""

    cache: Cache
    notify: Callable[[str], None]
    step: Step


@dataclass(frozen=True, slots=True)
class Side:
    """One engine of a check, open, and how it takes batches of the data."""

    spec: EngineSpec
    backend: Backend
    built: BuiltEngine
    engine: Engine
    batched: Batched

    def feeds(self, feeds: Feeds) -> Feeds:
        """Rename the inputs of one batch to the engine's names."""
        return self.batched.feeds(feeds)


def usable_backend(spec: EngineSpec) -> Backend:
    """Return the backend of `spec` if that engine can be had here.

    Raises
    ------
    BackendUnavailable : it is not installed, or its device is absent.
    BuildError : it is installed and does not load.
    """
    name = spec.backend
    backend = get_backend(name)
    found = backend.availability(spec)
    if found.broken:
        raise BuildError(f"backend '{name}' is installed but does not load", value=found.reason, fix=found.fix or None)
    if not found.available:
        raise BackendUnavailable(f"backend '{name}' cannot run here: {found.reason}", fix=found.fix or None)
    return backend


def on_device(device: str, tools: Tools, *, times: bool) -> AbstractContextManager[None]:
    """Hold `device` for building and evaluating; what `times` nothing waits for nobody, see `device_lock`."""
    return shared(device, tools.notify) if times else shared_if_free(device)


def read_data(dataset: Dataset, spec: EngineSpec, tools: Tools) -> Data:
    """Read `dataset` once and check it against the inputs of the model of `spec`."""
    with tools.step(f"reading {dataset.name}, for the inputs of {spec.model.name}"):
        return open_data(dataset, usable_backend(spec).signature(spec.model), spec.model)


def build_side(spec: EngineSpec, data: Data | None, tools: Tools) -> tuple[Backend, BuiltEngine]:
    """Build `spec` through the cache in a backend that can run here."""
    backend = usable_backend(spec)
    backend.check(spec)
    return backend, build_engine(spec, backend, data, tools.cache, tools.step)


def open_side(spec: EngineSpec, backend: Backend, built: BuiltEngine, tools: Tools, opened: ExitStack) -> Engine:
    """Open a built engine; closing `opened` closes it."""
    doing = f"opening {spec.id} of {spec.model.name}"
    with tools.step(doing), failing_as(f"{doing} failed"):
        engine = open_built(spec, backend, built)
    opened.callback(engine.close)
    return engine


def open_built(spec: EngineSpec, backend: Backend, built: BuiltEngine) -> Engine:
    """Open a built engine; one of a model that has a state takes whole sequences."""
    engine = backend.open(spec, built.folder)
    return Rollout(engine, spec.model.state) if spec.model.state else engine


def named_axes(engine: Engine, axes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the axes that the user names of outputs, where they are after a sequence was run."""
    if not isinstance(engine, Rollout):
        return dict(axes)
    return {name: axis + 1 if axis else axis for name, axis in axes.items()}


def with_steps(data: Data, reference: Engine) -> Data:
    """Return `data` whose calibration samples are the single steps of a model that has a state."""
    return replace(data, steps=reference.steps) if isinstance(reference, Rollout) else data
