"""A page as HTML, in one file that loads nothing else.

What stands in a page came from outside: names of tests, branches, messages, outputs of models. Jinja2 escapes every
text of it, and each is cleaned as it is for a terminal; data for charts is base64, in which no text can end a script.
What a check opens to is HTML of the same templates, deflated with that of all others, which takes a tenth of the room:
a page of hundreds of checks is small, and opens at once. The page's policy allows the scripts and styles that are in
it, by their digests, and nothing from any network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_quant.history.compare.comparison import Comparison, Outcome
from pytest_quant.history.rows import StoredCheck, in_utc
from pytest_quant.history.trends import SeriesHistory
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report import comparison
from pytest_quant.report.failure import both_figures, meanings
from pytest_quant.report.page.charts import (
    accepted_in_words,
    changes_in_words,
    interval_bar,
    pareto_charts,
    series_chart,
)
from pytest_quant.report.page.checks import run_table
from pytest_quant.report.series import series_name
from pytest_quant.report.text import count, figure, first_of, letter

_COMMIT, _SUBJECT = 12, 72
"""Characters of the id of a commit, and of the first line of its message."""
_MOST_NAMED = 3
_WHOLE = "pytest-quant history SERIES --json prints all of them"

UPLOT = "1.6.32"
"""Version of the chart library in the package; its files have digests in the tests."""

_STYLES = ("uplot/uPlot.min.css", "page.css")
_FIRST = "first.js"
"""Runs before anything is shown: the chosen theme."""
_SCRIPTS = ("uplot/uPlot.iife.min.js", "charts.js", "page.js")


def page_html(
    checks: Sequence[StoredCheck],
    *,
    runs: Sequence[Run] = (),
    expected: Collection[str] = (),
    broken: Collection[str] = (),
    compared: Comparison | None = None,
    why_not_compared: str = "",
    next_step: str = "",
    history: Sequence[SeriesHistory] = (),
    why_no_history: str = "",
) -> bytes:
    """Return a page as one document.

    Parameters
    ----------
    checks : of the run, each with the run that it is of, in the order of its document.
    runs : that stand for a page without checks.
    expected, broken : node ids of tests that failed as they were expected to, and of those that should not have.
    compared : the comparison; ``None`` with `why_not_compared` and the command that makes one as `next_step`.
    history : of each series; empty with `why_no_history`.

    Raises
    ------
    HistoryError : a record is damaged.
    """
    records = [check.record for check in checks]
    all_runs = tuple({run.id: run for run in (*(check.run for check in checks), *runs)}.values())
    starts = {(in_utc(check.run.started_at), check.run.commit) for check in checks}
    table = run_table(checks, expected, broken)
    styles = "\n".join(map(_asset, _STYLES))
    scripts = ["\n".join(map(_asset, _SCRIPTS)), _asset(_FIRST)]
    templates = _templates()
    detail = templates.get_template("parts.html.j2").module.detail  # type: ignore[attr-defined]
    data = {f"series-{number}": series_chart(series, starts, records) for number, series in enumerate(history)}
    shown = [_series(series, number, records) for number, series in enumerate(history)]
    changes = [(*change, each["anchor"], each["name"]) for each in shown for change in each["changes"]]
    subjects = {commit[:_COMMIT]: clean(text)[:_SUBJECT] for each in history for commit, text in each.subjects.items()}
    details = {f"check-{check['number']}": str(detail(check)) for check in table["checks"]}
    html = templates.get_template("page.html.j2").render(
        title=_title(all_runs),
        about=_about(all_runs),
        run=table,
        compared=compared,
        why_not_compared=why_not_compared,
        next_step=next_step,
        series=shown,
        changes=sorted(changes, reverse=True),
        subjects=subjects,
        points=_points(history),
        why_no_history=why_no_history,
        pareto_charts=pareto_charts(records, [check["row"].test for check in table["checks"]]),
        version=version("pytest-quant"),
        policy=_policy(styles, scripts),
        styles=_trusted(styles),
        script=_trusted(scripts[0]),
        first=_trusted(scripts[1]),
        data=_trusted(packed({**data, "details": details, "subjects": subjects})),
    )
    return html.encode()


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
    said = ((label, list(dict.fromkeys(filter(None, texts)))) for label, texts in pairs)
    return [(label, first_of(texts, _MOST_NAMED)) for label, texts in said if texts]


def _points(history: Sequence[SeriesHistory]) -> str:
    """Return how many points of the history the page has."""
    shown = sum(len(series.points) for series in history)
    total = sum(series.summary.n_points for series in history)
    number = f"{count(total, 'point')} of {len(history)} series"
    return f"{shown} of {number}, the newest ones; {_WHOLE}" if shown < total else number


def _series(history: SeriesHistory, number: int, records: Sequence[Record]) -> dict[str, Any]:
    """Return what is said of one series beside its chart."""
    total, shown = history.summary.n_points, len(history.points)
    points = f"{shown} of {count(total, 'point')}" if shown < total else count(total, "point")
    branch = "no branch" if history.branch is None else f"branch {clean(history.branch)}"
    keys = [record.series for record in records]
    name = series_name(history.summary.key)
    return {
        "anchor": f"series-{number}",
        "name": name,
        "about": f"{points}; {count(len(history.changes), 'change')} on {branch}",
        "changes": list(changes_in_words(history)),
        "accepted": accepted_in_words(history),
        "check": f"check-{keys.index(history.summary.key)}" if history.summary.key in keys else "",
        "words": name.lower(),
    }


def packed(data: Mapping[str, Any]) -> str:
    """Return data as deflated JSON in base64, which no text can end, or begin markup in."""
    content = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def _policy(styles: str, scripts: Iterable[str]) -> str:
    ours = f"script-src {' '.join(map(_digest, scripts))}; style-src {_digest(styles)}"
    return f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _trusted(content: str) -> Markup:
    """Return content that is ours, or packed above, as it is."""
    return Markup(content)  # nosec B704 # noqa: S704 - our own assets, and base64


@cache
def _asset(name: str) -> str:
    return files("pytest_quant.report.page").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("pytest_quant.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        both_figures=both_figures,
        figure=figure,
        interval_bar=interval_bar,
        letter=letter,
        meanings=meanings,
        uplot=UPLOT,
        words=comparison,
        unchanged=Outcome.UNCHANGED,
        regression=Outcome.REGRESSION,
    )
    return environment


def _shown(value: object) -> object:
    """Return a text as every other report shows it; markup and numbers as they are."""
    return clean(value) if type(value) is str else value
