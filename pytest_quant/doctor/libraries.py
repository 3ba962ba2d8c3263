"""Versions of the libraries that our extras name: wanted and found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from pytest_quant.doctor.findings import Library

DISTRIBUTION = "pytest-quant"
_NOT_FOR_USERS = ("dev", "example")


def find_libraries() -> tuple[Library, ...]:
    """Return every package that our own metadata asks for; extras for developers are left out."""
    extras = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    return compare(
        requires(DISTRIBUTION) or [], [name for name in extras if name not in _NOT_FOR_USERS], installed_version
    )


def compare(requirements: Iterable[str], extras: Iterable[str], found: Callable[[str], str]) -> tuple[Library, ...]:
    """Compare `requirements` with the versions `found`, sorted by name; what no listed extra asks for is left out."""
    offered = tuple(extras)
    asked: dict[tuple[str, str], set[str]] = {}
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        core = marker is None or marker.evaluate({"extra": ""})
        asking = set() if marker is None or core else {name for name in offered if marker.evaluate({"extra": name})}
        if requirement.name != DISTRIBUTION and (core or asking):
            asked.setdefault((requirement.name, str(requirement.specifier)), set()).update(asking)
    return tuple(_library(name, wanted, asked[name, wanted], found(name)) for name, wanted in sorted(asked))


def installed_version(name: str) -> str:
    """Return the version of an installed distribution, empty where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _library(name: str, wanted: str, extras: set[str], found: str) -> Library:
    fits = bool(found) and Requirement(f"{name}{wanted}").specifier.contains(found, prereleases=True)
    return Library(name, tuple(sorted(extras)), wanted, found, fits)
