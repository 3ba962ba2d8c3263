"""Our timings as benchmarks of pytest-benchmark, so that its JSON, storage, comparison and histogram hold them.

pytest-benchmark has no public way to take two benchmarks from one test: its session's list is extended with
`Metadata` of its own. That list is the only private thing of it that is touched, hence the pin below version 6.
Its tables show our checks only where one of its options asks for what it makes of them: the table of this package
tells the same, with verdicts.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_quant.result import Blocks, LatencyResult


SAMPLES_ATTRIBUTE = "quant_samples"

_NS_PER_S = 1e9
_OPTIONS = {"timer": "perf_counter_ns", "disable_gc": True, "warmup": True}


_ASKING = ("benchmark_save", "benchmark_autosave", "benchmark_json", "benchmark_compare", "benchmark_histogram")
"""The options of pytest-benchmark that make something of benchmarks."""

_FILE = "file://"


def is_active(config: pytest.Config) -> bool:
    """Tell whether pytest-benchmark is loaded in this process and asked to save, compare or draw."""
    return hasattr(config, "_benchmarksession") and any(config.getoption(name, None) for name in _ASKING)


def sweep_storage(config: pytest.Config) -> None:
    """Let the folder that pytest-benchmark makes before it has anything to store go again, if it stays empty.

    To be called before pytest-benchmark is configured: a folder that was there already is left alone.
    """
    storage = config.getoption("benchmark_storage", None)
    if storage is None or ("://" in storage and not storage.startswith(_FILE)):
        return
    folder = Path(storage.removeprefix(_FILE)).absolute()
    if not folder.exists():
        config.add_cleanup(lambda: _remove_empty(folder))


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # It holds what was asked for, or was never made.
        return


def samples_of(latency: LatencyResult) -> dict[str, list[int]]:
    """Return the nanoseconds of every timed run by engine, cold runs left out."""
    return {"reference": _runs_ns(latency.reference), "candidate": _runs_ns(latency.candidate)}


def _runs_ns(blocks: Blocks) -> list[int]:
    return [run_ns for block in blocks.runs_ns for run_ns in block]


class BenchmarkBridge:
    """Hooks of the controlling process: samples that ride on reports become benchmarks before it saves them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of a timed check; of several reports of one test the last one counts."""
        if vars(report).get(SAMPLES_ATTRIBUTE):
            self._reports[report.nodeid] = report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Hand the benchmarks over before pytest-benchmark writes what it has."""
        if is_active(self._config):
            for nodeid, report in self._reports.items():
                add_benchmarks(self._config, nodeid, vars(report)[SAMPLES_ATTRIBUTE], dict(report.user_properties))
        return (yield)


def add_benchmarks(
    config: pytest.Config, nodeid: str, samples: Mapping[str, Sequence[int]], figures: Mapping[str, object]
) -> None:
    """Add one benchmark for each engine of the check `nodeid`; `figures` become their ``extra_info``."""
    from pytest_benchmark.stats import Metadata

    for engine, runs_ns in samples.items():
        described = SimpleNamespace(
            name=f"{nodeid.split('::')[-1]} {engine}",
            fullname=f"{nodeid} {engine}",
            group=nodeid,
            param=None,
            params=None,
            extra_info=dict(figures),
            cprofile_stats=None,
            has_error=False,
        )
        benchmark = Metadata(described, iterations=1, options=_OPTIONS)
        for run_ns in runs_ns:
            benchmark.update(run_ns / _NS_PER_S)
        config._benchmarksession.benchmarks.append(benchmark)  # type: ignore[attr-defined]  # noqa: SLF001
