"""Collection of marked tests: each requests its check, every key is validated, and lists parametrize."""

from __future__ import annotations

import re
import unittest
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from pytest_quant.backends import TARGET, backend_names, get_backend, nearest_backend
from pytest_quant.environment.revision import path_in_checkout
from pytest_quant.errors import BackendUnavailable, QuantError, UsageError
from pytest_quant.marks import NAME, is_marked, marks_of_parameters, own_marks
from pytest_quant.marks.expansion import check_backends, check_id, checks_of, combine, series_nodeid, sort_closest_first
from pytest_quant.marks.keys import MarkKeys
from pytest_quant.plugin.settings import Settings, settings_of
from pytest_quant.printable import clean, clean_lines
from pytest_quant.record import EncodedRecord
from pytest_quant.report.columns import pick_columns
from pytest_quant.spec import Check, EngineSpec

VARIANT_FIXTURE = "_quant_variant"
_DEFAULT_FIXTURES = {"model": "quant_model", "data": "quant_data", "quantized": None, "scores": None}
_MARKS = pytest.StashKey[dict[tuple[object, ...], tuple[MarkKeys, tuple[Check, ...], object]]]()


@dataclass(slots=True)
class ItemState:
    """What is known of the check of one item.

    Attributes
    ----------
    keys : of its marks.
    planned : its check as the marks say it. Its node id is the one at collection, before xdist adds a group to it.
    check : the same, into which the fixture ``quant`` fills model and data.
    record : of the check, once it is judged or has failed.
    samples_ns : of every timed run by engine, for pytest-benchmark.
    failure : the message of the failure that the verdict caused.
    absent : the error of a required backend that cannot run here; the test fails with it before its body.
    """

    keys: MarkKeys
    planned: Check
    check: Check
    record: EncodedRecord | None = None
    samples_ns: dict[str, list[int]] | None = None
    failure: str | None = None
    absent: BackendUnavailable | None = None


STATE = pytest.StashKey[ItemState]()


def nodeid_of(item: pytest.Item) -> str:
    """Return the node id of a test at collection, which its record has: xdist may have added a group to it since."""
    return item.stash[STATE].check.nodeid if STATE in item.stash else item.nodeid


