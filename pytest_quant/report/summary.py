"""What a run prints at its end: the table with one line for each check, and the lines below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import click
from rich.cells import cell_len, set_cell_size

from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.report.columns import EXPECTED, TEST_FAILED, WHICH, default_columns, pick_columns, rows_of, word
from pytest_quant.report.text import GAP, count, first_of, format_in_unit, pad, points, shorten, wrap
from pytest_quant.result import Status
from pytest_quant.spec import limits_on

(_COVERAGE,) = limits_on("coverage")
_LEAST_TEST = 30
"""Cells that the id of a test may always take, before a column is left out for it."""
_STAY_LONGEST = (
    "test", "status", "drop", "speedup", "metric", "coverage", "portability", "ttft", "tpot", "scheme", "p50", "size",
    "batch", "precision", "backend", "model", "agreement", "drop_ci", "speedup_ci",
)  # fmt: skip
"""The columns of `WHICH` and of the default in the order in which a narrow terminal has room for them."""

_LEAST_REASON = 12
_NO_FIGURES = (*WHICH, "status")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_COLORS = {Status.PASS.value: "green"} | dict.fromkeys((Status.FAIL.value, Status.ERROR.value, TEST_FAILED), "red")
"""Of statuses; others are yellow."""
_BOLD = (Status.FAIL.value, Status.ERROR.value, Status.UNAVAILABLE.value, TEST_FAILED)

_MAX_LISTED = 10
_MAX_NAMED = 4
"""Tests that a line names; the others are counted."""
_MOST_PCT = 50.0


def table(
    records: Sequence[Record],
    width: int,
    columns: Sequence[str] | None = None,
    color: bool = False,
    *,
    broken: Collection[str] = (),
    picks: str = "",
) -> str:
    """Return one line for each test below a head, without a newline at the end; empty without records.

    Columns that do not fit into `width` cells of the terminal are left out and named in a last line; so are, without a
    word, figures that no row has, unless `columns` asks for them. A figure that was not measured is ``-``, and a figure
    is never cut. A check that never came to be says why in place of its figures.

    Parameters
    ----------
    columns : names in the order wanted; ``None`` for the default ones.
    color : put ANSI colours around the statuses.
    broken : node ids of tests that failed and should not have.
    picks : the option that picks columns, named where some are left out; empty where there is none.

    Raises
    ------
    UsageError : a column does not exist; the message names the nearest.
    """
    if not records:
        return ""
    rows = rows_of(records, broken)
    cells = {column.name: column.cells(rows) for column in pick_columns(columns or default_columns(rows))}
    sizes = {name: max(map(cell_len, (head, *texts))) for name, (head, texts, _) in cells.items()}
    shown = _fit_columns(sizes, width, (columns[0], "status", *columns) if columns else _STAY_LONGEST)
    cut = {name: _cut_texts(cells[name][1], size) for name, size in shown.items()}
    heads = [pad(cells[name][0], size, cells[name][2]) for name, size in shown.items()]
    lines = [GAP.join(heads).rstrip(), "-" * min(width, _used_width(shown.values()))]
    for index, row in enumerate(rows):
        texts = {name: pad(cut[name][index], size, cells[name][2]) for name, size in shown.items()}
        if color and "status" in texts:
            styled = click.style(row.status, fg=_COLORS.get(row.status, "yellow"), bold=row.status in _BOLD or None)
            texts["status"] = texts["status"].replace(row.status, styled)
        lines.append(GAP.join(_add_reason(texts, shown, row.record, width)).rstrip())
    left_out = [name for name in cells if name not in shown]
    if left_out:
        option = f" ({picks}{_NO_BREAK}picks)" if picks else ""
        lines += wrap(f"no room for {', '.join(left_out)}{option}", width)
    return "\n".join(lines).replace(_NO_BREAK, " ")


def _fit_columns(sizes: Mapping[str, int], width: int, wanted: Sequence[str]) -> dict[str, int]:
    """Return the sizes of the columns that fit, of which the first of `wanted` always does; ids of tests are cut."""
    least = {name: min(size, max(_LEAST_TEST, width // 4)) if name == "test" else size for name, size in sizes.items()}
    fitting: list[str] = []
    for name in dict.fromkeys(wanted):
        if name in least and (not fitting or _used_width(least[other] for other in (*fitting, name)) <= width):
            fitting.append(name)
    shown = {name: size for name, size in least.items() if name in fitting}
    if "test" in shown:
        room = width - _used_width(shown.values())
        shown["test"] = min(sizes["test"], max(_LEAST_REASON, shown["test"] + room))
    return shown


def _cut_texts(texts: Sequence[str], size: int) -> list[str]:
    """Return each text in `size` characters; if that would make some alike, their ends, by which tests differ."""
    short = [shorten(text, size) for text in texts]
    number = Counter(short)
    whole_and_short = zip(texts, short, strict=True)
    return [each if number[each] == 1 or each == text else f"...{text[3 - size :]}" for text, each in whole_and_short]


def _used_width(sizes: Iterable[int]) -> int:
    """Return how many cells of the terminal columns of these sizes take, with the gaps between them."""
    return sum(size + len(GAP) for size in sizes) - len(GAP)


def _add_reason(texts: Mapping[str, str], sizes: Mapping[str, int], record: Record, width: int) -> list[str]:
    """Return the cells of a line; a check that never came to be says why in place of its figures, or behind them."""
    cells, names = list(texts.values()), list(texts)
    if not record.message or record.accuracy is not None:
        return cells
    why = clean(record.message.splitlines()[0])
    first = next((place for place, name in enumerate(names) if name not in _NO_FIGURES), len(names))
    after = next((place for place in range(first, len(names)) if names[place] in _NO_FIGURES), len(names))
    room = _used_width(sizes[name] for name in names[first:after])
    if room < _LEAST_REASON:
        first, after, room = len(cells), len(cells), min(cell_len(why), width - _used_width(sizes.values()) - len(GAP))
    if room < _LEAST_REASON:
        return cells
    short = why if cell_len(why) <= room else set_cell_size(why, room - 3).rstrip() + "..."
    return [*cells[:first], pad(short, room), *cells[after:]]


def summary(records: Sequence[Record], broken: Collection[str] = ()) -> str:
    """Return counts per status, what did not run, what could not be decided, what got better, and the cache's part.

    Empty without records. What several tests have in common is said once.

    Parameters
    ----------
    records : of all checks.
    broken : node ids of tests that failed and should not have.
    """
    if not records:
        return ""
    lines = [count_words(records, broken)]
    simulated = sum(record.accuracy is not None and record.accuracy.simulated for record in records)
    if simulated:
        # A PASS of a simulation is none of a device.
        lines.append(
            f"SIMULATED: {count(simulated, 'check')} judged by float simulation; nothing of them ran on the device"
        )
    rows = rows_of(records)
    for kind in (_explain_not_run, _open_limits, _find_warnings, _mostly_float, _doubts, _note_without_limits, _better):
        tests: dict[tuple[str, str], list[str]] = {}
        for said, test in ((said, row.test) for row in rows for said in kind(row.record)):
            tests.setdefault(said, []).append(test)
        texts = [
            ": ".join(filter(None, (what, first_of(named, _MAX_NAMED), why))) for (what, why), named in tests.items()
        ]
        more = len(texts) - _MAX_LISTED
        lines += texts if more <= 0 else [*texts[:_MAX_LISTED], f"... and {more} more of these"]
    # Speedups depend on a reference with TF32, or that is not FP32.
    states = Counter(record.latency.compared_with for record in records if record.latency is not None)
    lines += [f"latency reference {clean(state)}: {count(states[state], 'check')}" for state in states if state]
    return "\n".join([*lines, *_cache(records)])


def count_words(records: Sequence[Record], broken: Collection[str] = ()) -> str:
    """Return the number of checks with each `word`."""
    counts = Counter(word(record, broken) for record in records)
    words = (*(status.value for status in reversed(Status)), TEST_FAILED, EXPECTED)
    texts = ", ".join(f"{counts[status]} {status}" for status in words if counts[status])
    return f"{count(len(records), 'check')}: {texts}"


def _explain_not_run(record: Record) -> Iterator[tuple[str, str]]:
    if record.status is Status.UNAVAILABLE:
        yield f"{record.status.value}, NOT RUN", "; ".join(clean(line.strip()) for line in record.message.splitlines())


def _open_limits(record: Record) -> Iterator[tuple[str, str]]:
    for status in (Status.INCONCLUSIVE, Status.NO_BASELINE):
        limits: dict[str, list[str]] = {}
        for verdict in record.verdicts or ():
            if verdict.status is status:
                limits.setdefault(verdict.reason, []).append(verdict.limit)
        if limits:
            yield status.value, clean("; ".join(f"{', '.join(names)}: {why}" for why, names in limits.items()))


def _mostly_float(record: Record) -> Iterator[tuple[str, str]]:
    """Yield a line for an engine that passes and whose scheme left most of the compute in float."""
    coverage = record.coverage
    if coverage is None or not coverage.not_quantizable or (coverage.most_pct or _MOST_PCT) >= _MOST_PCT:
        return
    if any(verdict.limit == _COVERAGE and verdict.status is Status.PASS for verdict in record.verdicts or ()):
        left = ", ".join(f"{clean(name)} ({points(share)} %)" for name, share in coverage.not_quantizable.items())
        share = f"{points(coverage.most_pct)} % of {coverage.unit} ran in {record.precision}"
        yield "mostly float", f"{share}; {record.scheme} cannot quantize {left}"


def _doubts(record: Record) -> Iterator[tuple[str, str]]:
    """Explain the question mark of the table, if no limit did."""
    said = "".join(verdict.reason for verdict in record.verdicts or ())
    reasons = [reason for reason in record.latency.reasons if reason not in said] if record.latency else []
    if reasons:
        yield "timing in doubt (?)", clean("; ".join(reasons))


def _find_warnings(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what a verdict must not hide; a failure has it among its notes."""
    yield from (("warning", clean(text)) for text in record.warnings if record.status is not Status.FAIL)


