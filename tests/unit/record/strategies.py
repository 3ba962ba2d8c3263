"""Any record that could ever be built."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from hypothesis import strategies as st

from pytest_quant.record import Record, Run
from pytest_quant.result import (
    AccuracyResult,
    Cause,
    ChangedAnswer,
    ClassScore,
    Cost,
    Coverage,
    Environment,
    LatencyFigures,
    OpCoverage,
    OutputError,
    PercentileBound,
    RangeRow,
    SiteRow,
    TaskScore,
    WorstClass,
)

T = TypeVar("T")

# What a column of a database holds; a file with larger numbers is refused.
st.register_type_strategy(int, st.integers(1 - 2**63, 2**63 - 1))


def whole(kind: type[T], **given: st.SearchStrategy[object]) -> st.SearchStrategy[T]:
    """Every field of a dataclass, those with defaults too, so that a field added later is tried as well."""
    chosen = {field.name: given.get(field.name, ...) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return st.builds(kind, **chosen)


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_TEXTS = st.dictionaries(st.text(), st.text(), max_size=3)
_ROUNDS = st.dictionaries(st.text(), st.lists(st.floats(0, 1e6), max_size=3).map(tuple), max_size=3)

_WORST = whole(WorstClass, reference=_FINITE, candidate=_FINITE)

_OUTPUTS = st.lists(whole(OutputError), max_size=3, unique_by=lambda output: output.name).map(tuple)

_CLASS = st.builds(ClassScore, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1), _FINITE, _FINITE)
_CLASSES = st.lists(_CLASS, max_size=3).map(tuple)

_CHANGED = st.lists(st.builds(ChangedAnswer, *(st.integers(0, 2**63 - 1) for _ in range(3)), _FINITE), max_size=3)

_TASKS = st.lists(
    whole(TaskScore, reference=_FINITE, candidate=_FINITE, drop=_FINITE, p=st.none() | st.floats(0, 1)), max_size=3
).map(tuple)

accuracies = whole(
    AccuracyResult,
    confidence=st.floats(0.01, 0.99),
    worst_class=st.none() | _WORST,
    by_output=_OUTPUTS,
    by_class=_CLASSES,
    by_task=_TASKS,
    changed=_CHANGED.map(tuple),
)

_BOUNDS = st.lists(whole(PercentileBound, percentile=st.floats(0, 100)), max_size=3).map(tuple)
once = whole(LatencyFigures, round_p50_ms=_ROUNDS, percentile_bounds=_BOUNDS, repeat=st.none())
latencies = whole(LatencyFigures, round_p50_ms=_ROUNDS, percentile_bounds=_BOUNDS, repeat=st.none() | once)
coverages = whole(
    Coverage,
    not_quantizable=st.dictionaries(st.text(), st.floats(0, 100), max_size=3),
    by_op=st.lists(whole(OpCoverage), max_size=3, unique_by=lambda op: op.op_type).map(tuple),
)

_ENDS = st.tuples(_FINITE, _FINITE)
causes = whole(
    Cause,
    ranges=st.lists(whole(RangeRow, engine=_ENDS, data=_ENDS), max_size=3).map(tuple),
    sites=st.lists(whole(SiteRow, regains_pct=_FINITE, channel_ratio=_FINITE), max_size=3).map(tuple),
)

_SECONDS = st.floats(0, 1e6)

records = whole(
    Record,
    accuracy=st.none() | accuracies,
    latency=st.none() | latencies,
    coverage=st.none() | coverages,
    cause=st.none() | causes,
    cache=st.none() | _TEXTS,
    cost=st.none() | st.builds(Cost, _SECONDS, _SECONDS, _SECONDS),
    digests=_TEXTS,
)

runs = whole(Run, environment=st.builds(Environment, _TEXTS, _TEXTS))
