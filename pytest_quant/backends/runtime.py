"""Whether a runtime is here: installed, as new as our own metadata asks for, and loading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_quant.backends.base import Availability

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

Answer = TypeVar("Answer")

_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)
"""What a package that is installed and does not load raises: a missing library, another numpy, half an upgrade."""


def import_runtime(
    *modules: str,
    ask: Callable[[Any], Answer],
    install: str,
    repair: str,
    needs: Sequence[str] = (),
    wheels: Sequence[str] = (),
) -> Answer | Availability:
    """Import `modules` and return what `ask` gets from the first of them, or why the runtime cannot be used.

    Parameters
    ----------
    ask : is called with the first module; what it raises counts as a runtime that does not load.
    install : the command that installs the runtime.
    repair : the command that repairs one that does not load.
    needs : modules that are only looked for, as they take long to import.
    wheels : distributions that must be as new as our metadata ask for, where they are installed.

    Returns
    -------
    The answer; or an `Availability` that is not available: absent or too old, which is no error, or `broken`.
    """
    missing = [name for name in (*modules, *needs) if not _is_installed(name)]
    if missing:
        return Availability(False, reason=f"{' and '.join(missing)} not installed", fix=install)
    outdated = find_outdated(*wheels)
    if outdated is not None:
        return outdated
    try:
        first, *_ = [import_module(name) for name in modules]
        return ask(first)
    except _BROKEN_IMPORT as error:
        reason = f"import fails: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=repair, broken=True)


def _is_installed(name: str) -> bool:
    """A module that is loaded without a spec counts: then it is its content that is looked at."""
    try:
        return find_spec(name) is not None
    except ValueError:
        return True


_OWN = "pytest-quant"
_INSTALL = {
    "onnxruntime": 'pip install "pytest-quant[ort]"',
    "onnxruntime-gpu": 'pip install "pytest-quant[gpu]"',
}
"""Line that brings a new enough version of a wheel."""

WHEELS = tuple(_INSTALL)


def find_outdated(*wheels: str) -> Availability | None:
    """Return why an installed one of `wheels` cannot be used, ``None`` when none is too old.

    Only metadata are read, and they are read before the import: an old wheel with a new numpy does not load, and would
    be reported as broken.
    """
    for wheel in wheels:
        found = installed_version(wheel)
        if found and not wanted_versions(wheel).contains(found, prereleases=True):
            reason = f"{wheel} {found} is too old: {wheel}{wanted_versions(wheel)} runs"
            return Availability(False, reason=reason, fix=_INSTALL[wheel])
    return None


def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution, empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


@cache
def wanted_versions(distribution: str) -> SpecifierSet:
    """Return the versions that our metadata ask for; any where we are on the path without being installed."""
    # Here, because a backend is registered at every start and asked about its runtime only for a mark.
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    try:
        lines = requires(_OWN) or []
    except PackageNotFoundError:
        return SpecifierSet()
    asked = (one.specifier for one in map(Requirement, lines) if one.name == distribution)
    return next(asked, SpecifierSet())
