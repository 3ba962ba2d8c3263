"""One marked test alone, for ``pytest-quant profile`` and ``pytest-quant diagnose``: no record of it is kept.

Its outcome goes as JSON into the file that the option names: ``{"profile": ...}``, see `LayerProfile`;
``{"diagnose": ...}``, the record; ``{"skipped": reason}``; or, where not exactly one marked test was collected,
``{"tests": [node ids]}``. There is no file where the test, or the collection, ended in an error, which pytest prints.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.marks import is_marked


class _Alone:
    """Hooks in the place of those that collect records.

    Parameters
    ----------
    file : gets the outcome.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the only marked test; run nothing if there is none, or several, or if a file could not be collected."""
        marked = [item for item in items if is_marked(item)]
        if session.testsfailed:
            marked = []
        elif len(marked) != 1 or config.getoption("collectonly"):
            self._write({"tests": [item.nodeid for item in marked]})
            marked = []
        items[:] = marked

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reason why the test was skipped before it was measured."""
        if report.skipped and report.when == "setup":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._write({"skipped": reason.removeprefix("Skipped: ")})

    def _write(self, outcome: dict[str, object]) -> None:
        self._file.write_text(json.dumps(outcome), encoding="utf-8")


class Profiling(_Alone):
    """Measures layers, and judges nothing."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Function) -> None:
        """Profile in the place of the body. Raises pytest's `Skipped`, so that neither body nor verdict comes."""
        import msgspec

        from pytest_quant.measure.engine_trio import profile_layers
        from pytest_quant.plugin.item_check import measurement_or_error

        given: Any = item.funcargs["quant"]
        measurement = measurement_or_error(item, given)
        bench = measurement.bench
        profile = profile_layers(measurement.check, measurement.latency, bench.timed, bench.tools)
        self._write({"profile": msgspec.to_builtins(profile)})
        pytest.skip("profiled")


class Diagnosing(_Alone):
    """Hands back the record of a check that was judged."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Function) -> None:
        """Hand it back in the place of the body. Raises pytest's `Skipped`, so that neither body nor verdict comes."""
        from pytest_quant.plugin.collect import STATE

        judged: Any = item.stash[STATE].record
        self._write({"diagnose": judged.json})
        pytest.skip("diagnosed")
