"""Ask one backend whether it can run here: ``python -m pytest_quant.doctor.probe NAME`` prints its answer as JSON.

It is a process of its own, because a native library that does not fit may end the process that loads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from pytest_quant.backends import get_backend
from pytest_quant.backends.base import Availability, Backend
from pytest_quant.doctor.findings import BROKEN, MISSING, OK, BackendState

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
