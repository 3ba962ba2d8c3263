"""Whether a run takes every test of the suite."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_quant.plugin.controller import note_left_out, note_worker, takes_all

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
        ("test_it.py",),
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
    ("ini", "args"),
    [
        ("[pytest]\n", (".",)),
        ("[pytest]\n", ("{root}",)),
        ("[pytest]\n", ("unit/..",)),
        ("[pytest]\n", ("unit", ".")),
        (_SUITE, (".",)),
        (_SUITE, ("unit", "integration")),
        (_SUITE, ("integration/a", "unit/", "{root}/integration/b")),
    ],
)
def test_naming_the_whole_suite_leaves_nothing_out(pytester: pytest.Pytester, ini: str, args: tuple[str, ...]) -> None:
    """It is what pytest takes without a path: the root directory, or every folder of testpaths."""
    pytester.makeini(ini)
    for folder in ("unit", "integration/a", "integration/b"):
        (pytester.path / folder).mkdir(parents=True)
    assert takes_all(_config(pytester, *(arg.format(root=pytester.path) for arg in args)))


@pytest.mark.parametrize(
    ("ini", "args"),
    [
        ("[pytest]\n", ("unit", "integration")),
        ("[pytest]\n", ("./unit",)),
        (_SUITE, ("unit",)),
        (_SUITE, ("unit", "integration/a")),
        (_SUITE, ("unit", "integration/a", "integration/b/test_it.py::test_one")),
        ("[pytest]\ntestpaths = nowhere\n", ("unit",)),
    ],
)
def test_naming_less_than_the_suite_takes_a_part(pytester: pytest.Pytester, ini: str, args: tuple[str, ...]) -> None:
    """A folder beside those named may hold tests, whether or not there are any now."""
    pytester.makeini(ini)
    for folder in ("unit", "integration/a", "integration/b"):
        (pytester.path / folder).mkdir(parents=True)
        (pytester.path / folder / "test_it.py").write_text(_PASSING)
    assert not takes_all(_config(pytester, *args))


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
    for kept in ([], items[:1], [items[0], _items(pytester)[0]]):
        config = _config(pytester)
        note_left_out(config, items, kept)
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
        note_worker(controller, node)
        assert takes_all(controller)
    note_worker(controller, SimpleNamespace(workeroutput=output))
    assert not takes_all(controller)
