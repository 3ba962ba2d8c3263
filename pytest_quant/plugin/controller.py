"""The controlling process of a run: it collects the records, also from xdist's workers, and ends the run with them.

Of tests without a record it knows the reason: skipped, not collected, or left to other shards. Without it a comparison
would take such tests for removed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_quant.environment.revision import path_in_checkout
from pytest_quant.marks import RECORD_ATTRIBUTE, SERIES_ATTRIBUTE, is_marked
from pytest_quant.plugin.settings import is_on_command_line, settings_of

if TYPE_CHECKING:
    from types import SimpleNamespace

    from pytest_quant.record import Json


_LEAVES_OUT = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
_LEFT_OUT = pytest.StashKey[bool]()
_FOUND = pytest.StashKey[Any]()
_COLLECTED = pytest.StashKey[list[pytest.Item]]()
_LEFT_TO_OTHERS = pytest.StashKey[tuple[str, ...]]()


def note_left_out(config: pytest.Config, collected: Sequence[pytest.Item], left: Sequence[pytest.Item]) -> None:
    """Remember that collected tests will not run, whatever removed them; a worker passes it to its controller.

    Those that a shard leaves to the others do run.

    Parameters
    ----------
    config : where it is remembered.
    collected : tests before the removal.
    left : tests after it.
    """
    still_here = {id(item) for item in config.stash.get(_COLLECTED, left)}
    if any(id(item) not in still_here for item in collected):
        config.stash[_LEFT_OUT] = True
        getattr(config, "workeroutput", {})["quant_left_out"] = True


def takes_all(config: pytest.Config) -> bool:
    """Whether no path, option or plugin leaves tests of the suite out, and no shard leaves any to the others."""
    return not (_leaves_out(config) or list_left_to_others(config))


def _leaves_out(config: pytest.Config) -> bool:
    chosen = any(config.getoption(name, None) for name in _LEAVES_OUT)
    return _names_a_part(config) or chosen or config.stash.get(_LEFT_OUT, False)


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
    folders = [folder.resolve() for folder in suite or [config.rootpath]]
    return not all(any(map(folder.is_relative_to, named)) for folder in folders)


def list_unrecorded(config: pytest.Config) -> Any:
    """Return what this run has skipped, and could not collect so far: the fields of `Run` with the reasons."""
    return config.stash.setdefault(_FOUND, {"skipped": {}, "uncollected": {}})


def note_without_record(config: pytest.Config, where: str, report: pytest.CollectReport | pytest.TestReport) -> None:
    """Keep why there is no record of a test, or of the tests of a file, as a report says it."""
    list_unrecorded(config)["skipped" if report.skipped else "uncollected"][where] = _why(report)


def _why(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the reason of a skip, or the error that kept a file from being collected, in one line."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ").partition("\n")[0][:300]
    lines = [line.strip() for line in str(report.longrepr).splitlines() if line.strip()]
    causes = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (causes or lines or ["it does not say why"])[-1][:300]


class BeforeSplit:
    """Sees the tests that are left by options such as ``-k`` and ``-m``: what no shard runs is left to nobody."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remember them; pytest-split comes next, because its hook is last too, and was registered later."""
        config.stash[_COLLECTED] = list(items)


