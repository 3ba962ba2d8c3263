"""A run, a comparison or both as a comment of a pull request: the verdict, what broke and why, and the rest folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.history.compare import Comparison, Outcome, Row
from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record, Run
from pytest_quant.report import comparison as words
from pytest_quant.report.comparison import ComparedRuns
from pytest_quant.report.failure import both_figures, failure, headline
from pytest_quant.report.markdown import Table, code_block, details, document, entries, inline, plain, row
from pytest_quant.report.meaning import meaning
from pytest_quant.report.summary import counted, summary, table
from pytest_quant.report.text import NOT_MEASURED
from pytest_quant.result import Status, Verdict

MARKER = "<!-- pytest-quant comment -->"
"""First line of every such comment: a job finds its earlier comment by it, and replaces it."""

_LIMIT_HEADS = ("", "test", "limit", "allowed", "observed", "what it means")
_CHANGE_HEADS = ("", "test", "quantity", "base → head")
_UNDECIDED = (Status.INCONCLUSIVE, Status.NO_BASELINE, Status.UNAVAILABLE)
_MAX_NAME = 160
_MAX_NOTE = 2000
_MAX_LISTED = 10

_WIDTH = 150
"""Of the table of all checks, which scrolls sideways where it is shown."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What pytest says about the tests of a run.

    Attributes
    ----------
    failed : the run fails, for whatever reason.
    broken : node ids of tests with a record that failed; not those that were expected to.
    expected : node ids of tests that failed as they were expected to.
    """

    failed: bool = False
    broken: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()


def run_comment(
    run: Run | None,
    records: Sequence[Record],
    outcomes: Outcomes,
    compared: Sequence[ComparedRuns] = (),
    faults: Sequence[str] = (),
) -> str:
    """Return the verdict of a run, the broken limits, the changed rows of comparisons, and the rest folded.

    It has at most 60 000 characters, and counts what does not fit. Names cannot become markup, mentions, references or
    links.

    Parameters
    ----------
    run : ``None`` where there was no check.
    records : of all checks, in the order of the tests.
    outcomes : of the tests.
    compared : comparisons that this run made.
    faults : reasons beside the checks why the run fails.
    """
    broken = [record for record in records if record.nodeid in outcomes.broken]
    head = [MARKER, f"**{_verdict(records, outcomes, compared, faults)}**", ""]
    if run is not None and not compared:
        head += [plain(_where(run)), ""]
    tables = [
        Table((), tuple(entries([_one_line(text) for text in faults], _MAX_LISTED))),
        Table(_LIMIT_HEADS, tuple(line for record in broken for line in _limit_rows(record))),
    ]
    folded = [_screen(record) for record in broken if record.status is not Status.PASS]
    folded += [_all_checks(records, outcomes.expected)] if records else []
    return _document(head, tables, folded, compared, "`--quant-json FILE`")


def comparison_comment(compared: ComparedRuns) -> str:
    """Return the verdict of a comparison, its changed rows and the rest folded, within the bounds of `run_comment`."""
    verdict = words.verdict(compared.comparison, compared.ruling)
    return _document([MARKER, f"**{verdict}**", ""], [], [], [compared], "`--json`")


def _document(
    head: Sequence[str],
    tables: Sequence[Table],
    folded: Sequence[str],
    compared: Sequence[ComparedRuns],
    everything: str,
) -> str:
    shown, rest = list(tables), list(folded)
    for each in compared:
        about = (*each.about, words.title(each.comparison))
        shown.append(Table((), (), tuple(map(plain, about))))
        shown.append(Table(_CHANGE_HEADS, tuple(_change_rows(each.comparison.changed))))
        rest += _folded(each.comparison)
    return guard_lines(document(head, shown, rest, everything))


def _verdict(
    records: Sequence[Record], outcomes: Outcomes, compared: Sequence[ComparedRuns], faults: Sequence[str]
) -> str:
    """Return the one line that says what came out; its first word is FAIL exactly where the run fails."""
    checks = counted(records, outcomes.expected) if records else "no checks"
    regressed_first = sorted(compared, key=lambda one: not one.ruling.code)
    verdicts = [words.verdict(each.comparison, each.ruling) for each in regressed_first]
    regressed = any(one.ruling.code for one in compared)
    # What fails the run comes first.
    parts = [*verdicts, checks] if regressed and not outcomes.broken else [checks, *verdicts]
    if outcomes.failed and not (outcomes.broken or faults or regressed):
        parts.append("pytest failed for another reason than a check")
    return f"{_word(records, outcomes)}: {'; '.join(parts)}"


def _word(records: Sequence[Record], outcomes: Outcomes) -> str:
    if outcomes.failed:
        return "FAIL"
    statuses = {record.status for record in records}
    return next((status.value for status in _UNDECIDED if status in statuses), Status.PASS.value)


def _where(run: Run) -> str:
    """Return the commit and the machine that the run is of."""
    commit = f"commit {clean(run.commit)[:12]}" if run.commit else "no commit"
    about = [clean(run.branch)] if run.branch else []
    about += ["dirty"] if run.dirty else []
    identity = run.environment.identity
    machine = next((clean(identity[part]) for part in ("gpu", "cpu") if identity.get(part)), "")
    return ", ".join(part for part in (f"{commit} ({', '.join(about)})" if about else commit, machine) if part)


def _limit_rows(record: Record) -> Iterator[str]:
    """Yield a line for each broken limit of a test that failed, or one that says why else it failed."""
    verdicts = [one for one in record.verdicts or () if one.status in (Status.FAIL, record.status)]
    verdicts = [one for one in verdicts if one.status is not Status.PASS]
    if record.verdicts is None:
        yield _limit_row(record, record.status.value, "", (NOT_MEASURED,) * 2, _one_line(record.message))
    elif not verdicts:
        why = "the check passed, and the test itself failed" if record.status is Status.PASS else "the test failed"
        yield _limit_row(record, Status.FAIL.value, "", (NOT_MEASURED,) * 2, why)
    for verdict in verdicts:
        yield _limit_row(
            record, verdict.status.value, verdict.limit, both_figures(verdict, record), _sentence(verdict, record)
        )


def _limit_row(record: Record, word: str, limit: str, figures: tuple[str, str], why: str) -> str:
    return row([f"**{word}**", inline(words.name(record), _MAX_NAME), *map(inline, (limit, *figures, why))])


def _sentence(broken: Verdict, record: Record) -> str:
    return next(meaning(broken, record), broken.reason)


def _one_line(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())


def _screen(record: Record) -> str:
    """Return the whole failure of one check, folded."""
    return details(f"{words.name(record)}: {headline(record) or record.status.value}", [code_block(failure(record))])


def _all_checks(records: Sequence[Record], expected: Collection[str]) -> str:
    """Return the table and the summary of the terminal, folded."""
    _, *below = summary(records, expected).splitlines()
    text = "\n".join([table(records, _WIDTH, expected=expected), *below])
    return details(counted(records, expected), [code_block(text)])


def _change_rows(rows: Sequence[Row]) -> Iterator[str]:
    for group in words.by_test(rows):
        for one in group:
            lines = [*_changed(one), *words.remarks(one), *(words.differences(one) if one is group[0] else ())]
            # Below one another, for a pull request has no room for more columns.
            cell = "<br>".join([f"**{inline(words.values(one).replace('->', '→'))}**", *map(inline, lines)])
            outcome = f"**{one.outcome.value}**" if one.outcome is Outcome.REGRESSION else one.outcome.value
            yield row([outcome, inline(words.name(one), _MAX_NAME), inline(one.quantity), cell])


def _changed(one: Row) -> Iterator[str]:
    """Yield the change and its p, where there is either."""
    change, p = words.change(one), words.p_value(one)
    if p != NOT_MEASURED:
        yield f"{change}, {p}" if one.advisory else f"{change}, p (Holm) {p}"
    elif change != NOT_MEASURED:
        yield change


def _folded(comparison: Comparison) -> Iterator[str]:
    """Yield a folded block for every list beside the changed rows, and then what is to be known of all of them."""
    for heading, texts in words.other_lists(comparison):
        yield details(f"{heading} ({len(texts)})", entries(texts))
    if unchanged := words.unchanged(comparison):
        rows = comparison.having(Outcome.UNCHANGED)
        yield details(unchanged, entries([f"{words.name(one)}  {one.quantity} {words.values(one)}" for one in rows]))
    for note in (*comparison.notes, words.level(comparison)):
        if note:
            yield f"\n{plain(note, _MAX_NOTE)}"
