"""The state of a backend, which is probed in a process of its own.

A native library that does not fit may end the process that loads it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from pytest_quant.backends import Availability, Backend, get_backend

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


TIME_LIMIT_S = 60.0


def probe_all(names: Iterable[str]) -> list[BackendState]:
    """Return the states of several backends in the order of their names."""
    # Probes mostly wait for the disk; more of them at once would overload a small machine.
    with ThreadPoolExecutor(4) as probes:
        return list(probes.map(probe, names))


def probe(name: str) -> BackendState:
    """Return the state of the backend called `name`, probed in a process of its own."""
    command = (sys.executable, "-m", "pytest_quant.doctor.probe", name)
    try:
        answer = subprocess.run(  # nosec B603 # noqa: S603 - our own module, and a registered name
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return BackendState(name, BROKEN, reason=f"gave no answer within {TIME_LIMIT_S:g} s")
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        return BackendState(name, BROKEN, reason=_death(answer.returncode, answer.stderr))
    return msgspec.json.decode(lines[-1], type=BackendState)


def state_of(name: str, backend: Backend, here: Availability) -> BackendState:
    """Return the availability of a backend, which is registered as `name`, as a `BackendState`."""
    state = OK if here.available else BROKEN if here.broken else MISSING
    offered = [
        " ".join(part for part in (precision, scheme) if part)
        for precision, schemes in backend.offer.precisions.items()
        for scheme in (schemes if precision else ())
    ]
    return BackendState(name, state, here.version, here.device, here.reason, here.fix, tuple(offered))


def _death(returncode: int, stderr: str) -> str:
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    ended = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
    return f"asking it ended with {ended}: {last}"


def main(name: str) -> None:
    """Print the state of `name` on the last line, whatever the runtime printed before."""
    backend = get_backend(name)
    sys.stdout.write(f"\n{msgspec.json.encode(state_of(name, backend, backend.availability())).decode()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
