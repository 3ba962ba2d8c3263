"""The process that controls a run: it collects the records, from xdist's workers too, and ends the run with them."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from pytest_quant.marks.marked import RECORD_ATTRIBUTE
from pytest_quant.plugin.options import option_value
from pytest_quant.plugin.selection import note_worker

if TYPE_CHECKING:
    from types import SimpleNamespace

    from pytest_quant.plugin.finish import Ended


_ENDED_BY_TESTS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Controller:
    """Hooks of the controlling process only; without a check it neither imports, prints nor writes anything."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, tuple[int, object]] = {}
        self._expected: set[str] = set()
        self._ended: Ended | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record that rides on a report; of several reports of one test the last one counts."""
        record = vars(report).get(RECORD_ATTRIBUTE)
        if record is not None:
            # xdist says which place the test has in the collection; one process sees them in their order.
            found = vars(report).get("item_index", len(self._records))
            place = self._records.get(report.nodeid, (found, None))[0]
            self._records[report.nodeid] = (place, record)
            self._expected.discard(report.nodeid)
            if report.skipped and hasattr(report, "wasxfail"):
                self._expected.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Hear from a worker of xdist whether it collected tests that were taken out again."""
        note_worker(self._config, node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: SimpleNamespace) -> None:
        """Tell a worker of xdist, which has no terminal, how wide the user's is."""
        from pytest_quant.plugin.console import WIDTH

        node.workerinput[WIDTH] = self._config.get_terminal_writer().fullwidth

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the records where they belong, once; what must not go unnoticed makes the run fail."""
        wanted = any(option_value(self._config, name) for name in ("quant_json", "quant_require"))
        if self._config.getoption("collectonly", False) or not (self._records or wanted):
            return
        from pytest_quant.plugin.finish import end_run

        ended_by_tests = session.exitstatus in _ENDED_BY_TESTS
        in_order = [record for _, record in sorted(self._records.values(), key=itemgetter(0))]
        whole = ended_by_tests and not (session.shouldstop or session.shouldfail)
        self._ended = end_run(self._config, in_order, check_required=ended_by_tests, whole=whole)
        if self._ended.faults and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section ``quant``, below the long tables of pytest-benchmark."""
        if self._ended is not None:
            from pytest_quant.plugin.finish import show

            show(self._config, self._ended, terminalreporter, self._expected)
