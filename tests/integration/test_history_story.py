"""A repository whose changes are known: what the commands say about it is that and nothing else, on both databases."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.history_project import (
    ALL_LOST,
    DROPS,
    EXCLUDES,
    FORK,
    MISCALIBRATES,
    NARROW_LOST,
    RENAMES,
    SLOWS,
    SOME_LOST,
    N,
)
from tests.support.history_repository import Answer, Repository, Story, run_last, tell

Planted = frozenset[tuple[str, str, str]]
"""Test, quantity and outcome of the rows that changed and count."""

NOTHING: Planted = frozenset()
EXCLUDED: Planted = frozenset(
    {
        ("test_narrow", "accuracy", "improvement"),
        ("test_narrow", "coverage", "regression"),
        ("test_narrow", "size", "improvement"),
    }
)
LOST: Planted = frozenset({("test_ranges", "accuracy", "regression")})
SLOWED: Planted = frozenset({("test_speed", "speedup", "regression")})

STEPS = {
    **dict.fromkeys(range(2, 13), NOTHING),
    EXCLUDES: EXCLUDED,
    MISCALIBRATES: LOST,
    SLOWS: SLOWED,
}
"""What each commit of ``main`` changes against the one before it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The repository, and one of the databases that hold its history."""

    repository: Repository
    history: str

    def compare(self, *arguments: str) -> Answer:
        """Run ``pytest-quant compare``."""
        return self.repository.command(self.history, "compare", *arguments)

    def step(self, number: int, *arguments: str) -> Answer:
        """Compare a commit of ``main``, counted from 1, with the one before it."""
        main = self.repository.main
        return self.compare(main[number - 2], main[number - 1], *arguments)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Every commit is run once, for all tests of this file."""
    return tell(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, story: Story) -> Place:
    """SQLite, which pytest wrote; PostgreSQL, into which its documents are imported and the last run is made."""
    if request.param == "sqlite":
        return Place(story.repository, str(story.history))
    url: str = request.getfixturevalue("postgres_url")
    said = story.repository.command(url, "history", "import", *map(str, story.documents))
    assert said.returncode == 0, said.stderr
    run_last(story.repository, url)
    return Place(story.repository, url)


@pytest.fixture
def copy(place: Place, tmp_path: Path) -> Place:
    """The same with a working tree of its own."""
    shutil.copytree(place.repository.root, tmp_path / "project")
    return replace(place, repository=replace(place.repository, root=tmp_path / "project"))


def read(said: Answer) -> dict[str, Any]:
    """Return the document of ``--json``."""
    assert said.stdout, said.stderr
    document: dict[str, Any] = json.loads(said.stdout)
    return document


def name_of(nodeid: str) -> str:
    """Return the name of the test."""
    return nodeid.partition("::")[2]


def changed(document: dict[str, Any]) -> Planted:
    """Return the rows that changed; advisory ones, of single launches, are no verdict."""
    changes = ("regression", "worse", "improvement", "better", "changed")
    return frozenset(
        (name_of(row["nodeid"]), row["quantity"], row["outcome"])
        for row in document["rows"]
        if row["outcome"] in changes and not row["advisory"]
    )


