"""Availability on this machine: versions of the libraries, and each backend probed in a process of its own.

A native library that does not fit may end the process that loads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import metadata, requires

from packaging.requirements import Requirement

from pytest_quant.backends import get_backend
from pytest_quant.backends.base import Availability, Backend
from pytest_quant.backends.runtime import installed_version
from pytest_quant.doctor.cards import CardState

OK, MISSING, BROKEN = "ok", "missing", "broken"
"""States of a backend: it runs, its runtime or device is missing, or it is installed and does not work."""


@dataclass(frozen=True, slots=True)
class BackendState:
    """The state of one backend.

    Attributes
    ----------
    state : ``ok``, ``missing`` or ``broken``.
    fix : a command, or empty.
    precisions : precisions that it offers, as ``int8 static`` for each scheme of a quantized one.
    """

    name: str
    state: str
    version: str = ""
    device: str = ""
    reason: str = ""
    fix: str = ""
    precisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """A required package: the versions that extras require, the installed one, and whether it fits."""

    name: str
    extras: tuple[str, ...]
    wanted: str
    found: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that would otherwise show silently later, and its remedy."""

    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of an examination; `machine` has the properties that identify it, as text by name.

    `runner` says which limits on speed it holds, or how to find out; empty where no history was asked.
    """

    machine: Mapping[str, str]
    backends: tuple[BackendState, ...]
    libraries: tuple[Library, ...]
    problems: tuple[Problem, ...]
    cards: tuple[CardState, ...] = ()
    runner: str = ""


DISTRIBUTION = "pytest-quant"
_NOT_FOR_USERS = ("dev", "example")


def find_libraries() -> tuple[Library, ...]:
    """Return every package that this distribution requires, without the extras for developers."""
    extras = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    return compare(
        requires(DISTRIBUTION) or [], [name for name in extras if name not in _NOT_FOR_USERS], installed_version
    )


def compare(requirements: Iterable[str], extras: Iterable[str], found: Callable[[str], str]) -> tuple[Library, ...]:
    """Compare requirements with installed versions, sorted by name.

    Parameters
    ----------
    requirements : lines of package metadata.
    extras : names of the extras to consider; requirements of others are left out.
    found : returns the installed version of a package, empty when it is not installed.
    """
    offered = tuple(extras)
    asked: dict[tuple[str, str], set[str]] = {}
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        core = marker is None or marker.evaluate({"extra": ""})
        asking = set() if marker is None or core else {name for name in offered if marker.evaluate({"extra": name})}
        if requirement.name != DISTRIBUTION and (core or asking):
            asked.setdefault((requirement.name, str(requirement.specifier)), set()).update(asking)
    return tuple(_library(name, wanted, asked[name, wanted], found(name)) for name, wanted in sorted(asked))


def _library(name: str, wanted: str, extras: set[str], found: str) -> Library:
    fits = bool(found) and Requirement(f"{name}{wanted}").specifier.contains(found, prereleases=True)
    return Library(name, tuple(sorted(extras)), wanted, found, fits)


TIME_LIMIT_S = 60.0


def probe(name: str) -> BackendState:
    """Return the state of the backend called `name`, probed in a process of its own."""
    command = (sys.executable, "-m", "pytest_quant.doctor.probe", name)
    try:
        answer = subprocess.run(  # nosec B603 # noqa: S603 - our own module, and a registered name
            command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return BackendState(name, BROKEN, reason=f"gave no answer within {TIME_LIMIT_S:g} s")
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        return BackendState(name, BROKEN, reason=_death(answer.returncode, answer.stderr))
    state = json.loads(lines[-1])
    return BackendState(**{**state, "precisions": tuple(state["precisions"])})


def state_of(name: str, backend: Backend, found: Availability) -> BackendState:
    """Return a backend's availability as a `BackendState`.

    Parameters
    ----------
    name : registered name.
    backend : the backend, for the precisions it offers.
    found : its availability.
    """
    state = OK if found.available else BROKEN if found.broken else MISSING
    offered = [
        " ".join(part for part in (precision, scheme) if part)
        for precision, schemes in backend.schemes.items()
        for scheme in schemes
    ]
    return BackendState(name, state, found.version, found.device, found.reason, found.fix, tuple(offered))


def _death(returncode: int, stderr: str) -> str:
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    ended = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
    return f"asking it ended with {ended}: {last}"


def main(name: str) -> None:
    """Print the state of `name` on the last line, whatever the runtime printed before."""
    backend = get_backend(name)
    sys.stdout.write("\n" + json.dumps(asdict(state_of(name, backend, backend.availability()))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