def _note_without_limits(record: Record) -> Iterator[tuple[str, str]]:
    if record.verdicts is not None and all(verdict.implicit for verdict in record.verdicts):
        beside = " beside coverage" if any(verdict.limit == _COVERAGE for verdict in record.verdicts) else ""
        yield f"no limit set{beside}", ""


def _better(record: Record) -> Iterator[tuple[str, str]]:
    """Yield a line for a gain that the interval of the drop shows; a sample or two more may be chance."""
    accuracy = record.accuracy
    if accuracy is not None and accuracy.drop_ci is not None and accuracy.drop_ci.high < 0.0:
        before = format_in_unit(accuracy.reference, accuracy.unit)
        after = format_in_unit(accuracy.candidate, accuracy.unit)
        yield "better than FP32", clean(f"{accuracy.metric} {before} -> {after} {accuracy.unit or ''}".rstrip())


def _cache(records: Sequence[Record]) -> Iterator[str]:
    used = [record.cache for record in records if record.cache is not None]
    if not used:
        return
    engines, references = (Counter(cache.get(what) for cache in used) for what in ("engine", "reference"))
    yield (
        f"{count(engines['built'], 'engine')} built, {engines['hit']} from cache; "
        f"{count(references['built'], 'reference')} evaluated, {references['hit']} from cache"
    )
