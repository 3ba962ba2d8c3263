"""The commit that made a test worse: a binary search in which every commit is compared with a good one.

Git says which commit halves what is left, as it does for ``git bisect``; the user's checkout stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from pytest_quant.environment.revision import ask_git
from pytest_quant.errors import UsageError
from pytest_quant.history.compare import Comparison, Outcome
from pytest_quant.record import Record
from pytest_quant.sides.compare import is_of_the_project
from pytest_quant.sides.left import Left


class Word(StrEnum):
    """What a commit is, compared with the good one; one that cannot be measured is left out."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Judged:
    """A commit, its word and the reason in one line; `comparison` is ``None`` where there was nothing to compare."""

    commit: str
    word: Word
    why: str
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search.

    Attributes
    ----------
    suspects : the first bad commit; or several, the one that is known to be bad first, where all others that may be it
        were left out.
    """

    suspects: tuple[str, ...]


def untested(root: Path, bad: str, good: frozenset[str]) -> list[str]:
    """Return the commits that may be the first bad one, those first that halve them best; `bad` is one of them.

    Parameters
    ----------
    root : of the repository.
    bad : known to be bad.
    good : known to be good.

    Raises
    ------
    UsageError : git cannot list them.
    """
    answer = ask_git(root, "rev-list", "--bisect-all", bad, "--not", *sorted(good), "--", timeout_s=60.0)
    if not answer.ok:
        raise UsageError("git cannot list the commits between GOOD and BAD", value=answer.error)
    return [line.split(" ", 1)[0] for line in answer.text.splitlines() if line]


def search(
    root: Path, good: str, bad: str, judge: Callable[[str], Judged], tell: Callable[[Judged, int], object]
) -> Found:
    """Find the first bad commit between two.

    Parameters
    ----------
    root : of the repository.
    good, bad : full ids; the first is an ancestor of the second.
    judge : compares a commit with the good one.
    tell : is given each judged commit, and how many may still be the first bad one.

    Raises
    ------
    UsageError : git cannot list the commits.
    """
    goods, skipped = frozenset({good}), set[str]()
    while True:
        suspects = untested(root, bad, goods)
        left = [commit for commit in suspects if commit != bad and commit not in skipped]
        if not left:
            return Found((bad, *(commit for commit in suspects if commit != bad)))
        judged = judge(left[0])
        if judged.word is Word.BAD:
            bad = judged.commit
        elif judged.word is Word.GOOD:
            goods |= {judged.commit}
        else:
            skipped.add(judged.commit)
        tell(judged, len(untested(root, bad, goods)))


@dataclass(slots=True)
class Verdicts:
    """Says of each commit whether it is worse than the good one.

    A commit whose engines and answers are those of one that was judged already is judged as that one.

    Parameters
    ----------
    compare : compares what a commit has left with the good one.
    """

    compare: Callable[[Left], Comparison]
    _known: dict[frozenset[tuple[object, ...]], Judged] = field(default_factory=dict)

    def remember(self, left: Left, judged: Judged) -> None:
        """Judge whatever has the engines and answers of this commit as it was judged."""
        key = _content(left.records)
        if key is not None:
            self._known[key] = judged

    def __call__(self, commit: str, left: Left) -> Judged:
        """Judge a commit by what its tests have left."""
        key = _content(left.records)
        if key is not None and key in self._known:
            other = self._known[key]
            same = f"the same engines and answers as {other.commit[:12]}"
            return Judged(commit, other.word, same, _of_commit(other.comparison, commit))
        comparison = self.compare(left)
        judged = _judged(commit, comparison, left)
        if judged.word is not Word.SKIP:
            self.remember(left, judged)
        return judged


def _of_commit(comparison: Comparison | None, commit: str) -> Comparison | None:
    return None if comparison is None else replace(comparison, head=replace(comparison.head, commit=commit))


def _content(records: tuple[Record, ...]) -> frozenset[tuple[object, ...]] | None:
    """Return what decides the verdict on a commit; ``None`` where more does, code of the project for one."""
    whole = all(one.accuracy is not None and not is_of_the_project(one.backend) for one in records)
    if not records or not whole:
        return None
    return frozenset(
        (one.series, one.digests.get("engine"), one.digests.get("data"), repr(one.accuracy)) for one in records
    )


def _judged(commit: str, comparison: Comparison, left: Left) -> Judged:
    worse = comparison.having(Outcome.REGRESSION)
    if worse:
        rows = "; ".join(f"{row.quantity} {_change(row.change, row.change_unit)}" for row in worse)
        return Judged(commit, Word.BAD, rows, comparison)
    undecided = comparison.having(Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
    if undecided:
        return Judged(commit, Word.SKIP, undecided[0].notes[0] if undecided[0].notes else "", comparison)
    if not comparison.rows:
        return Judged(commit, Word.SKIP, next(_why_nothing(comparison, left)), comparison)
    rows = "; ".join(f"{row.quantity} {_change(row.change, row.change_unit)}" for row in comparison.rows)
    return Judged(commit, Word.GOOD, rows, comparison)


def _why_nothing(comparison: Comparison, left: Left) -> Iterator[str]:
    if left.trouble:
        yield left.trouble
    yield from (f"{where} cannot be collected" for where in left.collected.errors)
    if comparison.reversioned:
        yield "its evaluation data or metric is another one"
    yield "the test is not there"


def _change(change: float | None, unit: str) -> str:
    return "cannot be told" if change is None else f"{change:+.3g} {unit}".rstrip()
