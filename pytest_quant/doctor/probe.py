"""What can run here: versions of the libraries, and each backend asked in a process of its own.

A native library that does not fit may end the process that loads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from pytest_quant.backends import get_backend
from pytest_quant.backends.base import Availability, Backend

OK, MISSING, BROKEN = "ok", "missing", "broken"
"""States of a backend: it runs, its runtime or device is not here, or it is here and does not work."""


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend: `state` is ``ok``, ``missing`` or ``broken``; `fix` is a command line where there is one.

    `precisions` : what it offers, ``int8 static`` for each scheme of a quantized precision.
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
    """A package that an extra of ours names: versions wanted and found, and whether they fit."""

    name: str
    extras: tuple[str, ...]
    wanted: str
    found: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that goes wrong silently later: what, and what to do."""

    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything found. `machine` is what identifies it, as text by name."""

    machine: Mapping[str, str]
    backends: tuple[BackendState, ...]
    libraries: tuple[Library, ...]
    problems: tuple[Problem, ...]


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


TIME_LIMIT_S = 60.0


def probe(name: str) -> BackendState:
    """Return the state of the backend called `name`, found in a process of its own."""
    command = (sys.executable, "-m", "pytest_quant.doctor.probe", name)
    try:
        answer = subprocess.run(  # noqa: S603 - our own module, and a registered name
            command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return BackendState(name, BROKEN, reason=f"gave no answer within {TIME_LIMIT_S:g} s")
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        return BackendState(name, BROKEN, reason=_death(answer.returncode, answer.stderr))
    found = json.loads(lines[-1])
    return BackendState(**{**found, "precisions": tuple(found["precisions"])})


def state_of(name: str, backend: Backend, found: Availability) -> BackendState:
    """Turn a backend's own answer into a `BackendState`."""
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
