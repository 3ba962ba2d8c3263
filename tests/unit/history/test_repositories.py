"""Runs of several repositories in one history: those of another one are named, no base, and in no trend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.environment.revision import Committed
from pytest_quant.history import open_store
from pytest_quant.history.commits import find_base, find_run
from pytest_quant.history.store import Store
from tests.support.repository import ScratchRepository, make_repository
from tests.unit.record.examples import RUN, a_pass

OTHER = ("1" * 40, "host/other")


@pytest.fixture
def ours(tmp_path: Path) -> ScratchRepository:
    """A repository with a branch and a commit on it."""
    repository = make_repository(tmp_path / "ours")
    repository.commit("one")
    return repository


@pytest.fixture
def store(ours: ScratchRepository, tmp_path: Path) -> Store:
    """Runs of the other repository after those of this one, of a fork, of a shallow clone, and of one without git."""
    first, tree = ours.git("rev-parse", "HEAD"), ours.git("rev-parse", "HEAD^{tree}")
    ours.git("remote", "add", "origin", "https://host/ours")
    runs = {
        "ours": ((first, "host/ours"), first, tree),
        "fork": ((first, "host/fork"), first, tree),
        "shallow": (("host/ours",), "a" * 40, None),
        "unknown": ((), None, None),
        "other": (OTHER, "b" * 40, tree),
    }
    store = open_store(tmp_path / "history.db", ours.path)
    for second, (name, (names, commit, tree_id)) in enumerate(runs.items()):
        started_at = f"2026-01-02T03:04:{second:02}+00:00"
        store.append(
            replace(RUN, id=name, started_at=started_at, commit=commit, tree=tree_id, repository=names), [a_pass()]
        )
    return store


def test_trends_and_the_last_pass_are_of_this_repository(store: Store) -> None:
    """With its forks and clones, and with what has no name; every run is listed all the same."""
    key = a_pass().series
    assert [point.run_id for point in store.points(key)] == ["ours", "fork", "shallow", "unknown"]
    passed = store.last_pass(key)
    assert passed is not None
    assert passed.run.id == "unknown"
    assert len(store.runs()) == 5


def test_equal_content_of_another_repository_is_no_base(store: Store, ours: ScratchRepository) -> None:
    """A template gives two repositories one tree; the line of the base names whose runs are left out."""
    head = ours.git("rev-parse", "HEAD")
    ours.git("checkout", "-b", "topic")
    topic = ours.commit("two")
    base = find_base(store, ours.path, None, Committed(topic), dirty=False)
    assert {check.run.id for check in base.checks} == {"ours", "fork"}
    assert base.commit is not None
    assert base.commit.id == head
    assert base.description.endswith(f"; left out: runs of other repositories, {' '.join(OTHER)}")
    assert f"of another repository, {' '.join(OTHER)}" in find_run(store, "other").description


def test_where_no_repository_is_asked_for_all_are_there(store: Store, tmp_path: Path) -> None:
    """An export, and a folder outside of git."""
    assert len(open_store(tmp_path / "history.db").points(a_pass().series)) == 5
    assert len(open_store(tmp_path / "history.db", tmp_path).points(a_pass().series)) == 5
