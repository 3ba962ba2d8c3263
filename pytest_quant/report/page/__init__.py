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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from pytest_quant.history.compare.comparison import Comparison, Outcome
from pytest_quant.history.rows import StoredCheck, to_utc
from pytest_quant.history.trends import SeriesHistory
from pytest_quant.host import quote
from pytest_quant.metrics.answers import answers_of
from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report import comparison_text
from pytest_quant.report.cause_text import cause_section
from pytest_quant.report.columns import EXPECTED, TEST_FAILED, CheckRow, default_columns, pick_columns, rows_of
from pytest_quant.report.details import DetailSection, Pairs, details, drop_empty, format_whole
from pytest_quant.report.failure import both_figures, broken_first, explained, headline, meanings
from pytest_quant.report.page import charts
from pytest_quant.report.series_text import series_name
from pytest_quant.report.summary import summary
from pytest_quant.report.text import count, figure, first_of, letter
from pytest_quant.result import Status
from pytest_quant.spec import OWN_SCORES

_COMMIT, _SUBJECT = 12, 72
"""Characters of the id of a commit, and of the first line of its message."""
_MOST_NAMED = 3

_COLUMN_OF = {**dict.fromkeys(("min_ratio", *OWN_SCORES), "metric"), "max_latency_ms": "p50", "max_slowdown": "speedup"}
"""The column of a limit that is not named after it."""
_MOST_BROKEN = 8
_MOST_SAMPLES = 12
_NAMED = (Status.ERROR.value, Status.FAIL.value, TEST_FAILED, Status.UNAVAILABLE.value, Status.INCONCLUSIVE.value)
"""Statuses that are named at the top, the worst first."""

UPLOT = "1.6.32"
"""Version of the chart library in the package; its files have digests in the tests."""


