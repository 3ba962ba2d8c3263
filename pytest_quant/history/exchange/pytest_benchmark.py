"""The file of ``pytest --benchmark-json``."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_quant.history.exchange.foreign import run_id, timed_record, utc_of_text
from pytest_quant.record import Record, Run
from pytest_quant.record.codec import decode
from pytest_quant.result import Environment

TOOL = "pytest-benchmark"

_NO_COMMIT = ("unversioned", "unknown")
_NO_BRANCH = ("(unknown)", "(detached head)")


@dataclass(frozen=True, slots=True)
class _Cpu:
    brand_raw: str | None
    count: int | None


@dataclass(frozen=True, slots=True)
class _Machine:
    cpu: _Cpu | None
    processor: str | None
    system: str | None
    machine: str | None
    python_version: str | None
    python_implementation: str | None


@dataclass(frozen=True, slots=True)
class _Commit:
    id: str | None
    branch: str | None
    dirty: bool | None


@dataclass(frozen=True, slots=True)
class _Stats:
    median: float
    rounds: int
    data: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class _Benchmark:
    fullname: str
    stats: _Stats


@dataclass(frozen=True, slots=True)
class _File:
    datetime: str
    commit_info: _Commit
    machine_info: _Machine
    benchmarks: tuple[_Benchmark, ...] | None
    version: str | None


def read(document: dict[str, object]) -> tuple[Run, tuple[Record, ...]]:
    """Return the run in a document. Raises `HistoryError` when a field is missing or has the wrong type."""
    file = decode(_File, document, TOOL)
    started = utc_of_text(file.datetime)
    commit = file.commit_info
    run = Run(
        id=run_id(started, document),
        started_at=started.isoformat(),
        commit=None if commit.id in _NO_COMMIT else commit.id,
        branch=None if commit.branch in _NO_BRANCH else commit.branch,
        dirty=bool(commit.dirty),
        environment=_environment(file.machine_info, file.version),
    )
    return run, tuple(
        timed_record(TOOL, one.fullname, one.stats.median, one.stats.rounds, one.stats.data or ())
        for one in file.benchmarks or ()
    )


def _environment(machine: _Machine, version: str | None) -> Environment:
    cpu = machine.cpu
    identity = {
        "cpu": (cpu.brand_raw if cpu else None) or machine.processor or "unknown",
        "cores": str((cpu.count if cpu else None) or "unknown"),
        "os": machine.system or "unknown",
        "arch": machine.machine or "unknown",
    }
    context = {
        "python": machine.python_version or "unknown",
        "implementation": machine.python_implementation or "unknown",
        TOOL: version or "unknown",
    }
    return Environment(identity, context)
