"""Whether the ONNX Runtime that is installed is one that we run on: as new as our own metadata asks for."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from pytest_quant.backends.base import Availability

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_OWN = "pytest-quant"
_INSTALL = {
    "onnxruntime": 'pip install "pytest-quant[ort]"',
    "onnxruntime-gpu": 'pip install "pytest-quant[gpu]"',
}
"""Line that brings a new enough version of a wheel."""

WHEELS = tuple(_INSTALL)


def find_outdated(*wheels: str) -> Availability | None:
    """Return why an installed one of `wheels` cannot be used, ``None`` when none is too old.

    Only metadata are read, and they are read before the import: an old wheel beside a new numpy does not load, and that
    would be told as broken.
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
