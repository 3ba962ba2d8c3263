"""Bencher Metric Format (BMF), version 0: benchmarks by name, each with its measures by name.

https://bencher.dev/docs/reference/bencher-metric-format describes it, and which measures are built in, with their
units. A threshold belongs to a measure, so that each has one unit and one direction here.

==============================  =================  =====================================================
measure                         unit               figure of the record
==============================  =================  =====================================================
``latency`` (built in)          nanoseconds        median of the candidate, with its interval
``speedup``                                        with its interval
``accuracy``                    %                  score of a metric in percent where higher is better
``METRIC-score``                the metric's       score of any other metric
``drop``, ``METRIC-drop``       as the score's     with its interval; a percentage in points
``agreement``, ``coverage``     %
``sqnr``                        dB
``file-size`` (built in)        bytes              of the candidate
``memory``                      bytes              peak while running
``build-time`` (built in)       seconds
``energy``                      millijoules        of one run, with its interval where it has one
==============================  =================  =====================================================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from pytest_quant.printable import clean, guard_json
from pytest_quant.record import Record
from pytest_quant.report.exports.figures import Figure, check_name, figures_of, finite, one_each

MOST_NAME_BYTES = 1024
MOST_MEASURE_BYTES = 64

_DIGEST = 16

_MEASURES: Mapping[str, tuple[str, float]] = {
    "latency": ("latency", 1e6),
    "speedup": ("speedup", 1.0),
    "agreement": ("agreement", 1.0),
    "SQNR": ("sqnr", 1.0),
    "coverage": ("coverage", 1.0),
    "size": ("file-size", 1e6),
    "memory": ("memory", 1e6),
    "build time": ("build-time", 1.0),
    "energy": ("energy", 1.0),
}
"""Measure of each figure, and how many of its units one unit of the figure is."""


def bencher(records: Iterable[Record]) -> str:
    """Return the records of one run in BMF; a check without figures is left out."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    for record in one_each(records):
        measures = {}
        for figure in figures_of(record):
            name, scale = _measure(record, figure)
            numbers = {"value": figure.value, "lower_value": figure.low, "upper_value": figure.high}
            scaled = {key: finite(None if one is None else scale * one) for key, one in numbers.items()}
            if scaled["value"] is not None:
                measures[name] = {key: one for key, one in scaled.items() if one is not None}
        if measures:
            document[_fitting(check_name(record), MOST_NAME_BYTES)] = measures
    return guard_json(json.dumps(document, allow_nan=False, indent=1)) + "\n"


def _measure(record: Record, figure: Figure) -> tuple[str, float]:
    """Return the measure of a figure, and what its numbers are multiplied by."""
    if figure.name in _MEASURES:
        return _MEASURES[figure.name]
    accuracy = record.accuracy
    in_percent = accuracy is not None and accuracy.unit == "%" and accuracy.better == "higher"
    if in_percent:
        return {"score": "accuracy", "drop": "drop"}[figure.name], 1.0
    metric = clean((accuracy.metric if accuracy else None) or "metric")
    return _fitting(f"{metric}-{figure.name}", MOST_MEASURE_BYTES), 1.0


def _fitting(name: str, most: int) -> str:
    """Return a name of at most so many bytes; one that is longer ends in its digest."""
    raw = name.encode()
    if len(raw) <= most:
        return name
    kept = raw[: most - _DIGEST - 1].decode("utf-8", "ignore")
    return f"{kept}~{hashlib.sha256(raw).hexdigest()[:_DIGEST]}"
