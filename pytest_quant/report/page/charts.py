"""What the charts of a page are drawn from: intervals beside limits, rounds, engines of a model, and histories."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_quant.history import CheckSummary
from pytest_quant.history.series_history import SeriesHistory
from pytest_quant.history.summaries import Change
from pytest_quant.printable import clean
from pytest_quant.record import Json, Record
from pytest_quant.report.series import change_words
from pytest_quant.report.text import figure, in_unit, letter
from pytest_quant.result import AccuracyResult, Interval, Resources, Verdict
from pytest_quant.verdict.rules import written

_COMMIT = 12
_DAY, _MINUTE = 10, 16
"""Characters of a time up to its day, and up to its minute."""

_MOST_MACHINES = 6
"""Of those that were seen last, each with a line of its own; those before them share one."""

_LARGEST = 1e150
"""Beyond it nothing is told apart, and no sum leaves what a float holds."""

_PERCENTILE = re.compile(r"max_latency_ms(?:\[p(?P<percentile>[\d.]+)\])?")
_FEWEST_ENGINES = 2


def _places(values: Sequence[float], start: float, end: float) -> list[float]:
    """Return a place in a drawing for each value, the least at `start` and the largest at `end`."""
    inner = [min(max(value, -_LARGEST), _LARGEST) for value in values]
    low, high = min(inner), max(inner)
    shares = [(value - low) / (high - low) if high > low else 0.5 for value in inner]
    return [round(start + (end - start) * share, 1) for share in shares]


@dataclass(frozen=True, slots=True)
class IntervalBar:
    """A figure with its interval beside its limit, as places from left to right, 0..300.

    Attributes
    ----------
    limit, value : of both figures.
    span : ends of the interval; ``None`` where there is none.
    allowed : ends of what the limit allows.
    about : all of it in words.
    """

    limit: float
    value: float
    span: tuple[float, float] | None
    allowed: tuple[float, float]
    about: str


def interval_bar(record: Record, verdict: Verdict) -> IntervalBar | None:
    """Return the drawing of one verdict; ``None`` for one that compares no figure with a limit."""
    allowed, observed = verdict.allowed, verdict.observed
    if allowed is None or observed is None or not (math.isfinite(allowed) and math.isfinite(observed)):
        return None
    span = interval_of(record, verdict.limit)
    values = [float(allowed), observed, *(() if span is None else (span.low, span.high))]
    limit, value, *ends = _places(values, 24.0, 276.0)
    below = verdict.limit.startswith("max_")
    around = "" if span is None else f", interval {figure(span.low)} to {figure(span.high)}"
    return IntervalBar(
        limit=limit,
        value=value,
        span=(ends[0], ends[1]) if ends else None,
        allowed=(0.0, limit) if below else (limit, 300.0),
        about=f"{verdict.limit}: {figure(observed)}{around}; {'at most' if below else 'at least'} "
        f"{written(allowed)} is allowed: {verdict.status.value}",
    )


def interval_of(record: Record, limit: str) -> Interval | None:
    """Return the interval that the figure of a limit was judged on; ``None`` where the record has none.

    Of several launches the verdict has an interval of its own, which is not that of the launch in the record.
    """
    accuracy, latency, resources = record.accuracy, record.latency, record.resources
    if limit == "max_drop" and accuracy is not None:
        return accuracy.drop_ci
    if limit == "max_energy_mj" and resources is not None:
        return resources.energy_mj_ci
    if latency is None or latency.launches:
        return None
    if limit == "min_speedup":
        return latency.speedup_ci
    named = _PERCENTILE.fullmatch(limit)
    bound = latency.bound_of(float(named["percentile"] or 50)) if named else None
    if bound is None or bound.low_ms is None or bound.high_ms is None:
        return None
    return Interval(bound.low_ms, bound.high_ms)


@dataclass(frozen=True, slots=True)
class RoundsChart:
    """The median of each round of a check, in a drawing of 300 by 100.

    Attributes
    ----------
    lines : names of the engines, with the corners of their lines.
    rounds : how many there are.
    low, high : the least and the largest median, in milliseconds.
    """

    lines: tuple[tuple[str, str], ...]
    rounds: int
    low: float
    high: float


def rounds_chart(record: Record) -> RoundsChart | None:
    """Return the rounds of a check as a drawing; ``None`` where there are none."""
    rounds = record.latency.round_p50_ms if record.latency is not None else {}
    medians = [median for of_engine in rounds.values() for median in of_engine]
    if not medians:
        return None
    most = max(map(len, rounds.values()))
    across = _places(range(most), 0.0, 300.0)
    up = iter(_places(medians, 96.0, 4.0))
    # The engine's own rounds come first, so that no place of the next engine is taken.
    lines = {name: " ".join(f"{x},{y}" for _, y, x in zip(of, up, across, strict=False)) for name, of in rounds.items()}
    return RoundsChart(tuple(lines.items()), most, min(medians), max(medians))


@dataclass(frozen=True, slots=True)
class TimedEngine:
    """One engine that was timed and scored.

    Attributes
    ----------
    number : of the check that it is from.
    test : short id of its test.
    reference : it is the check's FP32 reference.
    shown : its score as text.
    ms : median of one run, in milliseconds.
    size_mb : ``None`` where it is not known.
    best : no other engine is both no slower and no worse.
    x, y : its place in a drawing of 560 by 260, whose times are logarithmic; better is up.
    """

    number: int
    test: str
    engine: str
    reference: bool
    score: float
    shown: str
    ms: float
    size_mb: float | None
    best: bool = False
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class ParetoChart:
    """Accuracy against latency of the engines of one model, the fastest first.

    Attributes
    ----------
    score : name and unit of the scores.
    higher : whether higher ones are better.
    """

    model: str
    batch_size: int
    score: str
    higher: bool
    engines: tuple[TimedEngine, ...] = ()


def pareto_charts(records: Sequence[Record], names: Sequence[str]) -> list[ParetoChart]:
    """Return one chart for each model, metric and batch size of which at least two engines were timed.

    Parameters
    ----------
    records : of the run, in the order of its document.
    names : short ids of their tests.
    """
    groups: dict[ParetoChart, list[TimedEngine]] = {}
    for number, (record, test) in enumerate(zip(records, names, strict=True)):
        accuracy = record.accuracy
        if accuracy is None or record.latency is None:
            continue
        label, unit, score = _score(accuracy)
        higher = accuracy.metric is None or accuracy.better != "lower"
        chart = ParetoChart(record.model, record.batch_size, f"{label} {unit}".rstrip(), higher)
        engines = groups.setdefault(chart, [])
        references = {engine.engine for engine in engines if engine.reference}
        # A reference that another check has timed already is there.
        engines += [
            engine
            for engine in _engines(record, number, test, unit, score)
            if not engine.reference or engine.engine not in references
        ]
    return [
        replace(chart, engines=_ranked(engines, chart.higher))
        for chart, engines in groups.items()
        if len(engines) >= _FEWEST_ENGINES
    ]


def _score(accuracy: AccuracyResult) -> tuple[str, str, float | None]:
    """Return name, unit and value of the candidate's score: by the metric, or how far it agrees with the reference."""
    if accuracy.metric is not None:
        return accuracy.metric, accuracy.unit or "", accuracy.candidate
    if accuracy.agreement_pct is not None:
        return "same top class as the reference", "%", accuracy.agreement_pct
    return "SQNR", "dB", accuracy.sqnr_db


