"""The file of ``pytest --benchmark-json``."""

from __future__ import annotations

from pytest_quant.history.exchange.timed import run_id, timed_record, utc_of_text
from pytest_quant.record import Record, Run
from pytest_quant.record.reader import Reader
from pytest_quant.result import Environment

TOOL = "pytest-benchmark"

_NO_COMMIT = ("unversioned", "unknown")
_NO_BRANCH = ("(unknown)", "(detached head)")


def read(document: dict[str, object]) -> tuple[Run, tuple[Record, ...]]:
    """Return the run in a document. Raises `HistoryError` when a field is missing or has the wrong type."""
    file = Reader(document, TOOL)
    started = utc_of_text(file.need_text("datetime"))
    commit = file.need_child("commit_info")
    commit_id, branch = commit.text("id"), commit.text("branch")
    run = Run(
        id=run_id(started, document),
        started_at=started.isoformat(),
        commit=None if commit_id in _NO_COMMIT else commit_id,
        branch=None if branch in _NO_BRANCH else branch,
        dirty=commit.flag("dirty"),
        environment=_environment(file),
    )
    return run, tuple(_record(benchmark) for benchmark in file.children("benchmarks"))


def _environment(file: Reader) -> Environment:
    machine = file.need_child("machine_info")
    cpu = machine.child("cpu")
    identity = {
        "cpu": (cpu.text("brand_raw") if cpu else None) or machine.text("processor") or "unknown",
        "cores": str((cpu.integer("count") if cpu else None) or "unknown"),
        "os": machine.text("system") or "unknown",
        "arch": machine.text("machine") or "unknown",
    }
    context = {
        "python": machine.text("python_version") or "unknown",
        "implementation": machine.text("python_implementation") or "unknown",
        TOOL: file.text("version") or "unknown",
    }
    return Environment(identity, context)


def _record(benchmark: Reader) -> Record:
    stats = benchmark.need_child("stats")
    return timed_record(
        TOOL,
        benchmark.need_text("fullname"),
        stats.need_number("median"),
        stats.need_integer("rounds"),
        stats.numbers("data"),
    )
