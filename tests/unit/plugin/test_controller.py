"""The controlling process keeps one record of each test, and knows whether a run takes every test."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import pytest_quant.plugin.run_end  # noqa: F401 - loads numpy, which cannot be loaded again in one process
from pytest_quant.marks import RECORD_ATTRIBUTE
from pytest_quant.plugin.controller import Controller, note_left_out, takes_all
from pytest_quant.record import build_failed_record
from pytest_quant.result import Status
from pytest_quant.spec import Check, Dataset, EngineSpec, Model
from tests.support.repository import make_repository, without_ci


def _report(nodeid: str, status: Status | None, worker: str = "") -> pytest.TestReport:
    spec = EngineSpec("ort", "fp32", None, Model("m"))
    check = Check(nodeid, nodeid, spec, spec, Dataset("arrays", None))
    report = pytest.TestReport(nodeid, ("t.py", 0, nodeid), {}, "passed", None, "call")
    if status is not None:
        vars(report)[RECORD_ATTRIBUTE] = build_failed_record(check, status=status, message="why").json
    if worker:
        vars(report).update(worker_id=worker, item_index=0)
    return report


def _kept(pytester: pytest.Pytester, reports: list[pytest.TestReport], *args: str) -> list[tuple[str, str]]:
    """The node id and status of each record of a run with these reports."""
    controller = Controller(pytester.parseconfig("--quant-json=run.json", "--quant-no-history", *args))
    for report in reports:
        controller.pytest_runtest_logreport(report)
    session = pytest.Session.from_config(pytester.parseconfig())
    session.exitstatus = pytest.ExitCode.OK
    controller.pytest_sessionfinish(session)
    assert session.exitstatus is pytest.ExitCode.OK
    checks = json.loads(Path("run.json").read_text())["checks"]
    return [(check["nodeid"], check["status"]) for check in checks]


def test_of_several_reports_of_one_test_the_last_counts(pytester: pytest.Pytester) -> None:
    """A rerun keeps its place, a worker may die after its report, and reports without a record change nothing."""
    written = (("a", Status.ERROR), ("b", Status.PASS), ("a", Status.UNAVAILABLE), ("b", None))
    assert _kept(pytester, [_report(*each) for each in written]) == [("a", "UNAVAILABLE"), ("b", "PASS")]
    reports = [_report("a", Status.ERROR, "gw0"), _report("a", Status.PASS, "gw1")]
    assert _kept(pytester, reports, "--dist=load") == [("a", "PASS")]


def test_a_failure_that_its_test_expects_is_kept_as_such(pytester: pytest.Pytester) -> None:
    """The record says so, for comparisons that know no report."""
    report = _report("a", Status.FAIL)
    vars(report).update(outcome="skipped", wasxfail="no such model yet")
    _kept(pytester, [report, _report("b", Status.PASS)])
    assert [check["expected"] for check in json.loads(Path("run.json").read_text())["checks"]] == [True, False]


def test_a_test_that_git_does_not_track_makes_its_run_dirty(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a conftest.py above it; a model, an environment in the checkout and a file that git ignores do not."""
    without_ci(monkeypatch)
    repository = make_repository(pytester.path)
    for name in ("tests/unit/test_old.py", "tests/unit/test_made.py", ".venv/lib/test_venv.py", "model.onnx"):
        (pytester.path / name).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / name).touch()
    (pytester.path / ".gitignore").write_text("test_made.py\n")
    repository.git("add", "tests/unit/test_old.py")
    repository.commit("1")

    def is_dirty(*names: str) -> bool:
        _kept(pytester, [_report(f"tests/unit/test_{name}.py::test_it", Status.PASS) for name in names])
        run = json.loads(Path("run.json").read_text())["run"]
        assert (run["tree"] is None) is run["dirty"]
        return bool(run["dirty"])

    (pytester.path / "tests" / "unit" / "test_new.py").touch()
    assert (is_dirty("old", "made"), is_dirty("old", "new")) == (False, True)
    (pytester.path / "tests" / "conftest.py").touch()
    assert is_dirty("old")


