"""The backends that a first check is written for, and the extras that bring them in CI."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pytest_quant.backends import TARGET, Backend, backend_names, get_backend, get_exporter
from pytest_quant.doctor.probe import OK, probe
from pytest_quant.errors import BackendUnavailable, UsageError, nearest
from pytest_quant.init.model import ModelToTest
from pytest_quant.spec import EngineSpec, Model

_PRECISION, _SCHEME = "int8", "static"
_AT_ONCE = 4


def named(names: Sequence[str], model: ModelToTest) -> tuple[str, ...]:
    """Return the backends that the user names. Raises `UsageError` for one that is unknown, or has no static int8."""
    for name in names:
        if name not in backend_names():
            raise UsageError(f"unknown backend '{name}'", allowed=nearest(name, backend_names()))
        if name not in _offering(model):
            raise UsageError(f"backend '{name}' has no static int8 for this model", allowed=", ".join(_offering(model)))
    return tuple(names)


def on_cpu(model: ModelToTest) -> tuple[str, ...]:
    """Return the backends on the CPU that can run here, as the doctor finds them.

    Raises
    ------
    BackendUnavailable : there is none.
    """
    # One that builds for another machine runs nothing here.
    fitting = [
        name for name, backend in _offering(model).items() if not _is_for_gpu(backend) and not _is_built_away(backend)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as probes:
        states = list(probes.map(probe, fitting))
    working = tuple(state.name for state in states if state.state == OK)
    if not working:
        raise BackendUnavailable(
            "no backend that quantizes this model can run here: "
            + "; ".join(f"{state.name}: {state.reason}" for state in states),
            fix="\n".join(sorted({state.fix for state in states if state.fix})) or "pytest-quant doctor",
        )
    return working


def on_gpu(model: ModelToTest) -> tuple[str, ...]:
    """Return the backends with int8 kernels on a GPU that can run here; all of them where none can."""
    fitting = [
        name
        for name, backend in _offering(model).items()
        if _is_for_gpu(backend) and backend.refuses_speed(EngineSpec(name, _PRECISION, _SCHEME, Model("any"))) is None
    ]
    with ThreadPoolExecutor(_AT_ONCE) as probes:
        working = [state.name for state in probes.map(probe, fitting) if state.state == OK]
    return tuple(working or fitting)


def extras_of(names: Sequence[str], model: ModelToTest) -> tuple[str, ...]:
    """Return the extras of this package that bring these backends, and what exports a module where all read files."""
    backends = [get_backend(name) for name in names]
    if model.reads == get_exporter().offer.reads and not any(
        model.reads == backend.offer.reads for backend in backends
    ):
        # The reader of modules that is for the same device.
        wanted = any(map(_is_for_gpu, backends))
        others = map(get_backend, backend_names())
        backends += [other for other in others if other.offer.reads == model.reads and _is_for_gpu(other) == wanted]
    return tuple(dict.fromkeys(extra for backend in backends for extra in backend.offer.extras))


def _offering(model: ModelToTest) -> dict[str, Backend]:
    """Return those that quantize this model: a module can be exported to a file, and no file becomes a module."""
    backends = {name: get_backend(name) for name in backend_names()}
    return {
        name: backend
        for name, backend in backends.items()
        if backend.offer.reads in ("onnx", model.reads) and _SCHEME in backend.offer.precisions.get(_PRECISION, ())
    }


def _is_for_gpu(backend: Backend) -> bool:
    return backend.device.startswith("cuda")


def _is_built_away(backend: Backend) -> bool:
    return TARGET in backend.offer.options
