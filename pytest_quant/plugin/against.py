"""``--quant-against REV``: the tests of this run are compared with those of another commit, on this machine and now.

The base is run when the tests have ended, in a worktree and a process of its own; then the engines of both are timed in
pairs of fresh processes. All of it is before the end of the session, so that Ctrl-C and SIGTERM end it as they end the
tests, and what is in the temporary folder is gone in any case.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_quant.environment import Repository, git_state
from pytest_quant.environment.worktree import check_out, top_level, workplace
from pytest_quant.errors import QuantError
from pytest_quant.history.compare import Outcome, rule
from pytest_quant.history.merge_base import base_to_run
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.plugin.console import open_console
from pytest_quant.plugin.controller import Controller, takes_all
from pytest_quant.plugin.leave import OPTION, Leaving
from pytest_quant.plugin.outputs import Compared
from pytest_quant.plugin.run_end import decoded, print_comparison, run_in_progress
from pytest_quant.plugin.settings import Settings, on_command_line, settings_of
from pytest_quant.printable import clean, clean_lines
from pytest_quant.sides.compare import PairTimer, Terms, compare_sides
from pytest_quant.sides.dependencies import changed_dependencies, own_python
from pytest_quant.sides.run import Asked, Collected, Left, Selection, read_collected, run_side

MERGE_BASE = "merge-base"
"""What stands for the revision where the user names none."""

_PASSED_ON = (
    *("quant_backend", "quant_simulate", "quant_device", "quant_confidence"),
    *("quant_lock_timeout", "quant_step_timeout", "quant_pages"),
)
"""Our options that decide what is measured, and how: of the command line, for each commit has its own ini file."""

_UNDECIDED = "not everything could be compared, and --quant-strict is set"


class Against:
    """Hooks of the controlling process of a run with ``--quant-against``.

    Parameters
    ----------
    config : of that process.
    controller : has the records of the run.
    """

    def __init__(self, config: pytest.Config, controller: Controller) -> None:
        self._config = config
        self._controller = controller
        self._held = ExitStack()
        self._fault = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find the base before any test runs, and a place for what both sides leave."""
        if self._config.getoption("collectonly", False):
            return

        try:
            checkout = top_level(self._config.rootpath)
            self._commit, self._named = self._base()
            self._place = self._held.enter_context(workplace(checkout))
        except QuantError as error:
            raise pytest.UsageError(clean_lines(f"--quant-against: {error}")) from None
        self._config.add_cleanup(self._held.close)
        self._checkout = checkout
        self._head = self._place / "head"
        self._head.mkdir()
        self._config.pluginmanager.register(Leaving(self._head), "quant-leaving")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: SimpleNamespace) -> None:
        """Tell a worker of xdist where to leave its engines."""
        node.workerinput[OPTION] = str(self._head)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Compare when all tests have run."""
        result = yield
        if self._config.getoption("collectonly", False):
            return result
        if session.shouldstop or session.shouldfail:
            self._leave_out(f"not compared: {session.shouldstop or session.shouldfail}")
        elif self._controller.in_order():
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
        compared = self._controller.against
        if compared is not None:
            terminalreporter.write_sep("=", f"quant against {clean(self._commit[:12])}")
            listed = (Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
            rows = [row for row in compared.comparison.rows if row.outcome not in listed]
            print_comparison(self._config, compared, rows, terminalreporter)
        if self._fault:
            terminalreporter.write_line(clean_lines(f"--quant-against: {self._fault}"), red=True)

    def _base(self) -> tuple[str, str]:
        """Return the base's commit and the line that names it. Raises `UsageError`."""
        revision = None if self._settings.against == MERGE_BASE else self._settings.against
        state = git_state(self._config.rootpath)
        dirty = state is not None and state.dirty
        return base_to_run(Repository(self._config.rootpath), revision, dirty=dirty)

    @property
    def _settings(self) -> Settings:
        return settings_of(self._config)

    def _compare(self) -> None:
        settings = self._settings
        steps = Steps(open_console(self._config))
        head = self._left_by_head()
        whole = takes_all(self._config)
        try:
            with steps.show(f"running the tests of {self._commit[:12]}"):
                base = self._left_by_base(head, whole=whole)
            times = PairTimer(
                steps,
                DeviceLocks(steps.notify, settings.lock_timeout_s),
                settings.step_timeout_s or None,
                settings.max_time_s,
            )
            terms = Terms(settings.against_limit_pct, settings.against_equal, whole, option="--quant-against-limit")
            comparison = compare_sides(base, head, times, terms)
        except QuantError as error:
            self._leave_out(str(error))
            return
        ruling = rule(comparison, strict=settings.strict)
        self._controller.against = Compared(self._named, comparison, ruling)
        if ruling.code:
            worse = len(comparison.having(Outcome.REGRESSION))
            self._fault = f"{worse} of {len(comparison.rows)} rows regressed" if worse else _UNDECIDED

    def _leave_out(self, why: str) -> None:
        self._fault = self._controller.not_compared = why

    def _left_by_head(self) -> Left:
        encoded = decoded(self._config, self._controller.in_order())
        records = {each.record.nodeid: each.record for each in reversed(encoded)}
        return Left(
            self._head,
            run_in_progress(self._config).run,
            tuple(reversed(records.values())),
            read_collected(self._head) or Collected(),
            sys.executable,
            cwd=self._config.invocation_params.dir,
        )

    def _left_by_base(self, head: Left, *, whole: bool) -> Left:

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
        left = run_side(tree, self._asked(), selection, self._place / "base", python)
        return replace(left, notes=(*notes, *left.notes))

    def _asked(self) -> Asked:
        config, source = self._config, pytest.Config.ArgsSource
        paths = None if config.args_source is source.TESTPATHS else tuple(config.args)
        return Asked(
            checkout=self._checkout,
            rootdir=config.rootpath,
            cwd=config.invocation_params.dir,
            paths=paths,
            options=tuple(self._passed_on()),
            cache=self._settings.cache.absolute(),
        )

    def _passed_on(self) -> Iterator[str]:
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
            if on_command_line(self._config, name):
                yield f"--{name.replace('_', '-')}={self._config.getoption(name)}"
