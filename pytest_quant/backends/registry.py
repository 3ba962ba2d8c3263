"""The table of backends: ours and third parties', found through one entry-point group."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_quant.backends.base import Backend, ExportingBackend
from pytest_quant.errors import UsageError, nearest

GROUP = "pytest_quant.backends"
_EXPORTER = "torch"


def _table() -> dict[str, EntryPoint]:
    table: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        taken = table.get(point.name)
        if taken is not None and taken.value != point.value:
            raise UsageError(
                f"two packages register a backend named '{point.name}'",
                value=f"{taken.value} and {point.value}",
                fix="uninstall one of them",
            )
        table[point.name] = point
    return table


def backend_names() -> tuple[str, ...]:
    """Names of all registered backends, sorted; imports none of them."""
    return tuple(sorted(_table()))


@cache
def get_backend(name: str) -> Backend:
    """Return the backend called `name`; an unknown name is a `UsageError` that names the nearest."""
    table = _table()
    if name not in table:
        raise UsageError(f"unknown backend '{name}'", allowed=nearest(name, table))
    backend: Backend = table[name].load()()
    return backend


def get_exporter() -> ExportingBackend:
    """Return the backend that reads the user's torch modules, and writes them as ONNX for the others."""
    backend = get_backend(_EXPORTER)
    assert isinstance(backend, ExportingBackend)  # nosec B101 # noqa: S101 - for the type checker: it is ours
    return backend
