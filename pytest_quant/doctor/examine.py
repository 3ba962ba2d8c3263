"""One examination of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from pytest_quant.backends import backend_names
from pytest_quant.doctor.findings import BackendState, Examination
from pytest_quant.doctor.libraries import DISTRIBUTION, find_libraries
from pytest_quant.doctor.probe import probe
from pytest_quant.doctor.problems import find_problems, gather_facts
from pytest_quant.environment import fingerprint
from pytest_quant.environment.gpu import find_gpus

_AT_ONCE = 4
"""Probes mostly wait for the disk; more at once than this only crowd a small machine."""


def examine() -> Examination:
    """Ask every backend, each in a process of its own, and look at libraries and machine. Raises nothing."""
    with ThreadPoolExecutor(_AT_ONCE) as probes:
        asked = probes.map(probe, backend_names())
        gpus = find_gpus()
        problems = tuple(find_problems(gather_facts(len(gpus))))
        machine = {
            DISTRIBUTION: version(DISTRIBUTION),
            **fingerprint().identity,
            "python": fingerprint().context["python"],
            "gpus": ", ".join(f"{gpu.name} ({gpu.sm}, driver {gpu.driver})" for gpu in gpus) or "none",
        }
        return Examination(machine, tuple(asked), find_libraries(), problems)


def unmet(found: Examination, required: Sequence[str]) -> tuple[BackendState, ...]:
    """Return the `required` backends that cannot run here; the names must be registered ones."""
    return tuple(state for state in found.backends if state.name in required and state.state != "ok")
