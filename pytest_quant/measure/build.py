"""Engines from the cache or built into it; torch modules are exported to ONNX where the backend reads files."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_quant.backends import Backend, get_backend, get_exporter
from pytest_quant.backends.base import EXPORTED_FILE
from pytest_quant.backends.runtime import failing_as
from pytest_quant.cache import Cache, Entry
from pytest_quant.data import Data
from pytest_quant.errors import BackendUnavailable, DataError
from pytest_quant.measure.peak_memory import PeakMemory
from pytest_quant.spec import Check, EngineSpec, Model

Step = Callable[[str], AbstractContextManager[None]]
"""Shows the text of a step to the user while the block runs, if that takes long."""


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """An engine's folder, and the cost of building it.

    Attributes
    ----------
    status, reason : ``built`` or ``hit``, and why it was built; see `Entry`.
    build_s, calibration_s : seconds that the run that built it took; `build_s` includes `calibration_s`.
    build_memory_mb : megabytes (10^6 bytes) that the build added to the process at its peak.
    models : digest of each model that it is built from, ``model`` and ``quantized_model``, all files of it together.
    """

    folder: Path
    key: str
    status: str
    reason: str
    build_s: float | None
    calibration_s: float | None
    build_memory_mb: float | None
    models: Mapping[str, str] = field(default_factory=dict)


Alone = Callable[[], AbstractContextManager[None]]
"""Makes the context of a build that no other process disturbs."""


class _NotInCacheError(Exception):
    """An engine has to be built, which this process is not ready for yet."""


def build_engine(
    spec: EngineSpec, backend: Backend, data: Data | None, cache: Cache, step: Step, alone: Alone | None = None
) -> BuiltEngine:
    """Return an engine from the cache, calibrating and building it when the cache does not have it.

    Parameters
    ----------
    spec : the engine.
    backend : that of `spec`.
    data : holds the calibration samples; ``None`` for schemes that do not calibrate.
    cache : of engines and calibrations.
    step : shows long steps to the user.
    alone : where the build chooses kernels by their time, the context that it needs; an engine from the cache needs
        none.

    Raises
    ------
    DataError : the scheme needs calibration samples and there are none.
    BuildError : the runtime cannot build the engine.
    """
    slot = _slot(spec)
    with step(f"reading what {slot} is built from"):
        ranges = backend.calibration_ingredients(spec)
        ingredients = backend.ingredients(spec)
    if ranges is not None:
        ingredients |= _calibration_ingredients(spec, ranges, _calibrating(spec, data))

    def build(folder: Path) -> dict[str, float | None]:
        started = time.perf_counter()
        with step(f"building {slot}"), PeakMemory() as memory:
            calibration = None if ranges is None else _calibrate(spec, backend, _calibrating(spec, data), cache, step)
            with failing_as(f"building {slot} failed"):
                backend.build(spec, None if calibration is None else calibration.folder, folder)
        calibration_s = None if calibration is None else _number(calibration, "calibration_s")
        return {
            "build_s": time.perf_counter() - started + _spent_earlier(calibration),
            "calibration_s": calibration_s,
            "build_memory_mb": memory.peak_mb,
        }

    if alone is None:
        entry = cache.obtain("engine", slot, ingredients, build)
    else:
        try:
            entry = cache.obtain("engine", slot, ingredients, _not_yet)
        except _NotInCacheError:
            # The device first, the cache after it: in the other order a process that shares the device, and waits for
            # this engine, would never let it be built.
            with alone():
                entry = cache.obtain("engine", slot, ingredients, build)
    return BuiltEngine(
        folder=entry.folder,
        key=entry.key,
        status=entry.status,
        reason=entry.reason,
        build_s=_number(entry, "build_s"),
        calibration_s=_number(entry, "calibration_s"),
        build_memory_mb=_number(entry, "build_memory_mb"),
        models=_models(ingredients),
    )


def _models(ingredients: Mapping[str, str]) -> dict[str, str]:
    """Return the digest of each model by its name, of the digests of its files, ``model`` and ``model data x.bin``."""
    found = {}
    for name in ("model", "quantized model"):
        keys = sorted(key for key in ingredients if key == name or key.startswith(f"{name} data "))
        files = [f"{key} {ingredients[key]}" for key in keys]
        if files:
            found[name.replace(" ", "_")] = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return found


def _not_yet(_: Path) -> dict[str, float | None]:
    raise _NotInCacheError


def build_apart(
    spec: EngineSpec, like: EngineSpec, backend: Backend, data: Data, cache: Cache, step: Step, work: Path
) -> Path:
    """Build an engine outside of the cache, and return its folder.

    Parameters
    ----------
    spec : the engine to build.
    like : an engine of the same backend that was built through the cache; its calibration is reused where `spec`
        needs the same ranges.
    backend : of both.
    data : holds the calibration samples.
    cache : with the calibration of `like`.
    step : shows long steps to the user.
    work : empty folder, for the engine and its ranges.

    Raises
    ------
    DataError : the scheme needs calibration samples and there are none.
    BuildError : the runtime cannot build the engine.
    """
    ranges = backend.calibration_ingredients(spec)
    calibration = None
    if ranges is not None and ranges == backend.calibration_ingredients(like):
        calibration = _calibrate(like, backend, _calibrating(like, data), cache, step).folder
    elif ranges is not None:
        asked, samples = spec.calibration, _calibrating(spec, data)
        calibration = work / "ranges"
        calibration.mkdir()
        backend.calibrate(spec, lambda: samples.calibration(asked.batch_size, asked.samples), calibration)
    folder = work / "engine"
    folder.mkdir()
    backend.build(spec, calibration, folder)
    return folder


def _slot(spec: EngineSpec) -> str:
    return f"{spec.id} of {spec.model.name}"


def _calibrating(spec: EngineSpec, data: Data | None) -> Data:
    if data is None or data.n_calibration == 0:
        raise DataError(
            f"{_slot(spec)} has no calibration data",
            allowed="static quantization finds the ranges of activations on samples apart from the evaluation",
            fix="write Dataset.from_arrays(inputs, labels, calibration=100), or choose scheme='dynamic'",
        )
    return data


def _calibration_ingredients(spec: EngineSpec, ranges: dict[str, str], data: Data) -> dict[str, str]:
    named = {f"calibration {name}": value for name, value in ranges.items()}
    if spec.model.state:
        named["calibration state"] = json.dumps(spec.model.state)
    return named | {"calibration data": data.calibration_digest}


def _calibrate(spec: EngineSpec, backend: Backend, data: Data, cache: Cache, step: Step) -> Entry:
    asked = spec.calibration

    def calibrate(folder: Path) -> dict[str, float]:
        started = time.perf_counter()
        n = min(asked.samples or data.n_calibration, data.n_calibration)
        doing = f"calibrating {_slot(spec)} on {n} samples"
        with step(doing), failing_as(f"{doing} failed"):
            backend.calibrate(spec, lambda: data.calibration(asked.batch_size, asked.samples), folder)
        return {"calibration_s": time.perf_counter() - started}

    ranges = backend.calibration_ingredients(spec) or {}
    return cache.obtain("calibration", _slot(spec), _calibration_ingredients(spec, ranges, data), calibrate)


def _spent_earlier(calibration: Entry | None) -> float:
    """Return the seconds of a calibration from the cache, which a build from nothing would have spent again."""
    if calibration is None or calibration.status == "built":
        return 0.0
    return _number(calibration, "calibration_s") or 0.0


def _number(entry: Entry, name: str) -> float | None:
    value = entry.facts.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def export_check(check: Check, cache: Cache, step: Step) -> Check:
    """Return a check with its engines as `export_spec` returns them, with the same parameters and errors.

    `check` is the check; see `export_spec` for the others.
    """
    timed = check.timed_reference
    return replace(
        check,
        candidate=export_spec(check.candidate, cache, step),
        reference=export_spec(check.reference, cache, step),
        timed_reference=None if timed is None else export_spec(timed, cache, step),
    )


def export_spec(spec: EngineSpec, cache: Cache, step: Step) -> EngineSpec:
    """Return an engine's specification with its torch modules exported to ONNX, where its backend reads ONNX.

    Parameters
    ----------
    spec : the engine.
    cache : of the exported files.
    step : shows long steps to the user.

    Raises
    ------
    BackendUnavailable : torch is not installed.
    BuildError : torch cannot export the module, or the export computes something else.
    """
    if get_backend(spec.backend).reads == "module":
        return spec
    quantized = None if spec.quantized is None else _exported(spec.quantized, cache, step)
    return replace(spec, model=_exported(spec.model, cache, step), quantized=quantized)


def _exported(model: Model, cache: Cache, step: Step) -> Model:
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
        with step(doing), failing_as(f"{doing} failed"):
            exporter.export(model, folder)
        return {}

    entry = cache.obtain("export", f"ONNX of {model.name}", exporter.export_ingredients(model), build)
    return Model.from_onnx(entry.folder / EXPORTED_FILE, name=model.name)