def page_html(
    checks: Sequence[StoredCheck],
    *,
    runs: Sequence[Run] = (),
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
    broken : node ids of tests that failed and should not have.
    compared : the comparison; ``None`` with `why_not_compared` and the command that makes one as `next_step`.
    history : of each series; empty with `why_no_history`.

    Raises
    ------
    HistoryError : a record is damaged.
    """
    records = [check.record for check in checks]
    all_runs = tuple({run.id: run for run in (*(check.run for check in checks), *runs)}.values())
    starts = {(to_utc(check.run.started_at), check.run.commit) for check in checks}
    table = run_table(checks, broken)
    styles = "\n".join(map(_asset, ("uplot/uPlot.min.css", "page.css")))
    # The first of them to run shows the chosen theme before anything else is shown.
    scripts = ["\n".join(map(_asset, ("uplot/uPlot.iife.min.js", "charts.js", "page.js"))), _asset("first.js")]
    templates = _templates()
    detail = templates.get_template("parts.html.j2").module.detail  # type: ignore[attr-defined]
    data = {f"series-{number}": charts.series_chart(series, starts, records) for number, series in enumerate(history)}
    shown = [_series(series, number, records) for number, series in enumerate(history)]
    changes = [(*change, each["anchor"], each["name"]) for each in shown for change in each["changes"]]
    subjects = {commit[:_COMMIT]: clean(text)[:_SUBJECT] for each in history for commit, text in each.subjects.items()}
    opened = {f"check-{check['number']}": str(detail(check)) for check in table["checks"]}
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
        pareto_charts=charts.pareto_charts(records, [check["row"].test for check in table["checks"]]),
        version=version("pytest-quant"),
        policy=_policy(styles, scripts),
        styles=_mark_trusted(styles),
        script=_mark_trusted(scripts[0]),
        first=_mark_trusted(scripts[1]),
        data=_mark_trusted(pack({**data, "details": opened, "subjects": subjects})),
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
    several = ((label, list(dict.fromkeys(filter(None, texts)))) for label, texts in pairs)
    return [(label, first_of(texts, _MOST_NAMED)) for label, texts in several if texts]


def _points(history: Sequence[SeriesHistory]) -> str:
    """Return how many points of the history the page has."""
    shown = sum(len(series.points) for series in history)
    total = sum(series.summary.n_points for series in history)
    number = f"{count(total, 'point')} of {len(history)} series"
    where = "pytest-quant history SERIES --json prints all of them"
    return f"{shown} of {number}, the newest ones; {where}" if shown < total else number


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
        "changes": list(charts.describe_changes(history)),
        "accepted": charts.describe_accepted(history),
        "check": f"check-{keys.index(history.summary.key)}" if history.summary.key in keys else "",
        "words": name.lower(),
    }


def run_table(checks: Sequence[StoredCheck], broken: Collection[str] = ()) -> dict[str, Any]:
    """Return the table of a run, as the page's template reads it.

    Parameters
    ----------
    checks : of the run, in the order of its document.
    broken : node ids of tests that failed and should not have.
    """
    records = [check.record for check in checks]
    rows = rows_of(records, broken)
    names = [name for name in default_columns(rows) if name not in ("status", "test")] if rows else []
    columns = pick_columns(names)
    printed = [column.cells(rows) for column in columns]
    shown = []
    for number, row in enumerate(rows):
        broken_columns = _broken_columns(row.record)
        cells = [
            (texts[number].rstrip(), column.sort_value(row), column.name in broken_columns)
            for (_, texts, _), column in zip(printed, columns, strict=True)
        ]
        shown.append({"number": number, "row": row, "cells": cells, **_check_details(row, checks[number].run)})
    words = (*(status.value for status in Status), TEST_FAILED, EXPECTED)
    counts = Counter(row.status for row in rows)
    named = sorted(
        (check for check in shown if check["row"].status in _NAMED), key=lambda check: _NAMED.index(check["row"].status)
    )
    return {
        "heads": [(head, is_right) for head, _, is_right in printed],
        "checks": shown,
        "counts": [(word, counts[word]) for word in words if counts[word]],
        "lines": summary(records, broken).splitlines(),
        "broken": named[:_MOST_BROKEN],
        "unnamed": max(0, len(named) - _MOST_BROKEN),
    }


def _broken_columns(record: Record) -> set[str]:
    """Return the names of the columns with a figure that breaks a limit, of ``max_size_mb`` ``size``."""
    limits = [verdict.limit for verdict in record.verdicts or () if verdict.status is Status.FAIL]
    names = {_COLUMN_OF.get(limit, limit.partition("_")[2].partition("_")[0]) for limit in limits}
    # Without a metric its column has the SQNR.
    without_metric = record.accuracy is not None and record.accuracy.metric is None
    return names | {"metric"} if without_metric and "sqnr" in names else names


def _check_details(row: CheckRow, run: Run) -> dict[str, Any]:
    """Return what a check opens to; `words` are what a search for text looks through, in lower case."""
    record = row.record
    causes = [cause_section(record.cause)] if record.cause is not None else []
    words = " ".join((record.nodeid, record.model, record.engine_id, record.metric or "", row.status))
    identity, context = run.environment.identity, run.environment.context
    digests = {f"{name} digest": digest for name, digest in record.digests.items()}
    return {
        "headline": _headline(row),
        "words": clean(words).lower(),
        "sections": [*causes, *(_add_samples(section, record) for section in details(record))],
        "rounds": charts.rounds_chart(record),
        "origin": _origin(record, run),
        "machine": list({**dict(sorted(identity.items())), **dict(sorted(context.items())), **digests}.items()),
        "commands": _commands(record, run),
    }


def _headline(row: CheckRow) -> str:
    record = row.record
    if row.status == TEST_FAILED:
        return "the check passed, the test failed for another reason"
    if record.message:
        return record.message.splitlines()[0]
    if broken := headline(record):
        return broken
    return next((f"{verdict.limit}: {verdict.reason}" for verdict in broken_first(record)), "")


def _add_samples(section: DetailSection, record: Record) -> DetailSection:
    """Return the section about accuracy with the samples that were lost and won, by their index; others as they are."""
    # Samples of scores that were given have ids, and their places in the order of these say nothing.
    if section.title != "Accuracy" or record.accuracy is None or record.accuracy.candidate_runs is not None:
        return section
    reference, candidate, _, damage = answers_of(record.accuracy)
    if reference is None or candidate is None:
        return replace(section, lines=(*section.lines, *([damage] if damage else [])))
    samples = (
        ("samples lost", _indices(np.flatnonzero(reference & ~candidate))),
        ("samples won", _indices(np.flatnonzero(candidate & ~reference))),
    )
    return replace(section, further=(*section.further, *samples))


def _indices(samples: NDArray[Any]) -> str:
    if not samples.size:
        return "none"
    shown = ", ".join(map(str, samples[:_MOST_SAMPLES].tolist()))
    return f"{samples.size}: {shown}" + (", ..." if samples.size > _MOST_SAMPLES else "")


def _origin(record: Record, run: Run) -> Pairs:
    scheme = f", {record.calibration} calibration" if record.calibration else ""
    return drop_empty(
        ("model", record.model),
        ("candidate", f"{record.engine_id}{scheme}"),
        ("reference", record.reference),
        ("calibration samples", format_whole(record.calibration_samples)),
        ("threads", format_whole(record.threads)),
        ("instruction set", record.isa),
        ("cache", ", ".join(f"{what} {word}" for what, word in (record.cache or {}).items())),
        ("run", run.id),
    )


def _commands(record: Record, run: Run) -> Pairs:
    nodeid, test = quote(record.nodeid), quote(record.nodeid.partition("[")[0])
    code = "the code, without the changes that were not committed" if run.dirty else "the code"
    checkout = f"git checkout {quote(clean(run.commit)[:12])}" if run.commit is not None else ""
    return drop_empty(
        (code, checkout),
        ("the check", f"python -m pytest {nodeid}"),
        ("where its loss comes from", f"pytest-quant diagnose {nodeid}" if explained(record) is not None else ""),
        ("its history", f"pytest-quant history {test} {quote(record.engine_id)}"),
        ("which layers take the time", f"pytest-quant profile {nodeid}" if record.latency is not None else ""),
    )


def pack(data: Mapping[str, Any]) -> str:
    """Return data as deflated JSON in base64, which no text can end, or begin markup in."""
    content = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def _policy(styles: str, scripts: Iterable[str]) -> str:
    ours = f"script-src {' '.join(map(_digest, scripts))}; style-src {_digest(styles)}"
    return f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _mark_trusted(content: str) -> Markup:
    """Return content that is ours, or packed above, as it is."""
    return Markup(content)  # nosec B704 # noqa: S704 - our own assets, and base64


@cache
def _asset(name: str) -> str:
    return files("pytest_quant.report.page").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    loader = PackageLoader("pytest_quant.report.page")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_show, trim_blocks=True, lstrip_blocks=True
    )
    functions = (both_figures, figure, charts.interval_bar, letter, meanings)
    environment.globals.update({function.__name__: function for function in functions}, uplot=UPLOT)
    environment.globals.update(words=comparison_text, unchanged=Outcome.UNCHANGED, regression=Outcome.REGRESSION)
    return environment


def _show(value: object) -> object:
    """Return a text as every other report shows it; markup and numbers as they are."""
    return clean(value) if type(value) is str else value
