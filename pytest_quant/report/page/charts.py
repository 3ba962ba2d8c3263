"""What the charts of a page are drawn from: intervals beside limits, rounds, engines of a model, and histories."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pytest_quant.history.summaries import CheckSummary
from pytest_quant.history.trends import SeriesHistory
from pytest_quant.printable import clean
from pytest_quant.record import Json, Record
from pytest_quant.record.figures import drop_unit
from pytest_quant.report.series_text import change_words
from pytest_quant.report.text import figure, format_in_unit, letter
from pytest_quant.result import AccuracyResult, Interval, Resources, Status, Verdict
from pytest_quant.spec import LIMITS

_COMMIT = 12
_DAY, _MINUTE = 10, 16
"""Characters of a time up to its day, and up to its minute."""

_LARGEST = 1e150
"""Beyond it nothing is told apart, and no sum leaves what a float holds."""

_PERCENTILE = re.compile(r"max_latency_ms(?:\[p(?P<percentile>[\d.]+)\])?")


def _places(values: Sequence[float], start: float, end: float) -> list[float]:
    """Return a place in a drawing for each value, the least at `start` and the largest at `end`."""
    inner = [min(max(value, -_LARGEST), _LARGEST) for value in values]
    low, high = min(inner), max(inner)
    shares = [(value - low) / (high - low) if high > low else 0.5 for value in inner]
    return [round(start + (end - start) * share, 1) for share in shares]


def interval_bar(record: Record, verdict: Verdict) -> dict[str, Any] | None:
    """Return the places of a figure, its interval and its limit from left to right, 0..300, and all of it in words.

    ``None`` for a verdict that compares no figure with a limit.
    """
    allowed, observed = verdict.allowed, verdict.observed
    if allowed is None or observed is None or not (math.isfinite(allowed) and math.isfinite(observed)):
        return None
    span = interval_of(record, verdict.limit)
    limit, value, *ends = _places([float(allowed), observed, *(span or ())], 24.0, 276.0)
    below = verdict.limit.startswith("max_")
    around = "" if span is None else f", interval {figure(span.low)} to {figure(span.high)}"
    return {
        "limit": limit,
        "value": value,
        "span": ends,
        "allowed": (0.0, limit) if below else (limit, 300.0),
        "about": f"{verdict.limit}: {figure(observed)}{around}; {'at most' if below else 'at least'} "
        f"{allowed!r} is allowed: {verdict.status.value}",
    }


def interval_of(record: Record, limit: str) -> Interval | None:
    """Return the interval on which the figure of a limit was judged; ``None`` if the record has no interval.

    Of several launches the verdict has an interval of its own, which is not that of the launch in the record.
    """
    latency, named = record.latency, _PERCENTILE.fullmatch(limit)
    if named and latency is not None and not latency.launches:
        bound = latency.bound_of(float(named["percentile"] or 50))
        if bound is not None and bound.low_ms is not None and bound.high_ms is not None:
            return Interval(bound.low_ms, bound.high_ms)
    section, _, attribute = LIMITS[limit].interval.partition(".") if limit in LIMITS else ("", "", "")
    found = getattr(record, section, None)
    if found is None or (found is latency and latency.launches):
        return None
    span: Interval | None = getattr(found, attribute)
    return span


def rounds_chart(record: Record) -> dict[str, Any] | None:
    """Return the median of each round as lines of engines in a drawing of 300 by 100; ``None`` without rounds."""
    rounds = record.latency.round_p50_ms if record.latency is not None else {}
    medians = [median for of_engine in rounds.values() for median in of_engine]
    if not medians:
        return None
    most = max(map(len, rounds.values()))
    across = _places(range(most), 0.0, 300.0)
    up = iter(_places(medians, 96.0, 4.0))
    # The engine's own rounds come first, so that no place of the next engine is taken.
    lines = {name: " ".join(f"{x},{y}" for _, y, x in zip(of, up, across, strict=False)) for name, of in rounds.items()}
    return {"lines": list(lines.items()), "rounds": most, "low": min(medians), "high": max(medians)}


def pareto_charts(records: Sequence[Record], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return accuracy against latency for each model, metric and batch size of which two engines or more were timed.

    Engines are the fastest first, each with its place in a drawing of 560 by 260, whose times are logarithmic, and
    with whether it is `best`: no other engine is both no slower and no worse.

    Parameters
    ----------
    records : of the run, in the order of its document.
    names : short ids of their tests.
    """
    groups: dict[tuple[str, int, str, bool], dict[str, dict[str, Any]]] = {}
    for number, (record, test) in enumerate(zip(records, names, strict=True)):
        accuracy, latency, resources = record.accuracy, record.latency, record.resources or Resources()
        if accuracy is None or latency is None:
            continue
        label, unit, score = _score(accuracy)
        higher = accuracy.metric is None or accuracy.better != "lower"
        engines = groups.setdefault((record.model, record.batch_size, f"{label} {unit}".rstrip(), higher), {})
        sides = (
            (record.engine_id, False, score, latency.candidate_p50_ms, resources.size_mb),
            (record.reference, True, accuracy.reference, latency.reference_p50_ms, resources.reference_size_mb),
        )
        for engine, reference, scored, ms, size in sides:
            if scored is not None and ms is not None:
                about = {"engine": engine, "reference": reference, "number": number, "test": test, "size_mb": size}
                # A reference that another check has timed already is there.
                key = engine if reference else f"{engine} {number}"
                engines.setdefault(key, {**about, "score": scored, "shown": format_in_unit(scored, unit), "ms": ms})
    return [
        {"model": model, "batch_size": batch, "score": score, "higher": higher, "engines": _rank(shown, higher)}
        for (model, batch, score, higher), of_model in groups.items()
        if len(shown := list(of_model.values())) > 1
    ]


