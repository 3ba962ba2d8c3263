"""Collection of marked tests: each requests its check, every key is validated, and lists parametrize."""

from __future__ import annotations

import unittest
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from pytest_quant.backends import backend_names, get_backend
from pytest_quant.errors import QuantError, UsageError, nearest
from pytest_quant.marks.check import check_backend, set_up_process
from pytest_quant.marks.keys import Asked
from pytest_quant.marks.marked import NAME, is_marked, marks_of_parameters, own_marks
from pytest_quant.marks.variants import Offer, Variant, closest_first, combine, series_nodeid, variants
from pytest_quant.plugin.resolve import fixture_exists
from pytest_quant.plugin.settings import settings_of
from pytest_quant.printable import clean, clean_lines
from pytest_quant.report.columns import pick_columns

VARIANT_FIXTURE = "_quant_variant"
_DEFAULT_FIXTURES = {"model": "quant_model", "data": "quant_data", "quantized": None}
_BACKENDS = pytest.StashKey[tuple[str, ...]]()
_ASKED = pytest.StashKey[dict[tuple[object, ...], tuple[Asked, object]]]()


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of one item's check; `nodeid` is the one at collection, before xdist adds a group to it."""

    asked: Asked
    variant: Variant
    nodeid: str
    series_nodeid: str


PLANNED = pytest.StashKey[Planned]()


def refuse_unknown_names(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a backend that is not registered, and for a column that does not exist."""
    settings = settings_of(config)
    registered = backend_names()
    for option, names in (("--quant-backend", (settings.backend,)), ("--quant-require", settings.require)):
        for name in names:
            if name not in registered:
                raise pytest.UsageError(clean(f"{option}: unknown backend '{name}'; {nearest(name, registered)}"))
    try:
        pick_columns(settings.columns)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@contextmanager
def requesting_check(collector: pytest.Collector, obj: object) -> Iterator[None]:
    """Make a marked test function use the fixture ``quant``, as by ``usefixtures``, while it is collected.

    The fixtures of its model and data are requested too, because pytest only knows the parameters of fixtures that a
    test requests at collection. Where only some parameters of a function are marked, `prepare` lets their items use
    ``quant``. Afterwards the author's function is unchanged.
    """
    function = getattr(obj, "__func__", obj)
    before = getattr(function, "pytestmark", None)
    is_all_marked = bool(own_marks(function)) or is_marked(collector)
    names = sorted(set(_fixtures_named(collector, function, is_all_marked=is_all_marked)))
    requested = pytest.mark.usefixtures(*([NAME] if is_all_marked else []), *names).mark
    setattr(function, "pytestmark", [*(before or []), *([requested] if requested.args else [])])  # noqa: B010
    try:
        yield
    finally:
        if before is None:
            delattr(function, "pytestmark")
        else:
            setattr(function, "pytestmark", before)  # noqa: B010


def _fixtures_named(collector: pytest.Collector, function: object, *, is_all_marked: bool) -> Iterator[str]:
    """Yield the fixtures that give model and data to any test of the function."""
    of_function = [*own_marks(function), *closest_first(collector)[1]]
    of_parameters = marks_of_parameters(function, collector)
    for of_parameter in [*of_parameters, *([[]] if is_all_marked else [])]:
        marks = [*of_parameter, *of_function]
        for key, default in _DEFAULT_FIXTURES.items():
            written = [mark.kwargs[key] for mark in marks if mark.kwargs.get(key) is not None]
            name = written[0] if written else default
            if isinstance(name, str) and fixture_exists(collector, name):
                yield name


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by the engines that the lists of its mark name."""
    settings = settings_of(metafunc.config)
    with _collect_errors(metafunc.definition.nodeid):
        pick_columns(settings.columns)
        asked = _ask(metafunc.definition)
        engines = variants(asked, settings.backend, _offer)
    if asked.lists and VARIANT_FIXTURE in metafunc.fixturenames:
        metafunc.parametrize(VARIANT_FIXTURE, engines, ids=[variant.id for variant in engines], indirect=True)


def check_collected(made: object) -> None:
    """Check the marks of every collected item; an error ends the collection of its file without a traceback."""
    for item in made if isinstance(made, list) else [made]:
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
    asked = _ask(item)
    variant = _variant(item, asked)
    check_backend(asked, variant, get_backend)
    known = item.stash.get(PLANNED, None)
    nodeid = item.nodeid if known is None else known.nodeid
    listed = variant.id if asked.lists else None
    item.stash[PLANNED] = Planned(asked, variant, nodeid, series_nodeid(nodeid, listed))
    if NAME not in item.fixturenames:
        item.fixturenames = [*item.fixturenames, NAME]


def before_loading(items: Iterable[pytest.Item]) -> None:
    """Let the backends of the items that will run set what their runtimes read of the process, before any is loaded."""
    for item in items:
        planned = item.stash.get(PLANNED, None)
        if planned is not None:
            set_up_process(planned.asked, planned.variant, get_backend)


def _variant(item: pytest.Function, asked: Asked) -> Variant:
    if not asked.lists:
        return variants(asked, settings_of(item.config).backend, _offer)[0]
    callspec = getattr(item, "callspec", None)
    chosen = None if callspec is None else callspec.params.get(VARIANT_FIXTURE)
    if not isinstance(chosen, Variant):
        raise UsageError(
            f"{', '.join(asked.lists)}: the list cannot parametrize this test",
            value=f"{item.nodeid}: the mark came after collection, or another fixture is named 'quant'",
            fix="write the list in the mark of the function, its class or its module, and name no fixture 'quant'",
        )
    return chosen


def _ask(node: pytest.Item) -> Asked:
    """Return the parsed marks of `node`, parsed once for all nodes with the same marks and values."""
    of_parameter, others = closest_first(node)
    marks = (*of_parameter, *others)
    written = [(id(mark), *((key, id(value)) for key, value in mark.kwargs.items())) for mark in marks]
    known = node.config.stash.setdefault(_ASKED, {})
    key = (len(of_parameter), *written)
    if key not in known:
        asked = combine(others, of_parameter, backends=_known_backends(node.config))
        # The key has ids of marks and values, which stay unique as long as the objects are kept.
        known[key] = asked, [(mark, *mark.kwargs.values()) for mark in marks]
    return known[key][0]


def _known_backends(config: pytest.Config) -> tuple[str, ...]:
    if _BACKENDS not in config.stash:
        config.stash[_BACKENDS] = backend_names()
    return config.stash[_BACKENDS]


def _offer(backend: str) -> Offer:
    return get_backend(backend).schemes


@contextmanager
def _collect_errors(nodeid: str) -> Iterator[None]:
    """Raise a `QuantError` as a collection error, which prints as text and reaches xdist's controller."""
    try:
        yield
    except QuantError as error:
        raise pytest.Collector.CollectError(clean_lines(f"{nodeid}: {error}")) from None
