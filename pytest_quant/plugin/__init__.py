"""The hooks. Everything that they need beyond pytest is imported with the first marked test."""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

import pytest_quant.clocks  # noqa: F401 - before a test can put another clock in the place of the real one
from pytest_quant.errors import QuantError, UsageError, nearest
from pytest_quant.host import quote
from pytest_quant.marks import NAME, is_marked, marks_of_parameters, own_marks
from pytest_quant.plugin import hooks
from pytest_quant.plugin.controller import BeforeSplit, Controller, note_left_out, note_split
from pytest_quant.plugin.settings import (
    OPTIONS,
    add_options,
    is_on_command_line,
    keeps_benchmarks,
    settings_of,
    shard_of,
)

_MARK_ERRORS = pytest.StashKey[list[str]]()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others implement."""
    pluginmanager.add_hookspecs(hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--quant-*`` and the ini options."""
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, None, None]:
    """Refuse a misspelt option of ours, once those that the user's conftest.py declares are known."""
    yield
    nobodys = parser.parse_known_and_unknown_args(args)[1] if any("-quant-" in word for word in args) else []
    for name in (word.partition("=")[0] for word in nobodys):
        if name.startswith(("--quant-", "--no-quant-")):
            hint = nearest(name, (option.flag for option in OPTIONS)).partition(" known: ")[0]
            raise pytest.UsageError(str(UsageError(f"there is no option {name}", allowed=hint, fix="pytest --help")))


def _refuse_root_of_value(config: pytest.Config) -> None:
    """Refuse a file behind an option and a blank where pytest chose the root folder by it, as by a path of tests.

    It does so before it knows our options, and only if there is such a file.
    """
    here, words = config.invocation_params.dir, map(str, config.invocation_params.args)
    flags = {option.flag for option in OPTIONS if option.kind is not None and "FILE" in option.kind.metavar}
    taken = [(flag, value) for flag, value in pairwise(words) if flag in flags and (here / value).exists()]
    is_own = config.rootpath == here or (config.inipath is not None and here.is_relative_to(config.rootpath))
    if taken and not is_own:
        flag, value = taken[0]
        what = f"pytest took the value of {flag} for a path of tests, and by it {config.rootpath} for the root folder"
        raise pytest.UsageError(str(UsageError(what, value=value, fix=f"write {flag}={quote(value)}")))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse bad options, describe the mark, and register the collection of records in the controlling process."""
    settings = settings_of(config)
    # Those in the ini file wait for the first marked test, since this loads numpy.
    if any(is_on_command_line(config, name) for name in ("quant_backend", "quant_require", "quant_columns")):
        from pytest_quant.plugin.collect import refuse_unknown_names

        refuse_unknown_names(config)
    _refuse_root_of_value(config)
    _refuse_workers(config, settings.workers)
    if is_on_command_line(config, "quant_device"):
        from pytest_quant.plugin.devices import choose_early

        choose_early(config)
    text = f"{NAME}(**keys): quantize a model and judge it against its FP32 reference; all keys: pytest --markers"
    if config.getoption("markers", False):
        from pytest_quant.marks.keys import describe

        text = describe()
    config.addinivalue_line("markers", text)
    # The name `pytest_plugins` would let pytest look through every installed package for it: some 8 ms.
    config.pluginmanager.import_plugin("pytest_quant.plugin.fixtures")
    profile, diagnose = config.getoption("quant_profile"), config.getoption("quant_diagnose")
    if profile or diagnose:
        from pytest_quant.plugin.single_check import Diagnosing, Profiling

        alone = Profiling(Path(profile)) if profile else Diagnosing(Path(diagnose))
        config.pluginmanager.register(alone, "quant-alone")
    elif not (hasattr(config, "workerinput") or config.getoption("collectonly", False)):
        controller = Controller(config)
        config.pluginmanager.register(controller, "quant-controller")
        if keeps_benchmarks(config):
            from pytest_quant.plugin.benchmark_bridge import BenchmarkBridge

            config.pluginmanager.register(BenchmarkBridge(config), "quant-benchmark-bridge")
        if settings.against and not config.getoption("quant_leave"):
            from pytest_quant.plugin.against import AgainstRun

            config.pluginmanager.register(AgainstRun(config, controller), "quant-against")
    if shard_of(config):
        config.pluginmanager.register(BeforeSplit(), "quant-before-split")
    leave = getattr(config, "workerinput", {}).get("quant_leave") or config.getoption("quant_leave")
    if leave:
        from pytest_quant.plugin.against import LeftTests

        config.pluginmanager.register(LeftTests(Path(leave)), "quant-leaving")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Generator[None, object, object]:
    """Let a marked test function request its check, and check every key of its marks."""
    is_test = collector.funcnamefilter(name) and collector.istestfunction(obj, name) and not isinstance(obj, type)
    if not is_test or not (own_marks(obj) or is_marked(collector) or marks_of_parameters(obj, collector)):
        return (yield)
    from pytest_quant.plugin.collect import check_collected, request_check

    try:
        with request_check(collector, obj):
            collected = yield
        check_collected(collected if isinstance(collected, list) else [collected])
    except pytest.Collector.CollectError as error:
        collector.stash.setdefault(_MARK_ERRORS, []).append(str(error))
        return None
    return collected


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail the collection of a file or class with the errors of all its marks, so that one run shows them."""
    report = yield
    errors = collector.stash.get(_MARK_ERRORS, [])
    if errors and report.passed:
        report.outcome, report.longrepr, report.result = "failed", "\n".join(errors), []
    return report


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn the lists of a mark into tests, after the author's own parameters."""
    if is_marked(metafunc.definition):
        from pytest_quant.plugin.collect import parametrize

        parametrize(metafunc)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Note whether an option or a plugin that splits the suite removes tests, and prepare the process for the rest."""
    collected = list(items)
    yield
    note_left_out(config, collected, items)
    note_split(config, items)
    marked = [item for item in items if is_marked(item)]
    if marked:
        from pytest_quant.backends import get_backend
        from pytest_quant.plugin.collect import STATE
        from pytest_quant.plugin.devices import choose

        engines = [spec for item in marked if STATE in item.stash for spec in item.stash[STATE].check.engines]
        choose(config, (spec.backend for spec in engines))
        for spec in engines:
            get_backend(spec.backend).before_loading(spec)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marked item that would run without its check."""
    if is_marked(item):
        from pytest_quant.plugin.item_check import set_up

        set_up(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Apply the verdict after the body; a body that raises shows its own error."""
    if not is_marked(item):
        return (yield)
    from pytest_quant.plugin.item_check import apply_verdict, refuse_unchecked_body

    refuse_unchecked_body(item)
    result = yield
    apply_verdict(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the record of a check to its report."""
    report = yield
    if is_marked(item) or (call.excinfo is not None and isinstance(call.excinfo.value, QuantError)):
        from pytest_quant.plugin.item_check import attach

        attach(item, call, report)
    return report


def _refuse_workers(config: pytest.Config, place: str) -> None:
    """Refuse workers of Dask that cannot be, and those that each worker of xdist would start anew."""
    if not place:
        return
    if place.startswith("local:") and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(
            f"--quant-workers {place} would start its processes in each worker of xdist; leave -n out, or name one "
            "scheduler for all of them, --quant-workers tls://HOST:8786"
        )
    if find_spec("distributed") is None:
        raise pytest.UsageError('--quant-workers needs dask.distributed: pip install "pytest-quant[dask]"')
