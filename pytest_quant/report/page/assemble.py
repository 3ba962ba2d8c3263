"""A page, put together from the records of a run, a comparison and the history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from pytest_quant.history import StoredCheck
from pytest_quant.history.rows import in_utc
from pytest_quant.history.series_history import SeriesHistory
from pytest_quant.printable import clean
from pytest_quant.record import Run
from pytest_quant.report.columns import rows_of
from pytest_quant.report.comparison import ComparedRuns
from pytest_quant.report.page.charts import accepted_in_words, changes_in_words, pareto_charts, series_chart
from pytest_quant.report.page.checks import run_table
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


def assemble(sources: Sources) -> dict[str, Any]:
    """Return what the template of a page reads, and as `data` what its charts are drawn from.

    Raises
    ------
    HistoryError : a record is damaged.
    """
    records = [check.record for check in sources.checks]
    runs = tuple({run.id: run for run in (*(check.run for check in sources.checks), *sources.runs)}.values())
    starts = {(in_utc(check.run.started_at), check.run.commit) for check in sources.checks}
    return {
        "title": _title(runs),
        "about": _about(runs),
        "run": run_table(sources.checks, sources.expected),
        "sources": sources,
        "series": [_series(sources, number) for number in range(len(sources.history))],
        "points": _points(sources.history),
        "pareto": pareto_charts(records, [row.test for row in rows_of(records)]),
        "version": version("pytest-quant"),
        "data": {f"series-{number}": series_chart(series, starts) for number, series in enumerate(sources.history)},
    }


def _title(runs: Sequence[Run]) -> str:
    branches = list(dict.fromkeys(run.branch for run in runs if run.branch))
    commits = list(dict.fromkeys(run.commit[:_COMMIT] for run in runs if run.commit))
    where = " ".join([*branches[:1], *commits[:1]])
    return f"pytest-quant: {where}" if where else "pytest-quant"


def _about(runs: Sequence[Run]) -> list[tuple[str, str]]:
    pairs = (
        ("commit", [(run.commit or "no commit")[:_COMMIT] + (" dirty" if run.dirty else "") for run in runs]),
        ("branch", [run.branch for run in runs]),
        ("pull request", [run.pull_request for run in runs]),
        ("started", [run.started_at for run in runs]),
        ("machine", [run.environment.identity.get("cpu") for run in runs]),
        ("run", [run.id for run in runs]),
    )
    return [(label, _few([text for text in dict.fromkeys(texts) if text])) for label, texts in pairs if any(texts)]


def _few(values: Sequence[str]) -> str:
    more = len(values) - _MOST_NAMED
    return ", ".join(values[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _points(history: Sequence[SeriesHistory]) -> str:
    """Return how many points of the history the page has."""
    shown = sum(len(series.points) for series in history)
    total = sum(one.summary.n_points for one in history)
    number = f"{count(total, 'point')} of {len(history)} series"
    return f"{shown} of {number}, the newest ones; {_WHOLE}" if shown < total else number


def _series(sources: Sources, number: int) -> Mapping[str, Any]:
    """Return what is said of one series beside its chart."""
    history = sources.history[number]
    total, shown = history.summary.n_points, len(history.points)
    points = f"{shown} of {count(total, 'point')}" if shown < total else count(total, "point")
    branch = "no branch" if history.branch is None else f"branch {clean(history.branch)}"
    keys = [check.record.series for check in sources.checks]
    name = series_name(history.summary)
    return {
        "anchor": f"series-{number}",
        "name": name,
        "about": f"{points}; {count(len(history.changes), 'change')} on {branch}",
        "changes": changes_in_words(history),
        "accepted": accepted_in_words(history),
        "check": f"check-{keys.index(history.summary.key)}" if history.summary.key in keys else "",
        "words": name.lower(),
    }
