"""``pytest-quant bisect``: ``git bisect``, in which each commit is compared with the good one."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_quant.cli.common import nearest_folder, say, show, width
from pytest_quant.errors import QuantError, UsageError

if TYPE_CHECKING:
    from pytest_quant.history.compare import Comparison
    from pytest_quant.sides.compare import Terms
    from pytest_quant.sides.run import Asked, Left

_NO_REGRESSION, _NO_ANSWER, _ONLY_SKIPPED = 1, 2, 3
_FIRST_BAD = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit$", re.MULTILINE)
_LIMIT_HELP = "Largest slow-down. [default: that of the mark, else 5 %]"


class _Percent(click.FloatRange):
    """A number, with or without the sign of percent behind it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: Any = str(value).strip().removesuffix("%")
        return float(super().convert(number, param, ctx))


@click.command(short_help="Which commit made a test slower or worse.")
@click.argument("test")
@click.argument("good")
@click.argument("bad")
@click.argument("pytest_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_OPTION...]")
@click.option("--limit", type=_Percent(0, 1000, min_open=True), metavar="PERCENT", help=_LIMIT_HELP)
def bisect(test: str, good: str, bad: str, pytest_options: tuple[str, ...], limit: float | None) -> None:
    """Find the first commit between GOOD and BAD at which TEST is slower or less accurate than at GOOD.

    Each commit is compared with GOOD as `pytest --quant-against` compares two: its files are written into a folder of
    their own, its accuracy is paired with GOOD's on the same samples, and its engines are timed in pairs of processes
    whose runs alternate. A commit that cannot be built or judged is left out, as by git bisect skip. What is
    checked out stays as it is, and nothing is recorded.

    TEST is a node id, written as for pytest in this folder. GOOD must be an ancestor of BAD. Options of pytest go after
    two dashes.

    Exit code: 0 found, 1 BAD is not worse than GOOD, 2 a question that cannot be answered, 3 only commits that
    were left out remain.

    \b
    Examples:
      pytest-quant bisect tests/test_resnet.py::test_int8 v1.0 HEAD
      pytest-quant bisect "test_ladder.py::test_ladder[ort-int8-dynamic]" HEAD~16 HEAD --limit 3%
    """  # noqa: D301 - click reads a backspace
    # Here, because help does without.
    from pytest_quant.environment import Repository
    from pytest_quant.environment.worktree import top_level, workplace
    from pytest_quant.history.merge_base import resolve
    from pytest_quant.sides.compare import LIMIT_PCT, Terms
    from pytest_quant.sides.run import Asked

    git = Repository(Path.cwd())
    checkout = top_level(git.root)
    first, last = (resolve(git, name) for name in (good, bad))
    if git.merge_base(first, last) != first or first == last:
        fix = "name an ancestor of BAD as GOOD; in a shallow clone: git fetch --unshallow"
        raise UsageError("GOOD is not before BAD", value=f"{good} is {first[:12]}, {bad} is {last[:12]}", fix=fix)
    with workplace(checkout) as place:
        wanted = Asked(checkout, None, Path.cwd(), (test,), pytest_options, nearest_folder() / "cache")
        commits = _Commits(wanted, place, Terms(limit or LIMIT_PCT, by_mark=limit is None, option="--limit"))
        say(f"good {commits.named(first)}")
        commits.good = commits.run(first)
        word = commits.judge(last)
        if word != "bad":
            say(f"error: {test} is not worse at BAD than at GOOD, or that cannot be told", color="red", err=True)
            sys.exit(_NO_REGRESSION if word == "good" else _NO_ANSWER)
        sys.exit(_search(commits, first, last))


