"""Engines from the cache or built into it; torch modules are exported to ONNX if the backend reads files."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.backends import Backend, Engine, backend_names, get_backend, get_exporter
from pytest_quant.backends.base import EXPORTED_FILE
from pytest_quant.backends.offer import set_option
from pytest_quant.backends.runtime import name_errors
from pytest_quant.cache import Cache, Entry
from pytest_quant.clocks import REAL
from pytest_quant.data import Data
from pytest_quant.environment.machine import usable_cores
from pytest_quant.errors import BackendUnavailable, DataError
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.resources import AddedMemory
from pytest_quant.measure.rollout import Rollout
from pytest_quant.measure.steps import Steps
from pytest_quant.spec import EngineSpec, Model

Watch = Callable[[str, Callable[[], bool]], AbstractContextManager[None]]
"""Bounds the time of a run, which the text names and the call may end; see `Steps.watch`."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools that the checks of a session share.

    `workers` says where large sets are evaluated, see `Workers`; empty for this process.
    """

    cache: Cache
    steps: Steps
    locks: DeviceLocks
    workers: str = ""


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """An engine that was built: its folder, and the cost of building it.

    Attributes
    ----------
    backend : that of `spec`.
    status, reason : ``built`` or ``hit``, and why it was built; see `Entry`.
    build_s, calibration_s : seconds that the run that built it took; `build_s` includes `calibration_s`, which is
        ``None`` where nothing was calibrated.
    build_memory_mb : megabytes (10^6 bytes) that the build added to the process at its peak.
    ingredients : all that decides what it is, see `Backend.ingredients`, and the same of its ranges where it has any.
    """

    spec: EngineSpec
    backend: Backend
    folder: Path
    key: str
    status: str
    reason: str
    build_s: float | None
    calibration_s: float | None
    build_memory_mb: float | None
    ingredients: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> dict[str, str]:
        """Digest of each model that it is built from, ``model`` and ``quantized_model``, all files of it together."""
        digests = {}
        for name in ("model", "quantized model"):
            # Those of its files: ``model``, and ``model data x.bin``.
            keys = sorted(key for key in self.ingredients if key == name or key.startswith(f"{name} data "))
            files = [f"{key} {self.ingredients[key]}" for key in keys]
            if files:
                digests[name.replace(" ", "_")] = hashlib.sha256("\n".join(files).encode()).hexdigest()
        return digests

    @property
    def name(self) -> str:
        """The engine and its model, for messages: ``ort-int8-static of resnet18``."""
        return _slot(self.spec)

    @property
    def threads(self) -> int | None:
        """Processor threads of a timed run by the option of that name; ``None`` without such an option."""
        key = self.backend.offer.options.get("threads")
        value = None if key is None else dict(self.spec.options).get("threads", key.default)
        return value if self.backend.device == "cpu" and isinstance(value, int) else None

    @property
    def evaluation_engine(self) -> BuiltEngine:
        """The same engine to evaluate accuracy with: on all cores of this process, however many threads are timed."""
        other = () if self.threads is None else set_option(self.spec, "threads", usable_cores())
        return next((replace(self, spec=each.spec) for each in other), self)

    def open(self, watch: Watch | None = None) -> Engine:
        """Open the engine; one of a model with a state takes whole sequences.

        `watch` bounds the time of each run; ``None`` for no bound. Raises `BuildError` where the engine does not load.
        """
        engine = self.backend.open(self.spec, self.folder)
        engine.watch = watch
        return Rollout(engine, self.spec.model.state) if self.spec.model.state else engine


def build_engine(spec: EngineSpec, backend: Backend, data: Data | None, tools: Tools) -> BuiltEngine:
    """Return an engine from the cache, calibrating and building it when the cache does not have it.

    A build that chooses kernels by their time waits for the device, even where nothing is timed in this run: the engine
    stays in the cache, for runs that time it.

    Parameters
    ----------
    spec : the engine.
    backend : that of `spec`, usable here.
    data : holds the calibration samples; ``None`` for schemes that do not calibrate.

    Raises
    ------
    UsageError : the backend does not offer what `spec` asks for.
    DataError : the scheme needs calibration samples and there are none.
    BuildError : the runtime cannot build the engine.
    """
    backend.check(spec)
    slot = _slot(spec)
    if backend.offer.is_opaque:
        return BuiltEngine(spec, backend, Path(), "", "built", "", None, None, None, backend.ingredients(spec))
    with tools.steps.bounded(f"reading what {slot} is built from"):
        ranges = backend.calibration_ingredients(spec)
        ingredients = backend.ingredients(spec)
    calibrated = {} if ranges is None else _calibration_ingredients(spec, ranges, _calibration_data(spec, data))
    ingredients |= calibrated

    def build(folder: Path) -> dict[str, float | None]:
        started = REAL.perf_counter()
        with tools.steps.bounded(f"building {slot}"), AddedMemory() as memory:
            calibration = (
                None if ranges is None else _calibrate(spec, backend, calibrated, _calibration_data(spec, data), tools)
            )
            with name_errors(f"building {slot} failed"):
                backend.build(spec, None if calibration is None else calibration.folder, folder)
        calibration_s = None if calibration is None else _number(calibration, "calibration_s")
        build_s = REAL.perf_counter() - started
        if calibration is not None and calibration.status == "hit":
            build_s += calibration_s or 0.0  # a build from nothing would have spent it again
        return {"build_s": build_s, "calibration_s": calibration_s, "build_memory_mb": memory.process_mb}

    # The device first, the cache after it: in the other order a process that shares the device, and waits for this
    # engine, would never let it be built.
    alone = backend.tunes(spec) and tools.cache.find("engine", ingredients) is None
    with tools.locks.hold_alone(backend.device) if alone else nullcontext():
        entry = tools.cache.obtain("engine", slot, ingredients, build, shared=backend.shares(spec))
    costs = {name: _number(entry, name) for name in ("build_s", "calibration_s", "build_memory_mb")}
    return BuiltEngine(
        spec, backend, entry.folder, entry.key, entry.status, entry.reason, **costs, ingredients=ingredients
    )


def build_apart(spec: EngineSpec, like: BuiltEngine, data: Data, tools: Tools, work: Path) -> BuiltEngine:
    """Build an engine outside of the cache, as a trial.

    Parameters
    ----------
    spec : the engine to build.
    like : an engine of the same backend that was built through the cache; its calibration is reused where `spec`
        needs the same ranges.
    data : holds the calibration samples.
    work : empty folder, for the engine and its ranges.

    Raises
    ------
    DataError : the scheme needs calibration samples and there are none.
    BuildError : the runtime cannot build the engine.
    """
    backend = like.backend
    with tools.locks.hold_alone(backend.device) if backend.tunes(spec) else nullcontext():
        ranges = backend.calibration_ingredients(spec)
        calibration = None
        if ranges is not None and ranges == backend.calibration_ingredients(like.spec):
            samples = _calibration_data(like.spec, data)
            needed = _calibration_ingredients(like.spec, ranges, samples)
            calibration = _calibrate(like.spec, backend, needed, samples, tools).folder
        elif ranges is not None:
            plan, samples = spec.calibration, _calibration_data(spec, data)
            calibration = work / "ranges"
            calibration.mkdir()
            backend.calibrate(spec, lambda: samples.calibration(plan.batch_size, plan.samples), calibration)
        folder = work / "engine"
        folder.mkdir()
        backend.build(spec, calibration, folder)
    # Those of `like` would name what the cache has of another engine.
    return replace(like, spec=spec, folder=folder, ingredients={})


def _slot(spec: EngineSpec) -> str:
    return f"{spec.id} of {(spec.quantized or spec.model).name}"


def _calibration_data(spec: EngineSpec, data: Data | None) -> Data:
    if data is None or data.n_calibration == 0:
        raise DataError(
            f"{_slot(spec)} has no calibration data",
            allowed="static quantization finds the ranges of activations on samples apart from the evaluation",
            fix="give calibration=100 to Dataset.from_arrays or from_loader; scheme='dynamic', where a backend has it, "
            "needs none",
        )
    return data


def _calibration_ingredients(spec: EngineSpec, ranges: dict[str, str], data: Data) -> dict[str, str]:
    named = {f"calibration {name}": value for name, value in ranges.items()}
    if spec.model.state:
        named["calibration state"] = json.dumps(spec.model.state)
    return named | {"calibration data": data.calibration_digest}


def _calibrate(spec: EngineSpec, backend: Backend, ingredients: Mapping[str, str], data: Data, tools: Tools) -> Entry:
    plan = spec.calibration

    def calibrate(folder: Path) -> dict[str, float]:
        started = REAL.perf_counter()
        doing = f"calibrating {_slot(spec)} on {data.calibrating(plan)} samples"
        with tools.steps.bounded(f"{doing} (the first one also loads the quantizer)"), name_errors(f"{doing} failed"):
            backend.calibrate(spec, lambda: data.calibration(plan.batch_size, plan.samples), folder)
        return {"calibration_s": REAL.perf_counter() - started}

    return tools.cache.obtain("calibration", _slot(spec), ingredients, calibrate)


def _number(entry: Entry, name: str) -> float | None:
    value = entry.facts.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def export_spec(spec: EngineSpec, tools: Tools) -> EngineSpec:
    """Return an engine's specification with its torch modules exported to ONNX, if its backend reads ONNX.

    Raises
    ------
    BackendUnavailable : torch is not installed.
    BuildError : torch cannot export the module, or the export computes something else.
    """
    if get_backend(spec.backend).offer.reads == "module":
        return spec
    return map_models(spec, partial(_export, tools=tools))


def map_models(spec: EngineSpec, change: Callable[[Model], Model]) -> EngineSpec:
    """Return an engine's specification with `change` applied to its model, and to the quantized one if it has one."""
    return replace(spec, model=change(spec.model), quantized=spec.quantized and change(spec.quantized))


