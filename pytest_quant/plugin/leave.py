"""What a run leaves about its checks where two commits are compared: see `pytest_quant.sides.run`.

The user's own run leaves the engines that it timed. A run of another commit runs only what is compared with them, and
no test's body: its marks are measured, and nothing is judged.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_quant.errors import LaunchError
from pytest_quant.marks.marked import is_marked
from pytest_quant.measure.bench import Measurement
from pytest_quant.measure.timing_process import TimingJob
from pytest_quant.plugin.collect import STATE
from pytest_quant.plugin.settings import settings_of
from pytest_quant.sides.run import Collected, launch_file, read_selection, write_collected
from pytest_quant.spec import LatencyPlan, Pages

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MOST_LETTERS = 2000
OPTION = "quant_leave"


class Leaving:
    """Hooks of every process of such a run, xdist's workers too.

    Parameters
    ----------
    folder : gets what is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._selection = read_selection(folder)
        self._errors: dict[str, str] = {}
        self._tests: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected."""
        if report.failed:
            self._errors[report.nodeid] = str(report.longrepr)[-_MOST_LETTERS:]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are compared, and describe every marked one."""
        marked = [item for item in items if is_marked(item)]
        self._tests = {_nodeid(item): _digest(item) for item in marked}
        if self._selection is None:
            return
        wanted = set(self._selection.nodeids)
        items[:] = [item for item in marked if self._selection.others or _nodeid(item) in wanted]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Function) -> None:
        """Leave what was timed; of another commit nothing but the measurement is wanted."""
        measurement = item.funcargs.get("quant") if is_marked(item) else None
        if isinstance(measurement, Measurement):
            self._leave(_nodeid(item), measurement, settings_of(item.config).pages)
        if self._selection is not None:
            pytest.skip("measured")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave what was collected: in xdist's workers the same, which one of them therefore writes."""
        # The controller of xdist collects nothing itself.
        collects = self._tests or self._errors or self._selection is not None
        if collects and getattr(session.config, "workerinput", {}).get("workerid", "gw0") == "gw0":
            self._write_collected(())

    def pytest_sessionfinish(self) -> None:
        """Leave what another commit's run imported from the user's checkout, where it imported anything."""
        if self._selection is not None:
            self._write_collected(_imported_from(Path(self._selection.elsewhere)))

    def _write_collected(self, imported: Sequence[str]) -> None:
        write_collected(self._folder, Collected(self._tests, self._errors, tuple(imported)))

    def _leave(self, nodeid: str, measurement: Measurement, pages: Pages) -> None:
        if measurement.bench is None:
            return
        plan = measurement.check.latency or LatencyPlan(batch_size=measurement.check.batch_size, pages=pages)
        file = launch_file(self._folder, nodeid)
        try:
            TimingJob.of(*measurement.bench.timed, plan).save(file)
        except LaunchError as error:
            file.with_suffix(".why").write_text(error.what, encoding="utf-8")


def _nodeid(item: pytest.Item) -> str:
    """Return the node id of the check, to which xdist may have added a group since."""
    state = item.stash.get(STATE, None)
    return item.nodeid if state is None else state.check.nodeid


def _digest(item: pytest.Item) -> str:
    """Return a digest of a test's mark and code; addresses of objects in it do not count."""
    state = item.stash.get(STATE, None)
    function = getattr(item, "function", None)
    try:
        code = "" if function is None else inspect.getsource(function)
    except (OSError, TypeError):
        code = ""
    mark = "" if state is None else _ADDRESS.sub("", repr(state.keys))
    return hashlib.sha256(f"{mark}\n{code}".encode()).hexdigest()[:16]


def _imported_from(checkout: Path) -> Sequence[str]:
    """Return the modules that came from a folder, but for this package and what is installed there."""
    installed = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    names = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in ("pytest_quant", "__main__"):
            continue
        place = Path(file).resolve()
        inside = place.is_relative_to(checkout.resolve())
        if inside and not any(map(place.is_relative_to, installed)):
            names.add(name.partition(".")[0])
    return sorted(names)
