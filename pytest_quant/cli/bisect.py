"""``pytest-quant bisect``: ``git bisect``, in which each commit is compared with the good one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from pytest_quant.cli.common import nearest_folder, say, show, width
from pytest_quant.environment.revision import Repository, ask_git
from pytest_quant.environment.worktree import LOCAL_VARIABLES, check_out, top_level, workplace
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.history.compare.comparison import Comparison, Outcome
from pytest_quant.history.merge_base import resolve
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import STEP_TIMEOUT_S, Steps
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.sides.run import Invocation, Selection, SideResult, run_side
from pytest_quant.sides.side_comparison import LIMIT_PCT, PairTimer, Terms, compare_sides

_NO_REGRESSION, _NO_ANSWER, _ONLY_SKIPPED = 1, 2, 3
_FIRST_BAD = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit$", re.MULTILINE)
_LIMIT_HELP = "Largest slow-down. [default: the mark's limit, else 5 %]"


@click.command(short_help="Which commit made a test slower or worse.")
@click.argument("test")
@click.argument("good")
@click.argument("others", nargs=-1, type=click.UNPROCESSED, metavar="[BAD] [-- PYTEST_OPTION...]")
@click.option("--limit", type=click.FloatRange(0, 1000, min_open=True), metavar="PERCENT", help=_LIMIT_HELP)
def bisect(test: str, good: str, others: tuple[str, ...], limit: float | None) -> None:
    """Find the first commit between GOOD and BAD at which TEST is slower or less accurate than at GOOD.

    Less accurate is what is proven on the samples of both, or above max_drop_increase of the mark, or breaks a limit of
    the mark on its answers that holds at GOOD.

    Each commit is compared with GOOD as `pytest --quant-against` compares two: its files are written into a folder of
    their own, its accuracy is paired with GOOD's on the same samples, and its engines are timed in pairs of processes
    whose runs alternate. A commit that cannot be built or judged is left out, as by git bisect skip. What is
    checked out stays as it is, and nothing is recorded.

    TEST is a node id, written as for pytest in this folder. GOOD must be an ancestor of BAD, which is HEAD by
    default; both may be written as GOOD..BAD. Options of pytest go after two dashes; with that of
    pytest --quant-no-latency accuracy alone is compared.

    Exit code: 0 found, 1 BAD is not worse than GOOD, 2 a question that cannot be answered, 3 only commits that
    were left out remain.

    \b
    Examples:
      pytest-quant bisect tests/test_resnet.py::test_int8 v1.0..HEAD
      pytest-quant bisect "test_ladder.py::test_ladder[ort-int8-dynamic]" HEAD~16 HEAD --limit 3
      pytest-quant bisect tests/test_resnet.py::test_int8 v1.0..HEAD -- --quant-no-latency
    """  # noqa: D301 - click reads a backspace
    good, *rest = [*good.split(".."), *others]
    # No commit begins with a dash, and click hides the two dashes.
    bad, options = (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else ("HEAD", rest)
    git = Repository(Path.cwd())
    checkout = top_level(git.root)
    first, last = (resolve(git, name) for name in (good, bad or "HEAD"))
    if git.merge_base(first, last) != first or first == last:
        fix = "name an ancestor of BAD as GOOD; in a shallow clone: git fetch --unshallow"
        raise UsageError("GOOD is not before BAD", value=f"{good} is {first[:12]}, {bad} is {last[:12]}", fix=fix)
    # The runs of the commits never time by themselves, so it is for what compares them.
    off = "--quant-no-latency" in options
    terms = Terms(limit or LIMIT_PCT, by_mark=limit is None, option="--limit", latency_off=off)
    with workplace(checkout) as place:
        invocation = Invocation(checkout, None, Path.cwd(), (test,), tuple(options), nearest_folder() / "cache")
        say(f"good {_name_commit(checkout, first)}")
        base = _run(invocation, first, place)
        compared: dict[str, Comparison] = {}
        word = _judge(invocation, base, last, terms, compared)
        if word == "good":
            say(f"error: {test} is not worse at BAD than at GOOD", color="red", err=True)
            sys.exit(_NO_REGRESSION)
        if word != "bad":
            step = f"; {find_step(compared[last], f'{first[:12]}..{last[:12]}')}" if last in compared else ""
            say(f"error: {test} cannot be compared, for the reason above{step}", color="red", err=True)
            sys.exit(_NO_ANSWER)
        # In the tree of BAD, so that a search of the user in the checkout goes on undisturbed.
        tree = place / f"tree-{last}"
        answer = ask_git(tree, "bisect", "start", "--no-checkout", last, first, without=LOCAL_VARIABLES)
        while answer.ok and not _FIRST_BAD.search(answer.text):
            say(answer.text.partition("\n")[0])
            commit = ask_git(tree, "rev-parse", "BISECT_HEAD", without=LOCAL_VARIABLES).text
            word = _judge(invocation, base, commit, terms, compared)
            answer = ask_git(tree, "bisect", word, commit, without=LOCAL_VARIABLES)
    first_bad = _FIRST_BAD.search(answer.text)
    if first_bad is None:
        say(answer.text or answer.error)
        sys.exit(_ONLY_SKIPPED)
    say(f"first bad commit: {_name_commit(checkout, first_bad[1])}")
    show(comparison_text(compared[first_bad[1]], width(), color=True))


def _name_commit(checkout: Path, commit: str) -> str:
    """Return the commit with its subject."""
    return f"{commit[:12]} {ask_git(checkout, 'show', '-s', '--format=%s', commit).text}"


def _run(invocation: Invocation, commit: str, place: Path) -> SideResult:
    """Run the test at a commit in a tree below `place`. Raises `QuantError` when its files cannot be written."""
    tree = check_out(invocation.checkout, commit, place / f"tree-{commit}")
    selection = Selection((), others=True, elsewhere=str(invocation.checkout))
    return run_side(tree, invocation, selection, place / f"left-{commit}")


def _judge(invocation: Invocation, base: SideResult, commit: str, terms: Terms, compared: dict[str, Comparison]) -> str:
    """Return git's word for a commit, print it with the reason, and keep its comparison in `compared`."""
    timer = PairTimer(Steps(lambda _: None), DeviceLocks(lambda text: say(text, err=True)), STEP_TIMEOUT_S)
    try:
        head = _run(invocation, commit, base.folder.parent)
        compared[commit] = compare_sides(base, head, timer, terms)
        word, why = word_of(compared[commit], head)
    except QuantError as error:
        word, why = "skip", error.what
    say(f"{word:4} {_name_commit(invocation.checkout, commit)}: {why}")
    return word


