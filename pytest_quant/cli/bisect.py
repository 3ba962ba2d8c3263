"""``pytest-quant bisect``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say, show
from pytest_quant.cli.places import nearest_folder, width
from pytest_quant.errors import QuantError, UsageError

if TYPE_CHECKING:
    from pytest_quant.history.compare import Comparison
    from pytest_quant.sides.bisect import Found, Judged, Verdicts
    from pytest_quant.sides.left import Left

_NO_REGRESSION, _ONLY_SKIPPED = 1, 3


def _percent(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0.0 < percent < float("inf"):
        raise UsageError("--limit is a slow-down in percent", value=text, allowed="above 0", fix="write 5%")
    return percent


@click.command(short_help="Which commit made a test slower or worse.")
@click.argument("test")
@click.argument("good")
@click.argument("bad")
@click.argument("pytest_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_OPTION...]")
@click.option(
    "--limit", callback=_percent, metavar="PERCENT", help="Largest slow-down. [default: that of the mark, else 5 %]"
)
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
    from pytest_quant.sides.base_commit import find_commit

    git = Repository(Path.cwd())
    checkout = top_level(git.root)
    first, last = (find_commit(git, name) for name in (good, bad))
    if git.merge_base(first, last) != first or first == last:
        raise UsageError(
            "GOOD is not before BAD",
            value=f"{good} is {first[:12]}, {bad} is {last[:12]}",
            allowed="an ancestor of BAD, all commits between them fetched",
            fix="name an older commit as GOOD; in a shallow clone: git fetch --unshallow",
        )
    with _ended_by_sigterm(), workplace(checkout) as place:
        sys.exit(_find(_Commits(test, pytest_options, checkout, place), first, last, limit))


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that nothing is left in the temporary folder."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True, slots=True)
class _Commits:
    """Runs TEST at commits: `checkout` is the user's, `place` the folder for trees and for what runs leave."""

    test: str
    options: tuple[str, ...]
    checkout: Path
    place: Path

    def left_at(self, commit: str) -> Left:
        """Run the test at a commit. Raises `QuantError` when its files cannot be written."""
        from pytest_quant.environment.worktree import check_out
        from pytest_quant.sides.left import Selection
        from pytest_quant.sides.run import Asked, run_side

        tree = check_out(self.checkout, commit, self._tree(commit))
        asked = Asked(self.checkout, None, Path.cwd(), (self.test,), self.options, nearest_folder() / "cache")
        selection = Selection((), others=True, elsewhere=str(self.checkout))
        return run_side(tree, asked, selection, self.place / f"left-{commit}")

    def judge(self, commit: str, verdicts: Verdicts) -> Judged:
        """Compare a commit with the good one; its files are removed then."""
        from pytest_quant.environment.worktree import remove_tree
        from pytest_quant.sides.bisect import Judged, Word

        try:
            return verdicts(commit, self.left_at(commit))
        except QuantError as error:
            return Judged(commit, Word.SKIP, error.what)
        finally:
            remove_tree(self.checkout, self._tree(commit))

    def named(self, commit: str) -> str:
        """Return the commit with its subject."""
        from pytest_quant.environment.revision import ask_git

        return f"{commit[:12]} {ask_git(self.checkout, 'show', '-s', '--format=%s', commit).text}"

    def _tree(self, commit: str) -> Path:
        return self.place / f"tree-{commit}"


def _find(commits: _Commits, good: str, bad: str, limit_pct: float | None) -> int:
    """Search, print each step and the end, and return the exit code."""
    from pytest_quant.sides.bisect import Judged, Verdicts, Word, search

    say(f"good {commits.named(good)}")
    base = commits.left_at(good)
    if not any(record.accuracy is not None for record in base.records):
        raise UsageError(
            f"{commits.test} cannot be measured at GOOD",
            value=_why(base),
            fix="name a test and a commit at which it passes",
        )
    verdicts = Verdicts(lambda left: _compared(base, left, limit_pct))
    verdicts.remember(base, Judged(good, Word.GOOD, ""))
    seen: dict[str, Comparison] = {}

    def judge(commit: str) -> Judged:
        judged = commits.judge(commit, verdicts)
        if judged.comparison is not None:
            seen[commit] = judged.comparison
        return judged

    def tell(judged: Judged, left: int) -> None:
        say(f"{judged.word:4} {commits.named(judged.commit)}: {judged.why} ({left} may be the first bad one)")

    worst = judge(bad)
    say(f"{worst.word:4} {commits.named(bad)}: {worst.why}")
    if worst.word is not Word.BAD:
        say(f"error: {commits.test} is not worse at BAD than at GOOD, or that cannot be told", color="red", err=True)
        return _NO_REGRESSION
    return _end(commits, search(commits.checkout, good, bad, judge, tell), seen)


def _end(commits: _Commits, found: Found, seen: Mapping[str, Comparison]) -> int:
    from pytest_quant.history.compare import rule
    from pytest_quant.report.comparison_text import comparison_text

    if len(found.suspects) > 1:
        say("the first bad commit is one of these, of which all but one could not be measured:")
        for commit in found.suspects:
            say(f"  {commits.named(commit)}")
        return _ONLY_SKIPPED
    first = found.suspects[0]
    say(f"first bad commit: {commits.named(first)}")
    if first in seen:
        show(comparison_text(seen[first], rule(seen[first]), width(), color=True))
    return 0


def _compared(base: Left, left: Left, limit_pct: float | None) -> Comparison:
    from pytest_quant.measure.lock import DeviceLocks
    from pytest_quant.measure.steps import STEP_TIMEOUT_S, Steps
    from pytest_quant.sides.compare import Terms, compare_sides
    from pytest_quant.sides.timing import LIMIT_PCT, PairTimer

    timer = PairTimer(Steps(lambda _: None), DeviceLocks(_notify), STEP_TIMEOUT_S)
    by_mark = limit_pct is None
    terms = Terms(LIMIT_PCT if limit_pct is None else limit_pct, by_mark=by_mark, times_all=True, option="--limit")
    return compare_sides(base, left, timer, terms)


def _notify(text: str) -> None:
    say(f"quant: {text}", err=True)


def _why(left: Left) -> str:
    reasons = [left.trouble, *left.collected.errors.values(), *(record.message for record in left.records)]
    told = next((reason for reason in reasons if reason), "no marked test was found")
    return " / ".join(line.strip() for line in told.splitlines() if line.strip())[-400:]