def rows(document: dict[str, Any], test: str, quantity: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one quantity of one test."""
    return (row for row in document["rows"] if (name_of(row["nodeid"]), row["quantity"]) == (test, quantity))


@pytest.mark.parametrize("number", STEPS)
def test_each_commit_changes_what_was_planted_in_it(place: Place, number: int) -> None:
    """Set for set, and so does the exit code: 1 for a regression and for a test that was removed."""
    said = place.step(number, "--json", "--full-suite")
    document = read(said)
    assert changed(document) == STEPS[number]
    assert [name_of(each["nodeid"]) for each in document["removed"]] == (["test_dropped"] if number == DROPS else [])
    renamed = [(name_of(each["base_nodeid"]), name_of(each["nodeid"])) for each in document["renamed"]]
    assert renamed == ([("test_named", "test_renamed")] if number == RENAMES else [])
    assert document["added"] == []
    assert not [row for row in document["rows"] if "other evaluation data" in row["notes"]]
    worse = number == DROPS or any(outcome == "regression" for _, _, outcome in STEPS[number])
    assert said.returncode == (1 if worse else 0)


def test_samples_are_counted_one_by_one(place: Place) -> None:
    """Lost and won are the numbers of samples that the project was made to lose."""
    (better,) = rows(read(place.step(EXCLUDES, "--json")), "test_narrow", "accuracy")
    assert (better["lost"], better["won"], better["n"]) == (0, NARROW_LOST, N)
    assert [each["name"] for each in better["differs"] if "engine" in each["name"]]
    (worse,) = rows(read(place.step(MISCALIBRATES, "--json")), "test_ranges", "accuracy")
    assert (worse["lost"], worse["won"], worse["n"]) == (ALL_LOST, 0, N)
    assert worse["change"] == pytest.approx(-100 * ALL_LOST / N)
    assert worse["p"] == pytest.approx(2.0 ** (1 - ALL_LOST))


def test_a_branch_is_compared_with_where_it_left_main(copy: Place) -> None:
    """Without arguments; scores on other data are not compared, the commits of main after the fork are not in."""
    copy.repository.git("checkout", "-q", "feature")
    said = copy.compare("--json")
    document = read(said)
    assert document["base"]["commit"] == copy.repository.main[FORK - 1]
    assert document["head"]["commit"] == copy.repository.feature[-1]
    (other,) = (row for row in document["rows"] if row["notes"] == ["other evaluation data"])
    assert ("test_fresh" in other["nodeid"], other["outcome"]) == (True, "no_baseline")
    assert changed(document) == LOST
    (row,) = rows(document, "test_ranges", "accuracy")
    assert (row["lost"], row["won"]) == (SOME_LOST, 0)
    assert said.returncode == 1


def test_a_commit_that_never_ran_gives_way_to_its_nearest_parent(copy: Place) -> None:
    """Two commits back, and the distance is told; one without a change has the records of its content."""
    repository, main = copy.repository, copy.repository.main
    repository.git("commit", "-q", "--allow-empty", "-m", "empty")
    tip = repository.git("rev-parse", "HEAD")
    said = copy.compare("HEAD", main[-2])
    assert f"base {tip[:12]}: HEAD, all of them of the same content as {main[-1][:12]}" in said.stdout
    for note in ("one", "two"):
        (repository.root / "note.txt").write_text(note, encoding="utf-8")
        repository.git("add", "note.txt")
        repository.git("commit", "-q", "-m", note)
    said = copy.compare("HEAD", main[-2])
    assert f"base {tip[:12]}: 2 first parents below" in said.stdout


def test_changes_finds_the_commits(place: Place) -> None:
    """Each planted change of main between the commit before it and its own, and no other score changed."""
    said = place.repository.command(place.history, "history", "changes", "--json")
    result = read(said)["changes"]
    main = place.repository.main

    def of(quantity: str) -> set[tuple[str, str, str]]:
        return {
            (name_of(json.loads(each["series"])[0]), each["last_good"], each["first_bad"])
            for each in result
            if each["quantity"] == quantity
        }

    assert of("score") == {
        ("test_narrow", main[EXCLUDES - 2], main[EXCLUDES - 1]),
        ("test_ranges", main[MISCALIBRATES - 2], main[MISCALIBRATES - 1]),
    }
    slower = {each for each in of("speedup") if each[0] == "test_speed"}
    assert slower == {("test_speed", main[SLOWS - 2], main[SLOWS - 1])}
    (speed,) = (each for each in result if each["first_bad"] == main[SLOWS - 1])
    assert speed["probable"] is True
    assert speed["commits_after"] == len(main) - SLOWS + 1
