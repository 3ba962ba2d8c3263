"""``--quant-against REV``: the tests of this run are compared with the tests of another commit, here and now.

The base is run when the tests have ended, in a worktree and a process of its own; then the engines of both are timed in
pairs of fresh processes. All of it is before the end of the session, so that Ctrl-C and SIGTERM end it as they end the
tests, and what is in the temporary folder is gone in any case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_quant.environment.revision import Repository, git_state
from pytest_quant.environment.worktree import changed_dependencies, check_out, own_python, top_level, workplace
from pytest_quant.errors import LaunchError, QuantError
from pytest_quant.history.compare.comparison import Outcome
from pytest_quant.history.merge_base import base_to_run
from pytest_quant.marks import is_marked
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.measure.timing_process import TimingJob
from pytest_quant.plugin.collect import nodeid_of
from pytest_quant.plugin.console import open_steps
from pytest_quant.plugin.controller import Controller, list_unrecorded, takes_all
from pytest_quant.plugin.run_end import begin, decode_records, print_comparison
from pytest_quant.plugin.run_files import end_of
from pytest_quant.plugin.settings import is_on_command_line, settings_of
from pytest_quant.printable import clean, clean_lines
from pytest_quant.report.comparison_text import fault
from pytest_quant.sides.run import (
    IMPORTED,
    Invocation,
    Selection,
    SideResult,
    is_installed,
    launch_file,
    run_side,
    selection_in,
)
from pytest_quant.sides.side_comparison import PairTimer, Terms, compare_sides
from pytest_quant.spec import LatencyPlan

_PASSED_ON = (
    *("quant_backend", "quant_cpus", "quant_simulate", "quant_device", "quant_confidence"),
    *("quant_lock_timeout", "quant_step_timeout", "quant_pages"),
)
"""Our options that decide what is measured, and how: of the command line, for each commit has its own ini file."""


class AgainstRun:
    """Hooks of the controlling process of a run with ``--quant-against``.

    Parameters
    ----------
    config : of that process.
    controller : has the records of the run.
    """

    def __init__(self, config: pytest.Config, controller: Controller) -> None:
        self._config = config
        self._settings = settings_of(config)
        self._controller = controller
        self._held = ExitStack()
        self._fault = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find the base before any test runs, and a place for what both sides leave."""
        try:
            self._checkout = top_level(self._config.rootpath)
            # What stands for the revision where the user names none.
            revision = None if self._settings.against == "merge-base" else self._settings.against
            state = git_state(self._config.rootpath)
            dirty = state is not None and state.dirty
            self._commit, self._named = base_to_run(Repository(self._config.rootpath), revision, dirty=dirty)
            self._place = self._held.enter_context(workplace(self._checkout))
        except QuantError as error:
            raise pytest.UsageError(clean_lines(f"--quant-against: {error}")) from None
        self._config.add_cleanup(self._held.close)
        self._head = self._place / "head"
        self._head.mkdir()
        self._config.pluginmanager.register(LeftTests(self._head), "quant-leaving")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: SimpleNamespace) -> None:
        """Send a worker of xdist the folder for its engines."""
        node.workerinput["quant_leave"] = str(self._head)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Compare when all tests have run."""
        result = yield
        if session.shouldstop or session.shouldfail:
            why = f"not compared: {session.shouldstop or session.shouldfail}"
            self._fault = end_of(self._config).not_compared = why
        elif self._controller.list_records():
            self._compare()
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run when something regressed, and when what was asked for could not be compared."""
        if self._fault and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section of the comparison, and why the run fails."""
        compared = end_of(self._config).against
        if compared is not None:
            terminalreporter.write_sep("=", f"quant against {clean(self._commit[:12])}")
            listed = (Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
            rows = [row for row in compared.rows if row.outcome not in listed]
            print_comparison(self._config, compared, rows, terminalreporter)
        if self._fault:
            terminalreporter.write_line(clean_lines(f"--quant-against: {self._fault}"), red=True)

    def _compare(self) -> None:
        settings = self._settings
        steps = open_steps(self._config)
        head = self._run_head()
        whole = takes_all(self._config)
        try:
            with steps.show(f"running the tests of {self._commit[:12]}"):
                base = self._run_base(head, whole=whole)
            locks = DeviceLocks(steps.notify, settings.lock_timeout_s)
            times = PairTimer(steps, locks, settings.step_timeout_s or None, settings.max_time_s)
            terms = Terms(settings.against_limit_pct, settings.against_equal, whole, option="--quant-against-limit")
            comparison = compare_sides(base, head, times, terms)
        except QuantError as error:
            self._fault = end_of(self._config).not_compared = str(error)
            return
        comparison = replace(comparison, strict=settings.strict, about=(self._named,))
        end_of(self._config).against = comparison
        self._fault = fault(comparison)

    def _run_head(self) -> SideResult:
        self._controller.note_untracked()
        encoded = decode_records(self._config, self._controller.list_records())
        records = {each.record.nodeid: each.record for each in reversed(encoded)}
        run, cwd = replace(begin(self._config), **list_unrecorded(self._config)), self._config.invocation_params.dir
        return SideResult(self._head, run, tuple(reversed(records.values())), sys.executable, cwd=cwd)

    def _run_base(self, head: SideResult, *, whole: bool) -> SideResult:
        tree = check_out(self._checkout, self._commit, self._place / "base-tree")
        python = sys.executable
        rootdir = self._config.rootpath.resolve()
        differing = changed_dependencies(tree.path, self._checkout, rootdir.relative_to(self._checkout.resolve()))
        notes: list[str] = []
        if self._settings.against_env is not None:
            python = own_python(self._settings.against_env, tree.path)
            which = f": {', '.join(differing)} differ" if differing else ""
            notes.append(f"the base ran in the environment of --quant-against-env{which}")
        elif differing:
            notes.append(
                f"{', '.join(differing)} differ, and both sides ran in this environment; --quant-against-env gives the "
                "base its own"
            )
        nodeids = tuple(record.nodeid for record in head.records)
        selection = Selection(nodeids, whole, str(self._checkout))
        left = run_side(tree, self._invocation(), selection, self._place / "base", python)
        return replace(left, notes=(*notes, *left.notes))

    def _invocation(self) -> Invocation:
        config, source = self._config, pytest.Config.ArgsSource
        paths = None if config.args_source is source.TESTPATHS else tuple(config.args)
        options, cache = tuple(self._forward_options()), self._settings.cache.absolute()
        return Invocation(self._checkout, config.rootpath, config.invocation_params.dir, paths, options, cache)

    def _forward_options(self) -> Iterator[str]:
        for plugin in self._config.getoption("plugins", None) or ():
            yield from ("-p", plugin)
        for override in self._config.getoption("override_ini", None) or ():
            yield from ("-o", override)
        ini = self._config.getoption("inifilename", None)
        if ini:
            place = Path(self._config.invocation_params.dir, ini).resolve()
            if place.is_relative_to(self._checkout.resolve()):
                yield from ("-c", str(self._place / "base-tree" / place.relative_to(self._checkout.resolve())))
        for name in _PASSED_ON:
            if is_on_command_line(self._config, name):
                yield f"--{name.replace('_', '-')}={self._config.getoption(name)}"


class LeftTests:
    """Hooks of every process of a run that leaves what is compared: see `pytest_quant.sides.run`.

    The user's own run leaves the engines that it timed. A run of another commit runs only what is compared with them,
    and no test's body: its marks are measured, and nothing is judged.

    Parameters
    ----------
    folder : gets what is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._selection = selection_in(folder)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are compared."""
        if self._selection is None:
            return
        wanted, marked = set(self._selection.nodeids), filter(is_marked, items)
        items[:] = [item for item in marked if self._selection.others or nodeid_of(item) in wanted]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Function) -> None:
        """Leave what was timed; of another commit nothing but the measurement is wanted."""
        measurement = item.funcargs.get("quant") if is_marked(item) else None
        if isinstance(measurement, Measurement):
            check, file = measurement.check, launch_file(self._folder, nodeid_of(item))
            plan = check.latency or LatencyPlan(batch_size=check.batch_size, pages=settings_of(item.config).pages)
            try:
                TimingJob(*measurement.bench.timed, plan).save(file)
            except LaunchError as error:
                file.with_suffix(".why").write_text(error.what, encoding="utf-8")
        if self._selection is not None:
            pytest.skip("measured")

    def pytest_sessionfinish(self) -> None:
        """Leave what another commit's run imported from the user's checkout, if it imported anything."""
        if self._selection is not None:
            names = _list_imported(Path(self._selection.elsewhere))
            (self._folder / IMPORTED).write_text(json.dumps(names), "utf-8")


def _list_imported(checkout: Path) -> Sequence[str]:
    """Return the modules that came from a folder, but for this package and what is installed there."""
    names = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in ("pytest_quant", "__main__"):
            continue
        if Path(file).resolve().is_relative_to(checkout.resolve()) and not is_installed(Path(file)):
            names.add(name.partition(".")[0])
    return sorted(names)