def _search(commits: _Commits, good: str, bad: str) -> int:
    """Let git choose the commits to judge, print the first bad one, and return the exit code."""
    from pytest_quant.environment.revision import ask_git
    from pytest_quant.environment.worktree import LOCAL_VARIABLES
    from pytest_quant.history.compare import rule
    from pytest_quant.report.comparison_text import comparison_text

    # In the tree of BAD, so that a search of the user in the checkout goes on undisturbed.
    tree = commits.place / f"tree-{bad}"
    answer = ask_git(tree, "bisect", "start", "--no-checkout", bad, good, without=LOCAL_VARIABLES)
    while answer.ok and not _FIRST_BAD.search(answer.text):
        say(answer.text.partition("\n")[0])
        commit = ask_git(tree, "rev-parse", "BISECT_HEAD", without=LOCAL_VARIABLES).text
        answer = ask_git(tree, "bisect", commits.judge(commit), commit, without=LOCAL_VARIABLES)
    first = _FIRST_BAD.search(answer.text)
    if first is None:
        say(answer.text or answer.error)
        return _ONLY_SKIPPED
    say(f"first bad commit: {commits.named(first[1])}")
    comparison = commits.comparisons[first[1]]
    show(comparison_text(comparison, rule(comparison), width(), color=True))
    return 0


@dataclass(slots=True)
class _Commits:
    """Runs the test at commits in trees below `place`, and compares what it leaves with what it left at `good`.

    Of commits with the same engines and answers, as most are, only the first is timed.
    """

    asked: Asked
    place: Path
    terms: Terms
    good: Left = field(init=False)
    comparisons: dict[object, Comparison] = field(default_factory=dict)

    def named(self, commit: str) -> str:
        """Return the commit with its subject."""
        from pytest_quant.environment.revision import ask_git

        return f"{commit[:12]} {ask_git(self.asked.checkout, 'show', '-s', '--format=%s', commit).text}"

    def run(self, commit: str) -> Left:
        """Run the test at a commit. Raises `QuantError` when its files cannot be written."""
        from pytest_quant.environment.worktree import check_out
        from pytest_quant.sides.run import Selection, run_side

        tree = check_out(self.asked.checkout, commit, self.place / f"tree-{commit}")
        selection = Selection((), others=True, elsewhere=str(self.asked.checkout))
        return run_side(tree, self.asked, selection, self.place / f"left-{commit}")

    def judge(self, commit: str) -> str:
        """Return git's word for a commit, and print it with the reason."""
        from pytest_quant.measure.lock import DeviceLocks
        from pytest_quant.measure.steps import STEP_TIMEOUT_S, Steps
        from pytest_quant.sides.compare import PairTimer, compare_sides

        timer = PairTimer(Steps(lambda _: None), DeviceLocks(lambda text: say(text, err=True)), STEP_TIMEOUT_S)
        try:
            left = self.run(commit)
            content = _content(left)
            seen = self.comparisons.get(content) or compare_sides(self.good, left, timer, self.terms)
            word, why = word_of(seen, left)
            if content is not None and word != "skip":
                self.comparisons[content] = seen
            self.comparisons[commit] = replace(seen, head=replace(seen.head, commit=commit))
        except QuantError as error:
            word, why = "skip", error.what
        say(f"{word:4} {self.named(commit)}: {why}")
        return word


def word_of(comparison: Comparison, head: Left) -> tuple[str, str]:
    """Return git's word for a commit, ``good``, ``bad``, or ``skip`` for one that cannot be judged; and the reason."""
    from pytest_quant.history.compare import Outcome

    worse = comparison.having(Outcome.REGRESSION)
    undecided = comparison.having(Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
    if undecided and not worse:
        return "skip", "; ".join(undecided[0].notes[:1])
    if not comparison.rows:
        return "skip", _why_nothing(head)
    figures = [f"{row.quantity} {row.change or 0.0:+.3g} {row.change_unit}" for row in worse or comparison.rows]
    return "bad" if worse else "good", "; ".join(figures)


def _content(left: Left) -> frozenset[tuple[object, ...]] | None:
    """Return all that decides about a commit; ``None`` where more does, as code of the project, or nothing was run."""
    from pytest_quant.sides.compare import is_of_the_project

    whole = all(record.accuracy is not None and not is_of_the_project(record.backend) for record in left.records)
    if not left.records or not whole:
        return None
    parts = (
        (one.series, one.digests.get("engine"), one.digests.get("data"), repr(one.accuracy)) for one in left.records
    )
    return frozenset(parts)


def _why_nothing(left: Left) -> str:
    reasons = [left.trouble, *left.collected.errors.values(), *(record.message for record in left.records)]
    reason = next(filter(None, reasons), "the test is not there, or has another metric or other data")
    return " / ".join(line.strip() for line in reason.splitlines() if line.strip())[-400:]
