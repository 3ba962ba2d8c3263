"""The two engines of a check, built through the cache and opened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from pytest_quant.backends import Backend, Engine, Feeds, get_backend
from pytest_quant.cache import Cache
from pytest_quant.data import Data
from pytest_quant.engines import BuiltEngine, Step, build_engine
from pytest_quant.errors import BackendUnavailable, BuildError
from pytest_quant.spec import EngineSpec


@dataclass(frozen=True, slots=True)
class Tools:
    """What a session shares between its checks; `notify` and `step` tell the user what goes on."""

    cache: Cache
    notify: Callable[[str], None]
    step: Step


@dataclass(frozen=True, slots=True)
class Side:
    """One engine of a check, open; `inputs` maps the data's input names to the engine's."""

    spec: EngineSpec
    backend: Backend
    built: BuiltEngine
    engine: Engine
    inputs: dict[str, str]

    def feeds(self, feeds: Feeds) -> Feeds:
        """Rename the inputs of one batch to the engine's names."""
        return {self.inputs[name]: array for name, array in feeds.items()}


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


def build_side(spec: EngineSpec, data: Data | None, tools: Tools) -> tuple[Backend, BuiltEngine]:
    """Build `spec` through the cache in a backend that can run here."""
    backend = usable_backend(spec)
    backend.check(spec)
    return backend, build_engine(spec, backend, data, tools.cache, tools.step)


def open_side(spec: EngineSpec, backend: Backend, built: BuiltEngine, opened: ExitStack) -> Engine:
    """Open a built engine; closing `opened` closes it."""
    engine = backend.open(spec, built.folder)
    opened.callback(engine.close)
    return engine