def note_split(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Remember the quant tests that the split has removed, of which `items` are left.

    A worker of xdist passes them to its controller, which collects nothing.
    """
    if _COLLECTED not in config.stash:
        return
    here = {id(item) for item in items}
    # Here, because a run without a quant test needs none of it.
    from pytest_quant.plugin.collect import nodeid_of

    left = [item for item in config.stash[_COLLECTED] if id(item) not in here and is_marked(item)]
    nodeids = config.stash[_LEFT_TO_OTHERS] = tuple(map(nodeid_of, left))
    getattr(config, "workeroutput", {})["quant_left_to_others"] = list(nodeids)


def list_left_to_others(config: pytest.Config) -> tuple[str, ...] | None:
    """Return the node ids of the quant tests that this shard leaves to the others; ``None`` if this run is no shard."""
    return config.stash.get(_LEFT_TO_OTHERS, None)


_ENDED_BY_TESTS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Controller:
    """Hooks of the controlling process only; without a check it neither imports, prints nor writes anything."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, tuple[int, dict[str, Json]]] = {}
        self._has_ended = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why tests are not collected; a worker of xdist passes on such reports alone."""
        if not report.passed:
            file, gap, name = report.nodeid.partition("::")
            root = self._config.rootpath
            below = path_in_checkout(Path(os.path.normpath(root / file)), root)
            where = (file if below is None else below.as_posix()) + gap + name
            note_without_record(self._config, where or ".", report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record that is attached to a report; of several reports of one test the last one counts."""
        record = vars(report).get(RECORD_ATTRIBUTE)
        if record is None:
            if where := vars(report).get(SERIES_ATTRIBUTE):
                note_without_record(self._config, where, report)
            return
        # Here, because a run without a check needs none of it.
        from pytest_quant.plugin.console import color_labels
        from pytest_quant.plugin.run_end import journal_check
        from pytest_quant.plugin.run_files import end_of

        if report.skipped and hasattr(report, "wasxfail"):
            record = {**record, "expected": True}
        # xdist gives the test's index in the collection; without it reports come in that order.
        index = vars(report).get("item_index", len(self._records))
        place, _ = self._records.get(report.nodeid, (index, record))
        self._records[report.nodeid] = (place, record)
        if self._config.getoption("dist", "no") != "no" and settings_of(self._config).device:
            from pytest_quant.plugin.devices import choose

            # The process runs no test, but the record of the run names the GPU of its workers.
            choose(self._config, ())
        journal_check(self._config, record)
        if report.failed:
            color_labels(self._config, report)
        broken = end_of(self._config).broken
        (broken.add if report.failed else broken.discard)(report.nodeid)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Attach the record of a check to the report of its crash; after the check's end, the test failed later."""
        # Here, because few runs crash.
        from pytest_quant.plugin.crashes import record_of_crash
        from pytest_quant.plugin.run_files import end_of

        record = record_of_crash(report)
        if crashitem in self._records:
            end_of(self._config).broken.add(crashitem)
        else:
            vars(report)[RECORD_ATTRIBUTE] = record

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Note what a worker of xdist left to others, and its traffic; a crashed one reports nothing."""
        output = getattr(node, "workeroutput", {})
        if output.get("quant_left_out"):
            self._config.stash[_LEFT_OUT] = True
        if "quant_left_to_others" in output:
            # All workers of a run have left the same.
            self._config.stash[_LEFT_TO_OTHERS] = tuple(output["quant_left_to_others"])
        if traffic := output.get("quant_traffic"):
            # Here, because few runs have a shared cache.
            from pytest_quant.plugin.run_files import end_of

            end_of(self._config).add_traffic(traffic)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: SimpleNamespace) -> None:
        """Pass the width of the user's terminal to a worker of xdist, which has none, and the GPU it is given."""
        from pytest_quant.plugin.console import WIDTH

        node.workerinput[WIDTH] = self._config.get_terminal_writer().fullwidth
        if is_on_command_line(self._config, "quant_device"):
            from pytest_quant.plugin.devices import OF_CONTROLLER, chosen_uuid

            node.workerinput[OF_CONTROLLER] = chosen_uuid(self._config)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the records to the history and the JSON file, once; faults make the run fail."""
        settings, lacking = settings_of(self._config), list_unrecorded(self._config)
        has_empty_answer = settings.json_file or settings.html_file or settings.markdown_file or settings.require
        if not (self._records or has_empty_answer or (settings.compare and any(lacking.values()))):
            return
        from pytest_quant.plugin.run_end import end_run
        from pytest_quant.plugin.run_files import end_of

        ended_by_tests = session.exitstatus in _ENDED_BY_TESTS
        whole = ended_by_tests and not (session.shouldstop or session.shouldfail)
        end = end_of(self._config)
        end.failed = session.exitstatus != pytest.ExitCode.OK
        self.note_untracked()
        all_ran = whole and takes_all(self._config)
        left = list_left_to_others(self._config) if whole else None
        lacking = lacking | {"deselected": left, "partial": not whole or _leaves_out(self._config)}
        end_run(self._config, self.list_records(), lacking, ended_by_tests=ended_by_tests, all_ran=all_ran)
        self._has_ended = True
        could_pass = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if could_pass and (end.regression or end.faults):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section ``quant``, below the long tables of pytest-benchmark."""
        if self._has_ended:
            from pytest_quant.plugin.run_end import show

            show(self._config, terminalreporter)

    def note_untracked(self) -> None:
        """Count the run as dirty if git does not track the file of any of its tests, or a conftest.py above it.

        Other files that git does not track do not count: CI keeps environments and caches in its checkout.
        """
        # Here, because only a run with a check needs them.
        from pytest_quant.environment.revision import has_untracked
        from pytest_quant.plugin.run_files import end_of

        end = end_of(self._config)
        files = {Path(nodeid.partition("::")[0]) for nodeid in self._records}
        files |= {folder / "conftest.py" for file in files for folder in file.parents}
        if end.run is not None and has_untracked(self._config.rootpath, files):
            end.run = replace(end.run, dirty=True, tree=None)

    def list_records(self) -> list[dict[str, Json]]:
        """Return the records so far, in the order of the tests."""
        return [record for _, record in sorted(self._records.values(), key=lambda placed: placed[0])]