def _score(accuracy: AccuracyResult) -> tuple[str, str, float | None]:
    """Return name, unit and value of the candidate's score: by the metric, or how far it agrees with the reference."""
    if accuracy.metric is not None:
        return accuracy.metric, accuracy.unit or "", accuracy.candidate
    if accuracy.agreement_pct is not None:
        return "same top class as the reference", "%", accuracy.agreement_pct
    return "SQNR", "dB", accuracy.sqnr_db


def _rank(engines: Sequence[dict[str, Any]], higher: bool) -> list[dict[str, Any]]:
    by_time = sorted(engines, key=lambda engine: float(engine["ms"]))
    figures = [(engine["ms"], -engine["score"] if higher else engine["score"]) for engine in by_time]
    across = _places([math.log(max(ms, 1e-9)) for ms, _ in figures], 84.0, 520.0)
    up = _places([-loss for _, loss in figures], 230.0, 20.0)

    def is_best(own: tuple[float, float]) -> bool:
        return not any(other != own and other[0] <= own[0] and other[1] <= own[1] for other in figures)

    placed = zip(by_time, figures, across, up, strict=True)
    return [{**engine, "x": x, "y": y, "best": is_best(own)} for engine, own, x, y in placed]


FIGURES = {
    "speedup": ("speedup", "speedup_ci_low", "speedup_ci_high"),
    "latency": ("candidate_p50_ms", "p50_low_ms", "p50_high_ms"),
    "score": ("candidate",),
    "drop": ("drop", "drop_ci_low", "drop_ci_high"),
}
"""Of a point, by the name of the quantity: a figure, and the ends of its interval."""

_LIMITED = {"max_drop": "drop", "min_speedup": "speedup", "max_latency_ms": "latency"}
"""The quantity that a limit is on; one on another percentile than the median is on none of them."""


