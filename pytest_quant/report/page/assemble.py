"""A page, put together from the records of a run, a comparison and the history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from pytest_quant.history import StoredCheck
from pytest_quant.history.rows import in_utc
from pytest_quant.history.series_history import SeriesHistory
from pytest_quant.printable import clean
from pytest_quant.record import Json, Record, Run
from pytest_quant.report.columns import rows_of
from pytest_quant.report.page.compared import ComparedRuns, comparison_view
from pytest_quant.report.page.content import ComparisonView, HistoryView, Page, SeriesView
from pytest_quant.report.page.overview import run_view
from pytest_quant.report.page.pareto import pareto_views
from pytest_quant.report.page.series import accepted_in_words, changes_in_words, series_data
from pytest_quant.report.series import series_name
from pytest_quant.report.text import count

_COMMIT = 12
_MOST_NAMED = 3
_WHOLE = "pytest-quant history SERIES --csv writes all of them"


@dataclass(frozen=True, slots=True)
class Sources:
    """What a page is made of.

    Attributes
    ----------
    checks : of the run, each with the run that it is of, in the order of its document.
    runs : that stand for a page without checks.
    expected : node ids of tests that failed as they were expected to.
    compared : the comparison; ``None`` with `why_not_compared` and the command that makes one as `next_step`.
    history : of each series; empty with `why_no_history`.
    """

    checks: tuple[StoredCheck, ...]
    runs: tuple[Run, ...] = ()
    expected: Collection[str] = ()
    compared: ComparedRuns | None = None
    why_not_compared: str = ""
    next_step: str = ""
    history: Sequence[SeriesHistory] = field(default=(), repr=False)
    why_no_history: str = ""


def assemble(sources: Sources) -> Page:
    """Return the page of `sources`.

    Raises
    ------
    HistoryError : a record is damaged.
    """
    checks = sources.checks
    records = [check.record for check in checks]
    names = [row.test for row in rows_of(records)]
    history, series = _history(sources)
    runs = tuple({run.id: run for run in (*(check.run for check in checks), *sources.runs)}.values())
    return Page(
        title=_title(runs),
        about=tuple(_about(runs)),
        run=run_view(checks, sources.expected),
        comparison=_comparison(sources),
        history=history,
        pareto=pareto_views(records, names),
        data={**_rounds(records), **series},
        version=version("pytest-quant"),
    )


def _title(runs: Sequence[Run]) -> str:
    branches = list(dict.fromkeys(run.branch for run in runs if run.branch))
    commits = list(dict.fromkeys(run.commit[:_COMMIT] for run in runs if run.commit))
    where = " ".join([*branches[:1], *commits[:1]])
    return f"pytest-quant: {where}" if where else "pytest-quant"


def _about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    commits = dict.fromkeys((run.commit or "no commit")[:_COMMIT] + (" dirty" if run.dirty else "") for run in runs)
    branches = dict.fromkeys(run.branch for run in runs if run.branch)
    requests = dict.fromkeys(run.pull_request for run in runs if run.pull_request)
    machines = dict.fromkeys(run.environment.identity.get("cpu", "") for run in runs)
    found = (
        ("commit", commits),
        ("branch", branches),
        ("pull request", requests),
        ("started", dict.fromkeys(run.started_at for run in runs)),
        ("machine", machines),
        ("run", dict.fromkeys(run.id for run in runs)),
    )
    return [(label, _few(list(values))) for label, values in found if any(values)]


def _few(values: Sequence[str]) -> str:
    more = len(values) - _MOST_NAMED
    return ", ".join(values[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _comparison(sources: Sources) -> ComparisonView:
    if sources.compared is None:
        return ComparisonView(why_not=sources.why_not_compared, next_step=sources.next_step)
    return comparison_view(sources.compared)


def _history(sources: Sources) -> tuple[HistoryView, dict[str, Json]]:
    """Return what the page says of the history, and the data of its charts."""
    if not sources.history:
        return HistoryView(why_not=sources.why_no_history), {}
    checks = {check.record.series: f"check-{number}" for number, check in enumerate(sources.checks)}
    runs = {(in_utc(check.run.started_at), check.run.commit) for check in sources.checks}
    by_anchor = {f"series-{number}": history for number, history in enumerate(sources.history)}
    views = [_series(history, anchor, checks.get(history.summary.key, "")) for anchor, history in by_anchor.items()]
    shown = sum(len(history.points) for history in sources.history)
    total = sum(history.summary.n_points for history in sources.history)
    number = f"{count(total, 'point')} of {len(views)} series"
    if shown < total:
        number = f"{shown} of {number}, the newest ones; {_WHOLE}"
    data: dict[str, Json] = {anchor: series_data(history, runs) for anchor, history in by_anchor.items()}
    return HistoryView(tuple(views), number), data


def _series(history: SeriesHistory, anchor: str, check: str) -> SeriesView:
    name = series_name(history.summary)
    total, shown = history.summary.n_points, len(history.points)
    points = f"{shown} of {count(total, 'point')}" if shown < total else count(total, "point")
    branch = "no branch" if history.branch is None else f"branch {clean(history.branch)}"
    return SeriesView(
        anchor=anchor,
        name=name,
        told=f"{points}; {count(len(history.changes), 'change')} on {branch}",
        changes=changes_in_words(history),
        accepted=accepted_in_words(history),
        check=check,
        words=name.lower(),
    )


def _rounds(records: Sequence[Record]) -> dict[str, Json]:
    """Return the times by round of every check that has them, under the names that `RoundsChart` has."""
    return {
        f"rounds-{number}": {name: list(medians) for name, medians in record.latency.round_p50_ms.items()}
        for number, record in enumerate(records)
        if record.latency is not None and any(record.latency.round_p50_ms.values())
    }
