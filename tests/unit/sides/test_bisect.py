"""The first bad commit is found among those of a real repository, by verdicts that are played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.history.compare import Comparison
from pytest_quant.record import Record
from pytest_quant.sides.bisect import Judged, Verdicts, Word, search
from pytest_quant.sides.compare import Terms, compare_sides
from pytest_quant.sides.left import Collected, Left
from tests.support.repository import ScratchRepository, make_repository
from tests.unit.history.compare.launched import answered, answers
from tests.unit.sides.test_compare import Played, left, timed

COMMITS = 16


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScratchRepository, list[str]]:
    """A repository of one branch, and its commits: a good one and sixteen more."""
    made = make_repository(tmp_path_factory.mktemp("line"))
    return made, [made.commit(str(number)) for number in range(COMMITS + 1)]


def searched(root: Path, commits: list[str], first_bad: int, skipped: set[int] | None = None) -> tuple[list[str], int]:
    """Return the suspects of a search, and the number of commits that were judged."""
    asked: list[str] = []

    def judge(commit: str) -> Judged:
        place = commits.index(commit)
        asked.append(commit)
        if place in (skipped or set()):
            return Judged(commit, Word.SKIP, "")
        return Judged(commit, Word.BAD if place >= first_bad else Word.GOOD, "")

    told: list[int] = []
    found = search(root, commits[0], commits[-1], judge, lambda _, left: told.append(left))
    assert len(told) == len(asked) == len(set(asked))
    assert told == sorted(told, reverse=True)
    return list(found.suspects), len(asked)


@pytest.mark.parametrize("first_bad", range(1, COMMITS + 1))
def test_the_first_bad_commit_is_found_in_as_many_steps_as_halving_takes(
    line: tuple[ScratchRepository, list[str]], first_bad: int
) -> None:
    """Sixteen commits, of which the last is known to be bad: four or five."""
    repository, commits = line
    suspects, asked = searched(repository.path, commits, first_bad)
    assert suspects == [commits[first_bad]]
    assert asked <= 5


def test_commits_that_cannot_be_measured_are_left_out(line: tuple[ScratchRepository, list[str]]) -> None:
    """Unless they are what is left: then the first bad one is one of them, or the first that is known to be."""
    repository, commits = line
    assert searched(repository.path, commits, 11, {3, 4, 8, 12})[0] == [commits[11]]
    suspects = searched(repository.path, commits, 11, {9, 10})[0]
    assert suspects[0] == commits[11]
    assert set(suspects) == {commits[9], commits[10], commits[11]}


def test_a_side_branch_is_searched_too(tmp_path: Path) -> None:
    """The first bad commit came with a merge."""
    made = make_repository(tmp_path)
    good = made.commit("good")
    made.git("checkout", "-q", "-b", "topic")
    (tmp_path / "other").write_text("")
    made.git("add", "other")
    made.git("commit", "-qm", "the cause")
    cause = made.git("rev-parse", "HEAD")
    made.git("checkout", "-q", "main")
    made.commit("beside")
    made.git("merge", "-q", "--no-edit", "topic")
    tip = made.commit("after")

    def judge(commit: str) -> Judged:
        has_it = made.git("merge-base", commit, cause) == cause
        return Judged(commit, Word.BAD if has_it else Word.GOOD, "")

    assert search(tmp_path, good, tip, judge, lambda *_: None).suspects == (cause,)


def test_commits_that_git_does_not_know_are_an_error(line: tuple[ScratchRepository, list[str]]) -> None:
    """In git's own words."""
    with pytest.raises(UsageError, match="cannot list the commits"):
        search(line[0].path, "0" * 40, line[1][-1], lambda commit: Judged(commit, Word.BAD, ""), lambda *_: None)


def verdicts(times: Played, good: Record) -> Verdicts:
    """Verdicts against a good side with that record."""
    base = left([good], "good")

    def compare(side: Left) -> Comparison:
        return compare_sides(base, side, times, Terms(times_all=True))

    return Verdicts(compare)


def test_a_commit_is_bad_by_its_time_or_its_answers() -> None:
    """The reason has the figure."""
    slow = verdicts(Played(1.08), timed("old"))("b", left([timed("new")], "b"))
    assert (slow.word, slow.why) == (Word.BAD, "p50 +8 %")
    worse = answered(timed(), answers(range(20)))
    wrong = verdicts(Played(), timed())("b", left([worse], "b"))
    assert (wrong.word, wrong.why) == (Word.BAD, "accuracy -5 pp")
    same = verdicts(Played(), timed("old"))("b", left([timed("new")], "b"))
    assert same.word is Word.GOOD


def test_the_time_counts_though_the_run_itself_measured_none() -> None:
    """Neither side is the user's run."""
    untimed = [replace(timed(name), latency=None) for name in ("old", "new")]
    assert verdicts(Played(1.08), untimed[0])("b", left([untimed[1]], "b")).word is Word.BAD


@pytest.mark.parametrize(
    ("side", "why"),
    [
        (left([], "b", trouble="pytest ended there with 4: not found"), "pytest ended there with 4: not found"),
        (left([], "b", Collected(errors={"test_x.py": "no"})), "test_x.py cannot be collected"),
        (left([], "b"), "the test is not there"),
    ],
)
def test_a_commit_at_which_the_test_cannot_be_measured_is_left_out(side: Left, why: str) -> None:
    """With the reason."""
    judged = verdicts(Played(), timed())("b", side)
    assert (judged.word, judged.why) == (Word.SKIP, why)


def test_what_cannot_be_told_is_left_out() -> None:
    """It is neither good nor bad."""
    judged = verdicts(Played(1.05, sd=0.05), timed("old"))("b", left([timed("new")], "b"))
    assert judged.word is Word.SKIP
    assert "10 pairs of processes cannot tell" in judged.why


def test_the_same_engines_and_answers_are_judged_once() -> None:
    """Most commits change neither; the comparison is then that of the first of them, under the other's name."""
    times = Played(1.08)
    judge = verdicts(times, timed("old"))
    first, second = (judge(name, left([timed("new")], name)) for name in ("one", "two"))
    assert (second.word, second.why, len(times.asked)) == (Word.BAD, "the same engines and answers as one", 1)
    assert first.comparison is not None
    assert second.comparison is not None
    assert (first.comparison.head.commit, second.comparison.head.commit) == ("one", "two")
    judge.remember(left([timed("old")], "good"), Judged("good", Word.GOOD, ""))
    assert judge("three", left([timed("old")], "three")).word is Word.GOOD
