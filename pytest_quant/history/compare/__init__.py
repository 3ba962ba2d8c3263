"""Two commits compared, series by series: pure functions on records, without a database and without git."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.compare.accepted import with_accepted
from pytest_quant.history.compare.accuracy import compare_accuracy
from pytest_quant.history.compare.comparison import (
    ALPHA,
    CONFIDENCE,
    Comparison,
    Difference,
    Listed,
    Outcome,
    Renamed,
    Reversioned,
    Row,
    Ruling,
    Side,
    Word,
    rule,
)
from pytest_quant.history.compare.facts import compare_exact, compare_statuses, what_differs
from pytest_quant.history.compare.latency import compare_latency
from pytest_quant.history.compare.machine import Machine, machines_of
from pytest_quant.history.compare.pairing import Draft, Pair, judge, pair
from pytest_quant.history.rows import StoredCheck, commit_of
from pytest_quant.history.summaries import CheckSummary

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "Comparison",
    "Difference",
    "Listed",
    "Outcome",
    "Renamed",
    "Reversioned",
    "Row",
    "Ruling",
    "Side",
    "Word",
    "compare",
    "rule",
]


def compare(
    base: Sequence[StoredCheck],
    head: Sequence[StoredCheck],
    *,
    accepted: Mapping[str, BaselineEntry] | None = None,
    earlier: Sequence[CheckSummary] = (),
    alpha: float = ALPHA,
) -> Comparison:
    """Compare all launches of one commit with all launches of another.

    Parameters
    ----------
    base, head : every record of every run of the commit, oldest first; one run of pytest is one launch.
    accepted : entries of the file of baselines by series, of values accepted after the base and of removed tests, see
        `pytest_quant.history.baselines.since`.
    earlier : summaries of all series in the commits before the base, oldest first, which tell how launches and days
        differ; without any, a difference between two days is proven only where it is large.
    alpha : probability that a comparison without any true change has a regression or an improvement by a test.

    Raises
    ------
    HistoryError : a record is damaged.
    """
    pairing = pair(base, head)
    pairs = {each.series: each for each in pairing.pairs}
    accepted = accepted or {}
    machines = machines_of(pairing.pairs, earlier)
    judged = judge([draft for one in pairing.pairs for draft in _drafts(one, machines)], alpha)
    rows = [with_accepted(row, pairs[row.series], accepted.get(row.series)) for row in judged]
    traced = [replace(row, differs=what_differs(pairs[row.series])) if row.changed else row for row in rows]
    return Comparison(
        base=_side(base),
        head=_side(head),
        rows=tuple(sorted(traced, key=_order)),
        added=pairing.added,
        removed=tuple(_removed(listed, accepted.get(listed.series)) for listed in pairing.removed),
        renamed=pairing.renamed,
        reversioned=pairing.reversioned,
        notes=tuple(_notes(base, head)),
        family=sum(row.p is not None for row in rows),
        alpha=alpha,
    )


def _removed(one: Listed, entry: BaselineEntry | None) -> Listed:
    return replace(one, accepted=entry.reason) if entry is not None and entry.removed else one


def _drafts(one: Pair, machines: Mapping[str, Machine]) -> Iterator[Draft]:
    yield Draft(compare_statuses(one))
    if not one.other_version:
        yield from compare_accuracy(one)
    yield from (Draft(row) for row in compare_exact(one))
    yield from compare_latency(one, machines)


def _order(row: Row) -> tuple[int, str, str, str]:
    return list(Outcome).index(row.outcome), row.nodeid, row.series, row.quantity


def _side(checks: Sequence[StoredCheck]) -> Side:
    runs = {check.run.id: check.run for check in checks}
    branches = {run.branch for run in runs.values()}
    return Side(
        commit=commit_of(checks),
        branch=branches.pop() if len(branches) == 1 else None,
        dirty=any(run.dirty for run in runs.values()),
        launches=len(runs),
        checks=len(checks),
    )


def _notes(base: Sequence[StoredCheck], head: Sequence[StoredCheck]) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        if not side:
            yield f"the {name} has no records"
        elif len({check.run.commit for check in side}) > 1:
            content = " with the same content" if commit_of(side) else ""
            yield f"the records of the {name} are of several commits{content}"
        if any(check.run.dirty for check in side):
            yield f"the {name} was run with uncommitted changes"