def _export(model: Model, tools: Tools) -> Model:
    if model.module is None:
        return model
    exporter = get_exporter()
    availability = exporter.availability()
    if not availability.available:
        raise BackendUnavailable(
            f"model '{model.name}' is a torch module: {availability.reason}", fix=availability.fix or None
        )

    def build(folder: Path) -> dict[str, str]:
        doing = f"exporting {model.name} to ONNX"
        with tools.steps.bounded(doing), name_errors(f"{doing} failed"):
            exporter.export(model, folder)
        return {}

    entry = tools.cache.obtain("export", f"ONNX of {model.name}", exporter.export_ingredients(model), build)
    file = Model.from_onnx(entry.folder / EXPORTED_FILE, name=model.name)
    return replace(file, batch_axes=model.batch_axes, state=model.state)


CANNOT_BE_PACKED = (pickle.PicklingError, AttributeError, TypeError)
"""What `pack` raises for a value that exists in this process only."""


def pack(value: object) -> bytes:
    """Return a value that holds built engines as bytes, for another process. Raises one of `CANNOT_BE_PACKED`."""
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
    return content.getvalue()


class _Pickler(pickle.Pickler):
    """Writes registered backends by their names: they may hold what belongs to one process."""

    def reducer_override(self, obj: object) -> Any:
        # First by its type: the name of each array's dtype would be looked up among all that is installed.
        if isinstance(obj, Backend) and obj.name in backend_names() and get_backend(obj.name) is obj:
            return get_backend, (obj.name,)
        return NotImplemented


def unpack(content: bytes) -> Any:
    """Return what `pack` was given. Only for bytes of this user: as any pickle, they can run what they say."""
    return pickle.loads(content)  # nosec B301 # noqa: S301 - see above
