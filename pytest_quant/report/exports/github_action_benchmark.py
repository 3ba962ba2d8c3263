"""The file that github-action-benchmark reads with its tools ``customSmallerIsBetter`` and ``customBiggerIsBetter``.

https://github.com/benchmark-action/github-action-benchmark describes it: a list of benchmarks with ``name``, ``unit``,
``value`` and, where it is known, ``range``; ``extra`` are the lines of the tooltip. One file has figures of one
direction, as the action raises its alert by it: drop, times and sizes in one, speedup and scores in the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pytest_quant.printable import clean, guard_json
from pytest_quant.record import Record, Run
from pytest_quant.report.exports.figures import Figure, check_name, figures_of, finite, one_each
from pytest_quant.result import Better


def github_action_benchmark(run: Run, records: Iterable[Record], better: Better) -> str:
    """Return the figures of a run for which `better` is the better direction.

    Parameters
    ----------
    run : that the records are of.
    records : checks without figures are left out.
    better : ``lower`` for customSmallerIsBetter, ``higher`` for customBiggerIsBetter.
    """
    entries = [
        _entry(run, record, figure)
        for record in one_each(records)
        for figure in figures_of(record)
        if figure.better == better
    ]
    return guard_json(json.dumps(entries, allow_nan=False, indent=1)) + "\n"


def _entry(run: Run, record: Record, figure: Figure) -> dict[str, str | float]:
    entry: dict[str, str | float] = {
        "name": f"{check_name(record)} {_called(record, figure)}",
        "unit": figure.unit,
        "value": figure.value,
    }
    if figure.low is not None or figure.high is not None:
        entry["range"] = f"{_end(figure.low)} to {_end(figure.high)}"
    return entry | {"extra": "\n".join(_told(run, record, figure))}


def _called(record: Record, figure: Figure) -> str:
    """Return the figure's name; a score has that of its metric before it."""
    metric = record.accuracy.metric if record.accuracy else None
    return clean(f"{metric} score") if figure.name == "score" and metric else figure.name


def _end(end: float | None) -> str:
    return "?" if end is None else repr(end)


def _told(run: Run, record: Record, figure: Figure) -> Iterable[str]:
    """Yield the lines of the tooltip; the action itself tells the commit."""
    yield f"status {record.status.value}"
    reference = finite(_of_reference(record, figure))
    if reference is not None:
        yield clean(f"reference {reference!r} {figure.unit}".rstrip())
    yield clean(f"run {run.id}")
    if "cpu" in run.environment.identity:
        yield clean(f"on {run.environment.identity['cpu']}")


def _of_reference(record: Record, figure: Figure) -> float | None:
    """Return the same figure of the reference, where the record has it."""
    if figure.name == "latency" and record.latency is not None:
        return record.latency.reference_p50_ms
    if figure.name == "score" and record.accuracy is not None:
        return record.accuracy.reference
    if figure.name == "size" and record.resources is not None:
        return record.resources.reference_size_mb
    return None