def word_of(comparison: Comparison, head: SideResult) -> tuple[str, str]:
    """Return git's word for a commit, ``good``, ``bad``, or ``skip`` if it cannot be judged; and the reason."""
    worse = comparison.select_rows(Outcome.REGRESSION)
    undecided = comparison.select_rows(Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
    if undecided and not worse:
        return "skip", "; ".join(undecided[0].notes[:1])
    if not comparison.rows:
        return "skip", _explain_nothing(head)
    figures = [
        f"{row.quantity} {row.change or 0.0:+.3g} {row.change_unit}" + "".join(f" ({note})" for note in row.notes[-1:])
        for row in worse or comparison.rows
    ]
    return "bad" if worse else "good", "; ".join(figures)


def find_step(comparison: Comparison, between: str) -> str:
    """Return what to do next if BAD is not judged; `between` is a range of git, from GOOD to BAD."""
    undecided = comparison.select_rows(Outcome.INCONCLUSIVE, Outcome.NO_BASELINE)
    if not undecided:
        return "pytest --collect-only at GOOD and at BAD shows the tests of each"
    row = undecided[0]
    if row.outcome is Outcome.NO_BASELINE and row.quantity == "accuracy":
        return f"name as GOOD the commit that changed the data or the metric: git log {between} lists them"
    if row.change is not None:
        return "a larger --limit, or a machine that does nothing else, can decide"
    side = "GOOD" if row.outcome is Outcome.NO_BASELINE else "BAD"
    return f"name as {side} another commit, at which the test can be measured"


def _explain_nothing(left: SideResult) -> str:
    lost = (*left.run.uncollected.values(), *left.run.skipped.values()) if left.run else ()
    reasons = [left.trouble, *lost, *(record.message for record in left.records)]
    reason = next(filter(None, reasons), "the test is not there, or has another metric or other data")
    return " / ".join(line.strip() for line in reason.splitlines() if line.strip())[-400:]