def _engines(record: Record, number: int, test: str, unit: str, score: float | None) -> Iterator[TimedEngine]:
    """Yield candidate and reference of a check, as far as both of their figures are known."""
    accuracy, latency, resources = record.accuracy, record.latency, record.resources or Resources()
    if accuracy is None or latency is None:
        return
    sides = (
        (record.engine_id, False, score, latency.candidate_p50_ms, resources.size_mb),
        (record.reference, True, accuracy.reference, latency.reference_p50_ms, resources.reference_size_mb),
    )
    for engine, reference, scored, ms, size in sides:
        if scored is not None and ms is not None:
            yield TimedEngine(number, test, engine, reference, scored, in_unit(scored, unit), ms, size)


def _ranked(engines: Sequence[TimedEngine], higher: bool) -> tuple[TimedEngine, ...]:
    """Return the engines, the fastest first, each with whether no other one beats it."""
    sign = 1.0 if higher else -1.0

    def beats(other: TimedEngine, engine: TimedEngine) -> bool:
        no_worse = other.ms <= engine.ms and sign * other.score >= sign * engine.score
        return no_worse and (other.ms, other.score) != (engine.ms, engine.score)

    by_time = sorted(engines, key=lambda engine: engine.ms)
    across = _places([math.log(max(engine.ms, 1e-9)) for engine in by_time], 84.0, 520.0)
    up = _places([sign * engine.score for engine in by_time], 230.0, 20.0)
    return tuple(
        replace(engine, best=not any(beats(other, engine) for other in by_time), x=x, y=y)
        for engine, x, y in zip(by_time, across, up, strict=True)
    )


