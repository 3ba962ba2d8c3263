"""Whether a run takes every test of the suite."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_quant.selection import note_left_out, note_worker, takes_all

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
