"""A run as a comment of a pull request: its verdict, what is broken and why, what changed, and the rest folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.history.compare import Comparison, Ruling
from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record, Run
from pytest_quant.report.comparison import name, verdict
from pytest_quant.report.comparison_markdown import folded, unfolded
from pytest_quant.report.failure import both_figures, failure, headline
from pytest_quant.report.markdown import Table, code_block, details, document, entries, inline, plain, row
from pytest_quant.report.meaning import meaning
from pytest_quant.report.summary import counted, summary, table
from pytest_quant.report.text import NOT_MEASURED
from pytest_quant.result import Status, Verdict

MARKER = "<!-- pytest-quant comment -->"
"""First line of every such comment: a job finds its earlier comment by it, and replaces it."""

_HEADS = ("", "test", "limit", "allowed", "observed", "what it means")

_UNDECIDED = (Status.INCONCLUSIVE, Status.NO_BASELINE, Status.UNAVAILABLE)

_MAX_NAME = 160

_WIDTH = 150
"""Of the table of all checks, which scrolls sideways where it is shown."""

_MAX_LISTED = 10

_EVERYTHING = "`--quant-json FILE`"


@dataclass(frozen=True, slots=True)
class Beside:
    """A comparison of the run with a base, which `told` names in one line."""

    told: str
    comparison: Comparison
    ruling: Ruling


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


def run_markdown(
    run: Run | None,
    records: Sequence[Record],
    outcomes: Outcomes,
    beside: Sequence[Beside] = (),
    faults: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return the verdict, the broken limits, the changed rows of comparisons, and the rest folded.

    It has at most 60 000 characters, and counts what does not fit. Names cannot become markup, mentions, references or
    links.

    Parameters
    ----------
    run : ``None`` where there was no check.
    records : of all checks, in the order of the tests.
    outcomes : of the tests.
    beside : comparisons that this run made.
    faults : reasons beside the checks why the run fails.
    notes : what else a reader of the verdict must know.
    """
    broken = [record for record in records if record.nodeid in outcomes.broken]
    head = [MARKER, f"**{_verdict(records, outcomes, beside, faults)}**", ""]
    if run is not None and not beside:
        head += [plain(_where(run)), ""]
    told = [entries([_one_line(text) for text in texts], _MAX_LISTED) for texts in (faults, notes)]
    tables = [Table((), tuple(lines)) for lines in told]
    tables.append(Table(_HEADS, tuple(line for record in broken for line in _rows(record))))
    rest = [_screen(record) for record in broken if record.status is not Status.PASS]
    if records:
        rest.append(_all_checks(records, outcomes.expected))
    for one in beside:
        tables += unfolded(one.comparison, plain(one.told))
        rest += folded(one.comparison)
    return guard_lines(document(head, tables, rest, _EVERYTHING))


def _verdict(records: Sequence[Record], outcomes: Outcomes, beside: Sequence[Beside], faults: Sequence[str]) -> str:
    """Return the one line that says what came out; its first word is FAIL exactly where the run fails."""
    checks = counted(records, outcomes.expected) if records else "no checks"
    compared = [verdict(one.comparison, one.ruling) for one in sorted(beside, key=lambda one: not one.ruling.code)]
    # What fails the run comes first.
    regressed = not outcomes.broken and any(one.ruling.code for one in beside)
    parts = [*compared, checks] if regressed else [checks, *compared]
    if outcomes.failed and not (outcomes.broken or faults or any(one.ruling.code for one in beside)):
        parts.append("the run failed beside its checks")
    return f"{_word(records, outcomes)}: {'; '.join(parts)}"


def _word(records: Sequence[Record], outcomes: Outcomes) -> str:
    if outcomes.failed:
        return "FAIL"
    found = {record.status for record in records}
    return next((status.value for status in _UNDECIDED if status in found), Status.PASS.value)


def _where(run: Run) -> str:
    """Return the commit and the machine that the run is of."""
    commit = f"commit {clean(run.commit)[:12]}" if run.commit else "no commit"
    about = [clean(run.branch)] if run.branch else []
    about += ["dirty"] if run.dirty else []
    known = run.environment.identity
    machine = next((clean(known[part]) for part in ("gpu", "cpu") if known.get(part)), "")
    return ", ".join(part for part in (f"{commit} ({', '.join(about)})" if about else commit, machine) if part)


def _rows(record: Record) -> Iterator[str]:
    """Yield a line for each broken limit of a test that failed, or one that says why else it failed."""
    told = [one for one in record.verdicts or () if one.status in (Status.FAIL, record.status)]
    told = [one for one in told if one.status is not Status.PASS]
    if record.verdicts is None:
        yield _row(record, record.status.value, "", (NOT_MEASURED,) * 2, _one_line(record.message))
    elif not told:
        why = "the check passed, and the test itself failed" if record.status is Status.PASS else "the test failed"
        yield _row(record, Status.FAIL.value, "", (NOT_MEASURED,) * 2, why)
    for one in told:
        yield _row(record, one.status.value, one.limit, both_figures(one, record), _sentence(one, record))


def _row(record: Record, word: str, limit: str, figures: tuple[str, str], why: str) -> str:
    return row([f"**{word}**", inline(name(record), _MAX_NAME), *map(inline, (limit, *figures, why))])


def _sentence(broken: Verdict, record: Record) -> str:
    return next(meaning(broken, record), broken.reason)


def _one_line(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())


def _screen(record: Record) -> str:
    """Return the whole failure of one check, folded."""
    return details(f"{name(record)}: {headline(record) or record.status.value}", [code_block(failure(record))])


def _all_checks(records: Sequence[Record], expected: Collection[str]) -> str:
    """Return the table and the summary of the terminal, folded."""
    _, *below = summary(records, expected).splitlines()
    text = "\n".join([table(records, _WIDTH, expected=expected), *below])
    return details(counted(records, expected), [code_block(text)])