FIGURES = {
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "latency": ("candidate_p50_ms", "p50_low_ms", "p50_high_ms"),
    "score": ("candidate",),
    "drop": ("drop", "drop_low", "drop_high"),
}
"""Of a point, by the name of the quantity: a figure, and the ends of its interval."""


def series_chart(history: SeriesHistory, runs: Collection[tuple[str, str | None]] = ()) -> dict[str, Json]:
    """Return one series as the page draws it.

    Parameters
    ----------
    history : of the series.
    runs : start and commit of the runs that the page is of, whose points are marked.
    """
    points = history.points
    machines = list(dict.fromkeys(point.identity for point in points))
    versions = list(dict.fromkeys(point.version for point in points if point.version))
    newest = list(dict.fromkeys(point.identity for point in reversed(points)))[:_MOST_MACHINES]
    unit = clean(next((point.unit for point in reversed(points) if point.unit), ""))

    def drawn(point: CheckSummary) -> dict[str, Json]:
        machine = f"machine {letter(machines.index(point.identity))}"
        started = clean(point.started_at)[:_MINUTE].replace("T", " ")
        commit, branch, isa = clean(point.commit or "")[:_COMMIT], clean(point.branch or ""), clean(point.isa)
        version = versions.index(point.version) + 1 if point.version else 0
        data = f", data {version}" if version and len(versions) > 1 else ""
        return {
            "about": [
                f"{commit or 'no commit'}{' dirty' if point.dirty else ''}",
                f"{started} {branch}".rstrip(),
                f"{point.status.value}, {machine}, {isa}",
            ],
            "day": started[:_DAY],
            "branch": branch,
            "data": version,
            "timed": f"{machine if point.identity in newest else 'other machines'}{data}",
            "scored": f"{isa or 'scores'}{data}",
            "now": (point.started_at, point.commit) in runs,
            **{quantity: _measured(point, names) for quantity, names in FIGURES.items()},
        }

    return {
        "units": {"speedup": "x", "latency": "ms", "score": unit, "drop": "pp" if unit == "%" else unit},
        "branch": clean(history.branch or ""),
        "points": [drawn(point) for point in points],
        "changes": list(_marks(history)),
        "accepted": _accepted_levels(history),
    }


def _measured(point: CheckSummary, names: tuple[str, ...]) -> Json:
    """Return a figure with both ends of its interval, or without them; ``None`` where it was not measured."""
    values = [getattr(point, name) for name in names]
    if values[0] is None:
        return None
    return values[:1] if None in values else values


def _marks(history: SeriesHistory) -> Iterator[Json]:
    """Yield each change that one of the points shows, with the place of its first point."""
    for change in history.changes:
        places = (
            place
            for place, point in enumerate(history.points)
            if (point.commit, point.branch, point.dirty) == (change.first_bad, history.branch, False)
        )
        if (first := next(places, None)) is not None:
            yield {"at": first, "quantity": change.quantity, "text": _short(change)}


def _short(change: Change) -> str:
    unit = "%" if change.quantity != "score" else "pp" if change.unit == "%" else clean(change.unit)
    return f"{change.size:+.3g} {unit} at {clean(change.first_bad)[:_COMMIT]}"


def _accepted_levels(history: SeriesHistory) -> dict[str, Json]:
    """Return the accepted figures, by quantity."""
    entry = history.accepted
    if entry is None:
        return {}
    figures = {
        "score": [entry.candidate_score],
        "drop": [entry.drop],
        "speedup": [latency.speedup for latency in entry.latency],
        "latency": [latency.candidate_p50_ms for latency in entry.latency],
    }
    return {quantity: [value for value in values if value is not None] for quantity, values in figures.items()}


def changes_in_words(history: SeriesHistory) -> tuple[str, ...]:
    """Return each change of level in a line, the latest first."""
    return tuple(re.sub(r"  +", ", ", change_words(change)) for change in history.changes)


def accepted_in_words(history: SeriesHistory) -> str:
    """Return what was accepted, when and why; empty where nothing was."""
    entry = history.accepted
    if entry is None:
        return ""
    score = entry.candidate_score
    texts = [] if score is None else [f"score {in_unit(score, entry.unit)} {clean(entry.unit or '')}".rstrip()]
    texts += [f"x{figure(latency.speedup)}" for latency in entry.latency if latency.speedup is not None]
    ends = f", until {entry.expires}" if entry.expires is not None else ""
    figures = ", ".join(texts) or "its figures"
    commit = clean(entry.commit)[:_COMMIT]
    return f"{figures} of {commit} accepted on {entry.accepted_at:%Y-%m-%d}{ends}: {clean(entry.reason)}"
