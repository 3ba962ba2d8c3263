"""The controlling process of a run: it collects the records, also from xdist's workers, and ends the run with them."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_quant.marks.marked import RECORD_ATTRIBUTE
from pytest_quant.plugin.settings import on_command_line, settings_of

if TYPE_CHECKING:
    from types import SimpleNamespace

    from pytest_quant.plugin.finish import Ended
    from pytest_quant.record import Json


_LEAVES_OUT = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
_LEFT_OUT = pytest.StashKey[bool]()
_OF_WORKER = "quant_left_out"


def note_left_out(config: pytest.Config, collected: Sequence[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    """Remember that collected tests will not run, whatever removed them; a worker passes it to its controller.

    Parameters
    ----------
    config : where it is remembered.
    collected : tests before the removal.
    kept : tests after it.
    """
    still_here = {id(item) for item in kept}
    if any(id(item) not in still_here for item in collected):
        config.stash[_LEFT_OUT] = True
        output = getattr(config, "workeroutput", None)
        if output is not None:
            output[_OF_WORKER] = True


def note_worker(config: pytest.Config, node: object) -> None:
    """Remember the tests that xdist's worker `node` left out; a crashed worker reports nothing."""
    if getattr(node, "workeroutput", {}).get(_OF_WORKER):
        config.stash[_LEFT_OUT] = True


def takes_all(config: pytest.Config) -> bool:
    """Whether no path, option or plugin leaves tests of the suite out."""
    chosen = any(config.getoption(name, None) for name in _LEAVES_OUT)
    return not (_names_a_part(config) or chosen or config.stash.get(_LEFT_OUT, False))


def _names_a_part(config: pytest.Config) -> bool:
    """Whether the command line names paths that contain neither the root directory nor all of ``testpaths``."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return False
    # An argument that names tests of a file, or a package, is not an existing path, and so contains nothing.
    named = [(config.invocation_params.dir / arg).resolve() for arg in config.args]
    suite = [
        Path(path)
        for pattern in config.getini("testpaths")
        # As pytest reads it: Path.glob takes no "." and no absolute path.
        for path in glob.iglob(str(config.rootpath / pattern), recursive=True)  # noqa: PTH207
    ]
    return not any(
        folders and all(any(folder.resolve().is_relative_to(one) for one in named) for folder in folders)
        for folders in ([config.rootpath], suite)
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test stands: a file as pytest spells it, below the root directory, and a line counted from 0."""

    file: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Reported:
    """What pytest reported about the tests of a run.

    Attributes
    ----------
    failed : the run fails so far.
    broken : places of tests with a record that failed and should not have, by their node ids.
    expected : node ids of tests that failed as they were expected to.
    """

    failed: bool = False
    broken: Mapping[str, Place] = field(default_factory=dict)
    expected: frozenset[str] = frozenset()


_ENDED_BY_TESTS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Controller:
    """Hooks of the controlling process only; without a check it neither imports, prints nor writes anything."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, tuple[int, dict[str, Json]]] = {}
        self._expected: set[str] = set()
        self._broken: dict[str, Place] = {}
        self._ended: Ended | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record that is attached to a report; of several reports of one test the last one counts."""
        record = vars(report).get(RECORD_ATTRIBUTE)
        if record is not None:
            key = report.nodeid
            # xdist gives the test's index in the collection; without it reports come in that order.
            index = vars(report).get("item_index", len(self._records))
            place, _ = self._records.get(key, (index, record))
            self._records[key] = (place, record)
            self._keep(record)
            self._expected.discard(key)
            self._broken.pop(key, None)
            if report.failed:
                file, line, _ = report.location
                self._broken[key] = Place(file, line)
            if report.skipped and hasattr(report, "wasxfail"):
                self._expected.add(key)

    def _keep(self, record: dict[str, Json]) -> None:
        """Put a finished check on the disk, before the next one starts."""
        # Here, because it loads the records.
        from pytest_quant.plugin.unfinished import keep_finished

        if self._config.getoption("dist", "no") != "no" and settings_of(self._config).device:
            from pytest_quant.plugin.devices import choose_for_record

            choose_for_record(self._config)
        keep_finished(self._config, record)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Note whether a worker of xdist left out tests that it had collected."""
        note_worker(self._config, node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: SimpleNamespace) -> None:
        """Pass the width of the user's terminal to a worker of xdist, which has none, and the GPU it is given."""
        from pytest_quant.plugin.console import WIDTH

        node.workerinput[WIDTH] = self._config.get_terminal_writer().fullwidth
        if on_command_line(self._config, "quant_device"):
            from pytest_quant.plugin.devices import OF_CONTROLLER, chosen_uuid

            node.workerinput[OF_CONTROLLER] = chosen_uuid(self._config)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the records to the history and the JSON file, once; faults make the run fail."""
        settings = settings_of(self._config)
        has_empty_answer = settings.json_file or settings.html_file or settings.markdown_file or settings.require
        if self._config.getoption("collectonly", False) or not (self._records or has_empty_answer):
            return
        from pytest_quant.plugin.finish import end_run

        ended_by_tests = session.exitstatus in _ENDED_BY_TESTS
        whole = ended_by_tests and not (session.shouldstop or session.shouldfail)
        reported = self._reported(session.exitstatus != pytest.ExitCode.OK)
        self._ended = end_run(self._config, self.in_order(), reported, check_required=ended_by_tests, whole=whole)
        if self._ended.faults and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section ``quant``, below the long tables of pytest-benchmark."""
        if self._ended is not None:
            from pytest_quant.plugin.finish import show

            show(self._config, self._ended, terminalreporter, self._expected)

    def _reported(self, failed: bool) -> Reported:
        return Reported(failed, dict(self._broken), frozenset(self._expected))

    def in_order(self) -> list[dict[str, Json]]:
        """Return the records so far, in the order of the tests."""
        return [record for _, record in sorted(self._records.values(), key=lambda kept: kept[0])]