def refuse_unknown_names(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a backend that is not registered, and for a column that does not exist."""
    settings = settings_of(config)
    registered = backend_names()
    for option, names in (("--quant-backend", (settings.backend,)), ("--quant-require", settings.require)):
        for name in names:
            if name not in registered:
                raise pytest.UsageError(clean(f"{option}: unknown backend '{name}'; {nearest_backend(name)}"))
    try:
        pick_columns(settings.columns)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@contextmanager
def request_check(collector: pytest.Collector, obj: object) -> Iterator[None]:
    """Make a marked test function use the fixture ``quant``, as by ``usefixtures``, while it is collected.

    The fixtures of its model and data are requested too, because pytest only knows the parameters of fixtures that a
    test requests at collection. Where only some parameters of a function are marked, `prepare` lets their items use
    ``quant``. Afterwards the author's function is unchanged.
    """
    function = getattr(obj, "__func__", obj)
    is_all_marked = bool(own_marks(function)) or is_marked(collector)
    names = sorted(set(_fixtures_named(collector, function, is_all_marked=is_all_marked)))
    requested = pytest.mark.usefixtures(*([NAME] if is_all_marked else []), *names).mark
    marks = [*getattr(function, "pytestmark", []), *([requested] if requested.args else [])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function, "pytestmark", marks, raising=False)
        yield


def _fixtures_named(collector: pytest.Collector, function: object, *, is_all_marked: bool) -> Iterator[str]:
    """Yield the fixtures that give model and data to any test of the function."""
    of_function = [*own_marks(function), *sort_closest_first(collector)[1]]
    of_parameters = marks_of_parameters(function, collector)
    for of_parameter in [*of_parameters, *([[]] if is_all_marked else [])]:
        marks = [*of_parameter, *of_function]
        for key, default in _DEFAULT_FIXTURES.items():
            written = [mark.kwargs[key] for mark in marks if mark.kwargs.get(key) is not None]
            name = written[0] if written else default
            if default and any(mark.kwargs.get("scores") is not None for mark in marks):
                continue
            if isinstance(name, str) and fixture_exists(collector, name):
                yield name


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by the engines that the lists of its mark name."""
    with _collect_errors(metafunc.definition.nodeid):
        pick_columns(settings_of(metafunc.config).columns)
        keys, checks = _read_marks(metafunc.definition)
    if keys.lists and VARIANT_FIXTURE in metafunc.fixturenames:
        ids = [check_id(check, keys) for check in checks]
        metafunc.parametrize(VARIANT_FIXTURE, checks, ids=ids, indirect=True)


def check_collected(items: Iterable[object]) -> None:
    """Check the marks of every collected item; an error ends the collection of its file without a traceback."""
    for item in items:
        if isinstance(item, pytest.Function) and is_marked(item):
            with _collect_errors(item.nodeid):
                prepare(item)


def prepare(item: pytest.Item) -> None:
    """Plan the check of `item`, and make it request the fixture ``quant`` if its mark was added late.

    A mark may come from a ``pytest.param`` or from another plugin after collection.

    Raises
    ------
    UsageError : the mark is not valid, or the item would run without its check.
    """
    if not isinstance(item, pytest.Function) or (item.cls is not None and issubclass(item.cls, unittest.TestCase)):
        what = "a unittest.TestCase" if isinstance(item, pytest.Function) else f"a {type(item).__name__}"
        raise UsageError(
            f"{what} is marked with quant, and would run without its check",
            value=item.nodeid,
            allowed="test functions and methods of plain classes",
            fix="write it as a function: def test_model(): ...",
        )
    keys, checks = _read_marks(item)
    before = item.stash.get(STATE, None)
    if before is not None and before.keys is keys:
        item.stash[STATE] = ItemState(keys, before.planned, before.planned)
        return
    check = _plan_listed(item, keys) if keys.lists else checks[0]
    check_backends(check)
    nodeid = item.nodeid if before is None else before.planned.nodeid
    # Whichever of these plugins comes last.
    repeated, listed = list(_list_repeats(item)), [re.escape(check_id(check, keys))] if keys.lists else []
    series = series_nodeid(_checkout_nodeid(item, nodeid), *repeated, *listed, *repeated)
    planned = replace(check, nodeid=nodeid, series_nodeid=series)
    item.stash[STATE] = ItemState(keys, planned, planned)
    if NAME not in item.fixturenames:
        item.fixturenames = [*item.fixturenames, NAME]


def _list_repeats(item: pytest.Function) -> Iterator[str]:
    """Yield the id, ``2-3`` or ``1``, of a test that pytest-repeat or pytest-flakefinder made of another."""
    for name, number in item.callspec.params.items() if hasattr(item, "callspec") else ():
        if isinstance(number, int) and name.startswith(("__pytest_repeat_", "__flakefinder_")):
            yield rf"{number + 1}-\d+|{number}"


def _checkout_nodeid(item: pytest.Item, nodeid: str) -> str:
    """Return the node id with the path of the file below the top of the checkout; outside of git as it is."""
    folder = path_in_checkout(item.path.parent, item.config.rootpath)
    return nodeid if folder is None else (folder / item.path.name).as_posix() + nodeid[nodeid.find("::") :]


def _plan_listed(item: pytest.Function, keys: MarkKeys) -> Check:
    callspec = getattr(item, "callspec", None)
    check = None if callspec is None else callspec.params.get(VARIANT_FIXTURE)
    if not isinstance(check, Check):
        raise UsageError(
            f"{', '.join(keys.lists)}: the list cannot parametrize this test",
            value=f"{item.nodeid}: the mark came after collection, or another fixture is named 'quant'",
            fix="write the list in the mark of the function, its class or its module, and name no fixture 'quant'",
        )
    return check


def _read_marks(node: pytest.Item) -> tuple[MarkKeys, tuple[Check, ...]]:
    """Return the keys of a node's marks, and their checks, made once for all nodes with the same marks and values."""
    of_parameter, others = sort_closest_first(node)
    marks = (*of_parameter, *others)
    written = [(id(mark), *((key, id(value)) for key, value in mark.kwargs.items())) for mark in marks]
    cache = node.config.stash.setdefault(_MARKS, {})
    key = (len(of_parameter), *written)
    if key not in cache:
        keys = combine(others, of_parameter)
        settings = settings_of(node.config)
        checks = tuple(apply_settings(check, settings) for check in checks_of(keys, settings.backend))
        # The key has ids of marks and values, which stay unique as long as the objects are kept.
        cache[key] = keys, checks, [(mark, *mark.kwargs.values()) for mark in marks]
    keys, checks, _ = cache[key]
    return keys, checks


def apply_settings(check: Check, settings: Settings) -> Check:
    """Return the check with what the options of the run say about it."""
    if not check.engines:
        return replace(check, confidence=settings.confidence)
    latency = None
    if check.latency is not None and not settings.latency_off:
        latency = replace(check.latency, max_s=settings.max_time_s, pages=settings.pages)
    candidate = check.candidate
    if not candidate.cpus and candidate.precision == "int8" and get_backend(candidate.backend).device == "cpu":
        candidate = replace(candidate, cpus=settings.cpus)
    return replace(
        check,
        candidate=candidate,
        latency=latency,
        confidence=settings.confidence,
        **{name: getattr(settings, name) for name in ("latency_off", "accuracy_off", "portability_off")},
    )


@contextmanager
def _collect_errors(nodeid: str) -> Iterator[None]:
    """Raise a `QuantError` as a collection error, which prints as text and reaches xdist's controller."""
    try:
        yield
    except QuantError as error:
        raise pytest.Collector.CollectError(clean_lines(f"{nodeid}: {error}")) from None


def fixture_exists(node: pytest.Item | pytest.Collector, name: str) -> bool:
    """Whether a fixture called `name` is visible to `node`."""
    manager = node.session._fixturemanager  # noqa: SLF001 - pytest has no public way to ask
    return bool(manager.getfixturedefs(name, node))


def simulate_check(check: Check, target: str | None) -> Check:
    """Return a check whose engines are built for `target`, like ``SM89``, if they take a target and cannot run here."""
    return check if target is None else check.map_engines(lambda spec: _apply_target(spec, target))


def _apply_target(spec: EngineSpec, target: str) -> EngineSpec:
    backend = get_backend(spec.backend)
    options = dict(spec.options)
    if TARGET in options or TARGET not in backend.offer.options or backend.availability(spec).available:
        return spec
    return replace(spec, options=tuple(sorted({**options, TARGET: target}.items())))