def series_chart(
    history: SeriesHistory, runs: Collection[tuple[str, str | None]] = (), records: Sequence[Record] = ()
) -> dict[str, Json]:
    """Return one series as the page draws it.

    Parameters
    ----------
    history : of the series.
    runs : start and commit of the runs that the page is of, whose points are marked.
    records : of these runs; the limits of those of the series are drawn, and a chart begins with a broken one.
    """
    points = history.points
    machines = list(dict.fromkeys(point.identity for point in points))
    versions = list(dict.fromkeys(point.version for point in points if point.version))
    unit = clean(next((point.unit for point in reversed(points) if point.unit), ""))

    def drawn(point: CheckSummary) -> dict[str, Json]:
        machine = f"machine {letter(machines.index(point.identity))}"
        started = clean(point.started_at)[:_MINUTE].replace("T", " ")
        commit, branch, isa = clean(point.commit or "")[:_COMMIT], clean(point.branch or ""), clean(point.isa)
        version = versions.index(point.version) + 1 if point.version else 0
        data = f", data {version}" if version and len(versions) > 1 else ""
        figures: dict[str, Json] = {}
        for quantity, names in FIGURES.items():
            value, *interval = (getattr(point, name) for name in names)
            figures[quantity] = None if value is None else [value] if None in interval else [value, *interval]
        return {
            "about": [
                f"{commit or 'no commit'}{' dirty' if point.dirty else ''}",
                f"{started} {branch}".rstrip(),
                f"{point.status.value}, {machine}, {isa}",
            ],
            "day": started[:_DAY],
            "branch": branch,
            "data": version,
            "timed": f"{machine}{data}",
            "scored": f"{isa or 'scores'}{data}",
            "now": (point.started_at, point.commit) in runs,
            "failed": point.status is Status.FAIL,
            **figures,
        }

    accepted = history.accepted
    latencies = accepted.latency if accepted else ()
    levels = {
        "score": [accepted.candidate_score if accepted else None],
        "drop": [accepted.drop if accepted else None],
        "speedup": [latency.speedup for latency in latencies],
        "latency": [latency.candidate_p50_ms for latency in latencies],
    }
    judged = [each for record in records if record.series == history.summary.key for each in record.verdicts or ()]
    limits = {_LIMITED[verdict.limit]: verdict for verdict in judged if verdict.limit in _LIMITED}
    return {
        "units": {"speedup": "x", "latency": "ms", "score": unit, "drop": drop_unit(unit)},
        "branch": clean(history.branch or ""),
        "points": [drawn(point) for point in points],
        "changes": list(_marks(history)),
        "accepted": {quantity: [value for value in of if value is not None] for quantity, of in levels.items()},
        "limits": {quantity: verdict.allowed for quantity, verdict in limits.items()},
        "broken": [quantity for quantity, verdict in limits.items() if verdict.status is Status.FAIL],
    }


def _marks(history: SeriesHistory) -> Iterator[Json]:
    """Yield each change that one of the points shows, with the place of its first point."""
    commits = [(point.commit, point.branch, point.dirty) for point in history.points]
    for change in history.changes:
        first = (change.first_bad, history.branch, False)
        if first in commits:
            unit = clean(drop_unit(change.unit)) if change.quantity == "score" else "%"
            text = f"{change.size:+.3g} {unit} at {clean(change.first_bad)[:_COMMIT]}"
            yield {"at": commits.index(first), "quantity": change.quantity, "text": text}


def describe_changes(history: SeriesHistory) -> Iterator[tuple[str, str, str]]:
    """Yield when each change of level came, its commit, and a line about it, the latest first."""
    for change in history.changes:
        words = re.sub(r"  +", ", ", change_words(change))
        yield change.first_bad_at, clean(change.first_bad)[:_COMMIT], words


def describe_accepted(history: SeriesHistory) -> str:
    """Return what was accepted, when and why; empty if nothing was."""
    entry = history.accepted
    if entry is None:
        return ""
    score = entry.candidate_score
    texts = [] if score is None else [f"score {format_in_unit(score, entry.unit)} {clean(entry.unit or '')}".rstrip()]
    texts += [f"x{figure(latency.speedup)}" for latency in entry.latency if latency.speedup is not None]
    figures = ", ".join(texts) or "its figures"
    commit = clean(entry.commit)[:_COMMIT]
    return f"{figures} of {commit} accepted on {entry.accepted_at:%Y-%m-%d}: {clean(entry.reason)}"
