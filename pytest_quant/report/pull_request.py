"""A run, a comparison or both as a comment of a pull request: the verdict, what broke and why, and the rest folded.

GitHub and GitLab read more than Markdown out of a comment: mentions, references, addresses without brackets, names of
emoji and, at the start of a line, commands such as ``/merge``. What could become one of them is broken by a character
without a width, or written as an entity, which is shown as the character itself in HTML too. Names that cannot, as
nearly all node ids, stay as they are, so that the text can be read as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from pytest_quant.history.compare.comparison import Comparison, Outcome, Row
from pytest_quant.printable import clean, guard_lines
from pytest_quant.record import Record, Run
from pytest_quant.report import comparison_text as words
from pytest_quant.report.cause_text import cause_pairs
from pytest_quant.report.failure import both_figures, explained, failure, headline, meaning
from pytest_quant.report.summary import count_words, summary, table
from pytest_quant.report.text import NOT_MEASURED, shorten
from pytest_quant.result import Status, Verdict

MARKER = "<!-- pytest-quant comment -->"
"""First line of every such comment: a job finds its earlier comment by it, and replaces it."""

_LIMIT_HEADS = ("", "test", "limit", "allowed", "observed", "what it means, what to try")
_CHANGE_HEADS = ("", "test", "quantity", "base → head")
_UNDECIDED = (Status.INCONCLUSIVE, Status.NO_BASELINE, Status.UNAVAILABLE)
_MAX_NAME = 160

_WIDTH = 150
"""Of the table of all checks, which scrolls sideways where it is shown."""


MAX_CHARACTERS = 60_000
"""GitHub refuses a comment of more than 65 536."""

_ACTS = re.compile(
    r"""
    (?P<broken>
        [@#]                                    # mentions, issues, headings
        | [!%](?=[\w"])                         # merge requests and milestones of GitLab
        | [+-](?=[]}])                          # changes within a line of GitLab
        | :(?=//)                               # addresses
        | :(?=[a-z0-9_+-]+:)                    # emoji
        | (?<![^\W_])(?i:www)(?=\.)             # addresses without a scheme
        | \b(?i:GHSA|GH|CVE)(?=-\w)             # issues and advisories by name
    )
    | (?P<both>[~$&])                           # markup, and a label, snippet or epic of GitLab
    | (?P<entity>
        [<|`*\\]
        | (?<!\w)_++ | (?<!_)_++(?![^\W_])      # within a word they are no emphasis
        | ^\[ | \[(?![+-]?[^\W_])               # a link needs more behind it, which is not left either
        | \](?=[(\[:])
    )
    """,
    re.VERBOSE,
)

_LINE_STARTS = (re.compile(r"(\d{1,9})([.)])(?=\s|$)"), re.compile(r"()(\+(?=\s|$)|-(?=\s|--|-*$)|[=/>])"))
"""Lists, rules, quotes, headings, and commands of GitLab."""

_MAX_ENTRY = 400


Table: TypeAlias = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Paragraphs above a table or a list, the heads of its columns, none of a list, and its lines, see `row`."""


def run_comment(
    run: Run | None,
    records: Sequence[Record],
    *,
    failed: bool = False,
    broken: Collection[str] = (),
    compared: Sequence[Comparison] = (),
    faults: Sequence[str] = (),
    links: tuple[str, str] | None = None,
) -> str:
    """Return the verdict of a run, the broken limits, the changed rows of comparisons, and the rest folded.

    Where something changed since the base, that comes first. It has at most 60 000 characters, and counts what does not
    fit. Names cannot become markup, mentions, references or links.

    Parameters
    ----------
    run : ``None`` where there was no check, or the records are of several runs.
    records : of all checks, in the order of the tests.
    failed : the run fails, for whatever reason.
    broken : node ids of tests with a record that failed; not those that were expected to.
    compared : comparisons that this run made.
    faults : reasons beside the checks why the run fails.
    links : addresses of the run of CI and of its artifacts.
    """
    faults = [*faults, *(words.fault(each) for each in compared if each.missing or each.unreported)]
    faults += [f"never reported: {test}" for each in compared for test in each.unreported.tests]
    broken_records = [record for record in records if record.nodeid in broken]
    checks = count_words(records, broken) if records else "no checks"
    verdicts = [words.verdict(each) for each in sorted(compared, key=lambda each: not each.exit_code)]
    opens_on_changes = any(each.base.checks and (each.changed or each.missing) for each in compared)
    parts = [*verdicts, checks] if opens_on_changes else [checks, *verdicts]
    if failed and not (broken or faults or any(each.exit_code for each in compared)):
        parts.append("pytest failed for another reason than a check")
    undecided = next((status for status in _UNDECIDED if any(each.status is status for each in records)), Status.PASS)
    # The first word is FAIL exactly where the run fails.
    head = [MARKER, f"**{Status.FAIL.value if failed else undecided.value}: {'; '.join(parts)}**", ""]
    if run is not None and not compared:
        head += [plain(_describe_place(run)), ""]
    if links is not None:
        head += [f"[This run of CI]({links[0]}), [its artifacts]({links[1]}) such as the page", ""]
    limits: Table = ((), _LIMIT_HEADS, [line for record in broken_records for line in _limit_rows(record)])
    changes: list[Table] = [
        (list(map(plain, (*each.about, words.title(each)))), _CHANGE_HEADS, list(_change_rows(each.changed)))
        for each in compared
    ]
    tables: list[Table] = [
        ((), (), entries([_join_lines(text) for text in faults], 10)),
        *((*changes, limits) if opens_on_changes else (limits, *changes)),
    ]
    blocks = [
        fold(f"{words.name(record)}: {headline(record) or record.status.value}", [code_block(failure(record))])
        for record in broken_records
        if record.status is not Status.PASS
    ]
    if records:
        _, *below = summary(records, broken).splitlines()
        text = "\n".join([table(records, _WIDTH, broken=broken), *below])
        blocks.append(fold(checks, [code_block(text)]))
    blocks += [block for each in compared for block in _fold_lists(each)]
    return guard_lines(document(head, tables, blocks))


def _describe_place(run: Run) -> str:
    """Return the commit and the machine that the run is of."""
    commit = f"commit {clean(run.commit)[:12]}" if run.commit else "no commit"
    about = [clean(run.branch)] if run.branch else []
    about += ["dirty"] if run.dirty else []
    identity = run.environment.identity
    parts = ("gpu",) if identity.get("gpu") else ("cpu", "isa")
    machine = (clean(identity[part]) for part in parts if identity.get(part))
    return ", ".join([f"{commit} ({', '.join(about)})" if about else commit, *machine])


def _limit_rows(record: Record) -> Iterator[str]:
    """Yield a line for each broken limit of a test that failed, or a line that says why else it failed."""
    rows: list[tuple[Status, list[str], list[str]]] = [
        (verdict.status, [verdict.limit, *both_figures(verdict, record)], list(_explain_limit(verdict, record)))
        for verdict in record.verdicts or ()
        if verdict.status in (Status.FAIL, record.status) and verdict.status is not Status.PASS
    ]
    if record.verdicts is None:
        rows = [(record.status, ["", NOT_MEASURED, NOT_MEASURED], [_join_lines(record.message)])]
    elif not rows:
        why = "the check passed, and the test itself failed" if record.status is Status.PASS else "the test failed"
        rows = [(Status.FAIL, ["", NOT_MEASURED, NOT_MEASURED], [why])]
    for status, figures, texts in rows:
        cells = [*map(inline, figures), "<br>".join(map(inline, texts))]
        yield row([f"**{status.value}**", inline(words.name(record), _MAX_NAME), *cells])


def _explain_limit(verdict: Verdict, record: Record) -> Iterator[str]:
    """Yield what a broken limit means, why it is, what changed since it held, and the first thing to try if any."""
    yield next(meaning(verdict, record), verdict.reason)
    if record.cause is not None and verdict is explained(record):
        yield "; ".join(f"{label}: {text}" for label, text in cause_pairs(record.cause))
    yield from filter(None, [record.changed])
    for hint in [each for each in record.hints if each.limit in (verdict.limit, "")][:1]:
        yield f"try {hint.paste}: {hint.text}" if hint.paste else hint.text


def _join_lines(message: str) -> str:
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())


def _change_rows(rows: Sequence[Row]) -> Iterator[str]:
    for group in words.group_by_test(rows):
        for each in group:
            change = filter(NOT_MEASURED.__ne__, [words.change(each)])
            lines = [*change, *words.remarks(each), *(words.differences(each) if each is group[0] else ())]
            # Below one another, for a pull request has no room for more columns.
            cell = "<br>".join([f"**{inline(words.values(each).replace('->', '→'))}**", *map(inline, lines)])
            outcome = f"**{each.outcome.value}**" if each.outcome is Outcome.REGRESSION else each.outcome.value
            yield row([outcome, inline(words.name(each), _MAX_NAME), inline(each.quantity), cell])


def _fold_lists(comparison: Comparison) -> Iterator[str]:
    """Yield a folded block for every list beside the changed rows, and then what holds for all lists."""
    for heading, texts in words.list_others(comparison):
        yield fold(f"{heading} ({len(texts)})", entries(texts))
    if unchanged := words.count_unchanged(comparison):
        rows = comparison.select_rows(Outcome.UNCHANGED)
        yield fold(unchanged, entries([f"{words.name(each)}  {each.quantity} {words.values(each)}" for each in rows]))
    yield from (f"\n{plain(note, 2000)}" for note in comparison.notes)


def inline(text: str, most: int = _MAX_ENTRY) -> str:
    """Return text of a cell or a heading: shown as it is, on one line, the middle left out beyond `most` characters."""

    def still(matched: re.Match[str]) -> str:
        shown = matched["broken"] or _entity(matched[0])
        # A space without a width.
        return shown if matched["entity"] else f"{shown}&#8203;"

    return _ACTS.sub(still, shorten(clean(text).strip(), most))


def plain(text: str, most: int = _MAX_ENTRY) -> str:
    """Return the same for text that a line or an entry of a list begins with."""
    shown = inline(text, most)
    matched = next(filter(None, (start.match(shown) for start in _LINE_STARTS)), None)
    return shown if matched is None else f"{matched[1]}{_entity(matched[2])}{shown[matched.end() :]}"


def _entity(chars: str) -> str:
    return "".join(f"&#{ord(char)};" for char in chars)


def row(cells: Iterable[str]) -> str:
    """Return one line of a table, whose cells are Markdown already."""
    return f"| {' | '.join(cells)} |"


def entries(texts: Sequence[str], most: int = 100) -> list[str]:
    """Return foreign texts as a list, of which `most` are shown and the others counted."""
    lines = [f"- {plain(text)}" for text in texts[:most]]
    return [*lines, f"- and {len(texts) - most} more"] if len(texts) > most else lines


def code_block(text: str) -> str:
    """Return a text that was laid out as it stands, in which nothing is read as Markdown."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def fold(summary: str, lines: Sequence[str]) -> str:
    """Return a block that is folded; `summary` is foreign text, `lines` are Markdown."""
    return "\n".join(["", f"<details><summary>{inline(summary)}</summary>", "", *lines, "", "</details>"])


def document(head: Sequence[str], tables: Sequence[Table], rest: Sequence[str]) -> str:
    """Return a whole comment of at most `MAX_CHARACTERS`; what does not fit is counted.

    Parameters
    ----------
    head : lines that are always shown.
    tables : the most important one first.
    rest : blocks, of which each is shown whole or not at all.
    """
    # Whether each block is one of those that are counted where they are left out.
    blocks = [(line, False) for line in head]
    for above, heads, rows in tables:
        blocks += [(line, False) for paragraph in above for line in (paragraph, "")]
        if rows:
            blocks += [(row(heads), False), ("|" + "---|" * len(heads), False)] if heads else []
            # A blank line ends the table.
            blocks += [*((line, True) for line in rows), ("", False)]
    blocks += [(block, True) for block in rest]
    sizes = accumulate(len(block) + 1 for block, _ in blocks)
    # The line that says how many are left out has fewer than 90.
    fitting = sum(size <= MAX_CHARACTERS - 90 for size in sizes)
    lines = [block for block, _ in blocks[:fitting]]
    left_out = sum(counts for _, counts in blocks[fitting:])
    if left_out:
        lines += ["", f"{left_out} more are left out; `pytest-quant report` shows all of them"]
    return "\n".join(lines) + "\n"
