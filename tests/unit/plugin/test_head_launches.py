"""Launches of the commit under test: which stored ones count, and how many a comparison lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_quant.environment import fingerprint
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.plugin.compare_with_base import compare_run
from pytest_quant.plugin.head_launches import ENOUGH, lacking_launches, with_stored
from pytest_quant.plugin.settings import Settings
from pytest_quant.record import Run
from pytest_quant.result import LaunchFigures
from tests.support.repository import ScratchRepository, make_repository, without_ci
from tests.unit.record.examples import LATENCY, RUN, a_check, a_pass, a_record

OTHER = a_record(a_check(backend="trt"))
FURTHER = LaunchFigures("2026-01-02T03:04:05+00:00", 1.9, 0.2345, 0.4567, 0.001)
HERE = replace(RUN.environment, identity=dict(fingerprint().identity))


@pytest.fixture
def scratch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A project with one commit on ``main`` and one on a branch."""
    without_ci(monkeypatch)
    made = make_repository(pytester.path)
    made.commit("1")
    made.git("checkout", "-b", "topic")
    made.commit("2")
    return made


@pytest.fixture
def add(scratch: ScratchRepository) -> Callable[..., None]:
    """Adds a run to the history."""
    store = open_store(scratch.path / ".quant" / "history.db")

    def added(revision: str, name: str, *records: object, **facts: object) -> None:
        run = replace(RUN, id=name, commit=scratch.git("rev-parse", revision), environment=HERE)
        store.append(replace(run, **facts), list(records) or [a_pass()])  # type: ignore[arg-type]

    return added


def lacking(pytester: pytest.Pytester, *args: str) -> int:
    """Return how many launches the series of `a_pass` lacks."""
    config = pytester.parseconfig("--quant-compare", *args)
    return lacking_launches(config, Settings.from_config(config), a_pass().series)


def test_what_the_base_has_and_the_head_lacks(pytester: pytest.Pytester, add: Callable[..., None]) -> None:
    """All but those that are stored; the record of a run holds its further launches."""
    add("main", "base")
    assert lacking(pytester) == ENOUGH
    add("topic", "one")
    assert lacking(pytester) == ENOUGH - 1
    add("topic", "two", a_record(latency=replace(LATENCY, launches=(FURTHER, FURTHER))))
    assert lacking(pytester) == 1


def test_launches_that_do_not_count(pytester: pytest.Pytester, add: Callable[..., None]) -> None:
    """Of other machines, of uncommitted changes, and such whose numbers are not to be trusted."""
    add("main", "base")
    add("topic", "elsewhere", environment=RUN.environment)
    add("topic", "changed", dirty=True)
    add("topic", "noise", a_record(latency=replace(LATENCY, reasons=("the null is off",))))
    assert lacking(pytester) == ENOUGH


def test_nothing_is_lacking_where_nothing_can_be_compared(
    pytester: pytest.Pytester, scratch: ScratchRepository, add: Callable[..., None]
) -> None:
    """No base, a base that was timed elsewhere, no history, a base that git does not know."""
    assert lacking(pytester) == 1
    add("main", "elsewhere", environment=RUN.environment)
    add("main", "other", OTHER)
    assert lacking(pytester) == 1
    assert lacking(pytester, "--quant-no-history") == 1
    assert lacking(pytester, "--quant-compare-base=no-such") == 1


def test_uncommitted_changes_have_no_launches_yet(
    pytester: pytest.Pytester, scratch: ScratchRepository, add: Callable[..., None]
) -> None:
    """Those of the commit are of another content."""
    add("main", "base")
    add("topic", "one")
    (scratch.path / "file").write_text("changed")
    assert lacking(pytester) == ENOUGH


def test_a_comparison_has_all_launches_of_the_commit(
    pytester: pytest.Pytester, scratch: ScratchRepository, add: Callable[..., None]
) -> None:
    """Those of earlier runs beside that of this one."""
    for number in range(3):
        add("main", f"base {number}")
        add("topic", f"head {number}")
    config = pytester.parseconfig("--quant-compare")
    run = replace(RUN, id="now", commit=scratch.git("rev-parse", "HEAD"), environment=HERE)
    found = compare_run(config, Settings.from_config(config), run, [a_pass()], whole=True)
    assert found.comparison is not None
    assert (found.comparison.base.launches, found.comparison.head.launches) == (3, 4)


def test_which_records_of_the_commit_count(
    pytester: pytest.Pytester, scratch: ScratchRepository, add: Callable[..., None]
) -> None:
    """Not those of this run, of the base's runs, of tests that did not run now, or of a tree with changes."""
    for name in ("earlier", "base", "now"):
        add("topic", name, a_pass(), OTHER)
    add("topic", "changed", dirty=True)
    store = open_store(scratch.path / ".quant" / "history.db")
    run = replace(RUN, id="now", commit=scratch.git("rev-parse", "topic"))
    now = [StoredCheck(run, a_pass())]

    def runs(mine: Run) -> list[str]:
        return [check.run.id for check in with_stored(store, mine, now, {"base"})]

    assert runs(run) == ["earlier", "now"]
    assert runs(replace(run, dirty=True)) == ["now"]
    assert runs(replace(run, commit=None)) == ["now"]
