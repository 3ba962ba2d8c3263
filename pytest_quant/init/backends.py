"""The backends that a first check is written for, and the extras that bring them in CI."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pytest_quant.backends import TARGET, Backend, backend_names, get_backend, get_exporter
from pytest_quant.doctor.probe import OK, BackendState, probe
from pytest_quant.errors import BackendUnavailable, UsageError, nearest
from pytest_quant.init.model import ModelToTest
from pytest_quant.spec import EngineSpec, Model

_PRECISION, _SCHEME = "int8", "static"
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class JobBackends:
    """Backends of one job.

    Attributes
    ----------
    names : as marks have them.
    extras : of this package that bring them.
    """

    names: tuple[str, ...]
    extras: tuple[str, ...]


def named(names: Sequence[str], model: ModelToTest) -> JobBackends:
    """Return the backends that the user names. Raises `UsageError` for one that is unknown, or has no static int8."""
    for name in names:
        if name not in backend_names():
            raise UsageError(f"unknown backend '{name}'", allowed=nearest(name, backend_names()))
        if not _offers(get_backend(name), model):
            raise UsageError(
                f"backend '{name}' has no static int8 for this model",
                allowed=", ".join(other for other in backend_names() if _offers(get_backend(other), model)),
            )
    return _with_extras(names, model)


def on_cpu(model: ModelToTest) -> JobBackends:
    """Return the backends on the CPU that can run here, as the doctor finds them.

    Raises
    ------
    BackendUnavailable : there is none.
    """
    # One that builds for another machine runs nothing here.
    fitting = [
        name
        for name in backend_names()
        if not _needs_gpu(get_backend(name)) and TARGET not in get_backend(name).offer.options
    ]
    states = _states([name for name in fitting if _offers(get_backend(name), model)])
    working = [state.name for state in states if state.state == OK]
    if not working:
        raise BackendUnavailable(
            "no backend that quantizes this model can run here: "
            + "; ".join(f"{state.name}: {state.reason}" for state in states),
            fix="\n".join(sorted({state.fix for state in states if state.fix})) or "pytest-quant doctor",
        )
    return _with_extras(working, model)


def on_gpu(model: ModelToTest) -> JobBackends:
    """Return the backends with int8 kernels on a GPU that can run here; all of them where none can."""
    fitting = [
        name
        for name in backend_names()
        if _needs_gpu(get_backend(name)) and _offers(get_backend(name), model) and _has_kernels(get_backend(name))
    ]
    working = [state.name for state in _states(fitting) if state.state == OK]
    return _with_extras(working or fitting, model)


def _states(names: Sequence[str]) -> list[BackendState]:
    with ThreadPoolExecutor(_AT_ONCE) as probes:
        return list(probes.map(probe, names))


def _needs_gpu(backend: Backend) -> bool:
    return backend.device.startswith("cuda")


def _offers(backend: Backend, model: ModelToTest) -> bool:
    """Whether it quantizes this model: a module is exported for those that read files, and no file becomes a module."""
    takes = backend.offer.reads in ("onnx", model.reads)
    return takes and _SCHEME in backend.offer.precisions.get(_PRECISION, ())


def _reads(backend: Backend, model: ModelToTest) -> bool:
    return backend.offer.reads == model.reads


def _has_kernels(backend: Backend) -> bool:
    return backend.refuses_speed(EngineSpec(backend.name, _PRECISION, _SCHEME, Model("any"))) is None


def _with_extras(names: Sequence[str], model: ModelToTest) -> JobBackends:
    backends = [get_backend(name) for name in names]
    if model.reads == get_exporter().offer.reads and not any(_reads(backend, model) for backend in backends):
        # What exports the module: the reader of modules that is for the same device.
        wanted = any(map(_needs_gpu, backends))
        others = map(get_backend, backend_names())
        backends += [backend for backend in others if _reads(backend, model) and _needs_gpu(backend) == wanted]
    extras = [extra for backend in backends for extra in backend.offer.extras]
    return JobBackends(tuple(names), tuple(dict.fromkeys(extras)))
