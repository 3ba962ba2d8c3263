"""Latencies of checks as benchmarks of pytest-benchmark, for its JSON, storage, comparison and histogram.

pytest-benchmark has no public way to add two benchmarks for one test, so that its session's list is extended with its
`Metadata`. That list is the only private part that is used, hence the pin below version 6. Its tables show checks only
where one of its options asks for such output: the table of this package has the same figures, with verdicts.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_quant.marks import SAMPLES_ATTRIBUTE

if TYPE_CHECKING:
    from pytest_quant.result import LatencyResult


def samples_of(latency: LatencyResult) -> dict[str, list[int]]:
    """Return the nanoseconds of every timed run by engine, cold runs left out."""
    sides = {"reference": latency.reference, "candidate": latency.candidate}
    return {name: list(chain.from_iterable(blocks.runs_ns)) for name, blocks in sides.items()}


class BenchmarkBridge:
    """Hooks of the controlling process: samples attached to reports become benchmarks before those are saved."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of a timed check; of several reports of one test the last one counts."""
        if vars(report).get(SAMPLES_ATTRIBUTE):
            self._reports[report.nodeid] = report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Add the benchmarks before pytest-benchmark writes its files."""
        for nodeid, report in self._reports.items():
            add_benchmarks(self._config, nodeid, vars(report)[SAMPLES_ATTRIBUTE], dict(report.user_properties))
        return (yield)


def add_benchmarks(
    config: pytest.Config, nodeid: str, samples: Mapping[str, Sequence[int]], figures: Mapping[str, object]
) -> None:
    """Add one benchmark for each engine of a check.

    Parameters
    ----------
    config : of the process in which pytest-benchmark is active.
    nodeid : of the test.
    samples : nanoseconds of every timed run by engine.
    figures : further figures of the check, for the ``extra_info`` of each benchmark.
    """
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
        options = {"timer": "perf_counter_ns", "disable_gc": True, "warmup": True}
        benchmark = Metadata(described, iterations=1, options=options)
        for run_ns in runs_ns:
            benchmark.update(run_ns / 1e9)
        config._benchmarksession.benchmarks.append(benchmark)  # type: ignore[attr-defined]  # noqa: SLF001
