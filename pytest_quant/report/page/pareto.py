"""Accuracy against latency of all engines of a model, and which of them no other one beats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_quant.record import Record
from pytest_quant.report.page.axis import Axis
from pytest_quant.report.page.blocks import cell
from pytest_quant.report.page.content import Dot, ParetoView, TableCell
from pytest_quant.report.text import in_unit, letter
from pytest_quant.result import AccuracyResult, Resources

_LARGEST, _SMALLEST = 15.0, 4.0
"""Radii of the largest engine, and of one that is small or whose size is not known."""

_APART = 13.0
"""Of two letters, in the drawing."""

_FEWEST = 2
"""Engines that a chart needs to compare anything."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """What the scores of one chart are: their name and unit, and which way is better."""

    name: str
    unit: str
    higher: bool


@dataclass(frozen=True, slots=True)
class _Engine:
    """One engine that was measured: its score, its time in milliseconds, its size in MB."""

    number: int
    test: str
    name: str
    reference: bool
    score: float
    latency: float
    size: float | None


def pareto_views(records: Sequence[Record], names: Sequence[str]) -> tuple[ParetoView, ...]:
    """Return one chart for each model, metric and batch size of which at least two engines were timed.

    Parameters
    ----------
    records : of the run, in the order of its document.
    names : short ids of their tests.
    """
    groups: dict[tuple[str, int, _Scale], list[_Engine]] = {}
    for number, (record, test) in enumerate(zip(records, names, strict=True)):
        scale = _scale(record)
        if scale is not None:
            of_chart = groups.setdefault((record.model, record.batch_size, scale), [])
            of_chart.extend(one for one in _engines(record, number, test) if not _is_there(one, of_chart))
    return tuple(
        _view(model, batch_size, scale, engines)
        for (model, batch_size, scale), engines in groups.items()
        if len(engines) >= _FEWEST
    )


def _scale(record: Record) -> _Scale | None:
    found = record.accuracy
    if found is None or record.latency is None:
        return None
    if found.metric is not None:
        return _Scale(found.metric, found.unit or "", found.better != "lower")
    if found.agreement_pct is not None:
        return _Scale("same top class as the reference", "%", higher=True)
    return None if found.sqnr_db is None else _Scale("SQNR", "dB", higher=True)


def _engines(record: Record, number: int, test: str) -> Iterator[_Engine]:
    """Yield candidate and reference of a check, as far as both of their figures are known."""
    accuracy, latency, resources = record.accuracy, record.latency, record.resources or Resources()
    if accuracy is None or latency is None:
        return
    field = _score_field(accuracy)
    sides = (
        (record.engine_id, field, "candidate_p50_ms", "size_mb"),
        (record.reference, "reference", "reference_p50_ms", "reference_size_mb"),
    )
    for name, scored, timed, sized in sides:
        score, ms = getattr(accuracy, scored), getattr(latency, timed)
        if score is not None and ms is not None:
            yield _Engine(
                number=number,
                test=test,
                name=name,
                reference=scored == "reference",
                score=score,
                latency=ms,
                size=getattr(resources, sized),
            )


def _score_field(accuracy: AccuracyResult) -> str:
    """Return the figure of the candidate that `_scale` names."""
    if accuracy.metric is not None:
        return "candidate"
    return "agreement_pct" if accuracy.agreement_pct is not None else "sqnr_db"


def _is_there(one: _Engine, others: Iterable[_Engine]) -> bool:
    """Whether it is a reference that another check has timed already: one dot for it is enough."""
    return one.reference and any(other.reference and other.name == one.name for other in others)


def _view(model: str, batch_size: int, scale: _Scale, engines: Sequence[_Engine]) -> ParetoView:
    by_time = sorted(engines, key=lambda one: one.latency)
    across = Axis.around([one.latency for one in by_time], ParetoView.LEFT, ParetoView.RIGHT, spread=True)
    bottom, top = (ParetoView.BOTTOM, ParetoView.TOP) if scale.higher else (ParetoView.TOP, ParetoView.BOTTOM)
    up = Axis.around([one.score for one in by_time], bottom, top)
    largest = max((one.size for one in by_time if one.size is not None), default=0.0)
    radii = [_radius(one.size, largest) for one in by_time]
    spots = _letters(
        [(across.at(one.latency), up.at(one.score), radius) for one, radius in zip(by_time, radii, strict=True)]
    )
    front = set(_front(by_time, higher=scale.higher))
    dots = tuple(
        Dot(
            letter=letter(place),
            x=across.at(one.latency),
            y=up.at(one.score),
            radius=radii[place],
            letter_at=spots[place],
            reference=one.reference,
            front=place in front,
            number=one.number,
            anchor=f"check-{one.number}",
            engine=one.name,
            test=one.test,
            score=TableCell(in_unit(one.score, scale.unit), one.score),
            latency=cell(one.latency),
            size=cell(one.size),
        )
        for place, one in enumerate(by_time)
    )
    best = [dot for dot in dots if dot.front]
    better = "better further up" if scale.higher else "lower is better, and further up"
    named = ", ".join(f"{dot.letter} {dot.engine}" for dot in best)
    return ParetoView(
        title=model if batch_size == 1 else f"{model}, batches of {batch_size}",
        x_label="median of one run, ms (left is faster)",
        y_label=f"{scale.name} {scale.unit}".rstrip() + f" ({better})",
        x_ticks=across.ticks(6),
        y_ticks=up.ticks(),
        dots=dots,
        front=" ".join(f"{dot.x},{dot.y}" for dot in best),
        about=f"{len(dots)} engines of {model}: {scale.name} against latency; none is faster and as good as {named}",
    )


def _letters(dots: Sequence[tuple[float, float, float]]) -> list[tuple[float, float] | None]:
    """Return a place beside each dot (x, y, radius) where its letter hides no other one: as high as it, below, above.

    ``None`` where there is none in the drawing: of a hundred dots that lie on each other not all can be named.
    """
    rows = int((ParetoView.BOTTOM - ParetoView.TOP) // _APART)
    steps = (*range(rows), *range(-1, -rows, -1))
    taken: list[tuple[float, float]] = []

    def free(beside: float, line: float) -> bool:
        hidden = any(abs(beside - other) < _APART and abs(line - down) < _APART for other, down in taken)
        return ParetoView.TOP - _APART <= line < ParetoView.BOTTOM and not hidden

    found: list[tuple[float, float] | None] = []
    for x, y, radius in dots:
        beside = round(x + radius + 3.0, 1)
        lines = (round(y - radius + 2.0 + step * _APART, 1) for step in steps)
        place = next(((beside, line) for line in lines if free(beside, line)), None)
        found.append(place)
        taken += [place] if place is not None else []
    return found


def _front(by_time: Sequence[_Engine], *, higher: bool) -> Iterator[int]:
    """Yield the places of the engines than which no other is faster and at least as accurate, or as fast and better."""
    sign = 1.0 if higher else -1.0
    for place, one in enumerate(by_time):
        beaten = any(
            other.latency <= one.latency
            and sign * other.score >= sign * one.score
            and (other.latency, other.score) != (one.latency, one.score)
            for other in by_time
        )
        if not beaten:
            yield place


def _radius(size: float | None, largest: float) -> float:
    share = size / largest if size is not None and largest > 0.0 else 0.0
    return round(max(_SMALLEST, _LARGEST * math.sqrt(max(share, 0.0))), 1)