_PASSING = "def test_one(): pass\ndef test_two(): pass\n"


def _config(pytester: pytest.Pytester, *args: str) -> pytest.Config:
    return pytester.parseconfig(*args)


def _items(pytester: pytest.Pytester) -> list[pytest.Item]:
    return pytester.getitems(_PASSING)


@pytest.mark.parametrize(
    "args",
    [
        ("-k", "one"),
        ("-m", "fast"),
        ("test_it.py::test_one",),
        ("--lf",),
        ("--sw",),
        ("--deselect", "test_it.py::test_one"),
        ("--ignore", "test_it.py"),
        ("--ignore-glob", "*it.py"),
    ],
)
def test_what_names_or_leaves_out_tests_takes_a_part(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    """Each of pytest's own ways to choose tests."""
    pytester.makepyfile(test_it=_PASSING)
    assert not takes_all(_config(pytester, *args))


def test_without_a_choice_all_tests_run(pytester: pytest.Pytester) -> None:
    """The order of the tests is no choice of some."""
    config, items = _config(pytester), _items(pytester)
    note_left_out(config, items, items[::-1])
    assert takes_all(config)


_SUITE = "[pytest]\ntestpaths = unit integration/*\n"


@pytest.mark.parametrize(
    ("ini", "args", "all_of_it"),
    [
        ("[pytest]\n", (".",), True),
        ("[pytest]\n", ("{root}",), True),
        ("[pytest]\n", ("unit/..",), True),
        ("[pytest]\n", ("unit", "."), True),
        (_SUITE, (".",), True),
        (_SUITE, ("integration/a", "unit/", "{root}/integration/b"), True),
        ("[pytest]\n", ("unit", "integration"), False),
        (_SUITE, ("unit", "integration/a"), False),
        (_SUITE, ("unit", "integration/a", "integration/b/test_it.py::test_one"), False),
        ("[pytest]\ntestpaths = nowhere\n", ("unit",), False),
    ],
)
def test_naming_the_whole_suite_leaves_nothing_out(
    pytester: pytest.Pytester, ini: str, args: tuple[str, ...], all_of_it: bool
) -> None:
    """It is what pytest takes without a path: the root directory, or every folder of testpaths, empty or not."""
    pytester.makeini(ini)
    for folder in ("unit", "integration/a", "integration/b"):
        (pytester.path / folder).mkdir(parents=True)
    assert takes_all(_config(pytester, *(arg.format(root=pytester.path) for arg in args))) is all_of_it


def test_paths_are_those_of_the_folder_that_pytest_starts_in(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a single dot is that folder, a part of the suite, and two are the root directory."""
    pytester.makeini("[pytest]\n")
    monkeypatch.chdir(pytester.mkdir("unit"))
    assert not takes_all(_config(pytester, "."))
    assert takes_all(_config(pytester, ".."))


def test_a_test_that_a_plugin_took_out_is_left_out(pytester: pytest.Pytester) -> None:
    """Even where another one came in for it."""
    items = _items(pytester)
    for remaining in ([], items[:1], [items[0], _items(pytester)[0]]):
        config = _config(pytester)
        note_left_out(config, items, remaining)
        assert not takes_all(config)


def test_a_worker_tells_its_controller(pytester: pytest.Pytester) -> None:
    """What it says travels as xdist's own output of a worker; a worker that crashed has none."""
    worker, controller, items = _config(pytester), _config(pytester), _items(pytester)
    output: dict[str, object] = {}
    worker.workeroutput = output  # type: ignore[attr-defined]
    note_left_out(worker, items, items)
    assert output == {}
    note_left_out(worker, items, items[1:])
    for node in (SimpleNamespace(), SimpleNamespace(workeroutput={})):
        Controller(controller).pytest_testnodedown(node)
        assert takes_all(controller)
    Controller(controller).pytest_testnodedown(SimpleNamespace(workeroutput=output))
    assert not takes_all(controller)
