"""OpenMetrics text of the checks of one run: gauges, in base units that their names end in.

https://prometheus.io/docs/specs/om/open_metrics_spec/ is the format. The same text is valid in the older format of
Prometheus, which is the one that node_exporter's textfile collector reads: there are gauges only, no timestamps, and
what that format does not know is a comment in it. Times are in seconds, sizes in bytes, percentages are ratios from
0 to 1; scores and drops are in the unit of their metric, which is a label. What was not measured has no line.

Labels are ``test``, ``model``, ``backend``, ``precision``, ``scheme`` and ``batch_size``, so that a series has one
value; of several records with the same labels the last one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, PercentileBound, Record, Run
from pytest_quant.report.exports.figures import finite, one_each
from pytest_quant.result import AccuracyResult, Interval, Resources, Status

PREFIX = "pytest_quant_"

_UNITS = ("seconds", "bytes", "ratio", "decibels", "joules")

_Labels: TypeAlias = Mapping[str, str]
_Sample: TypeAlias = tuple[_Labels, float | None]
"""Labels beside those of the check, and the value."""
_Samples: TypeAlias = Callable[[Record], Iterable[_Sample]]
_Convert: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class _Family:
    """Gauges of one name, which ends in their unit where they have one."""

    name: str
    help: str
    of: _Samples


def openmetrics(run: Run, records: Iterable[Record]) -> str:
    """Return the checks of a run as one OpenMetrics text."""
    checks = [
        (_labels_of(record), record) for record in one_each(records, key=lambda one: tuple(_labels_of(one).items()))
    ]
    lines = list(_run_lines(run))
    for family in _FAMILIES:
        samples = [
            _line(family.name, labels | dict(more), known)
            for labels, record in checks
            for more, value in family.of(record)
            if (known := finite(value)) is not None
        ]
        if samples:
            lines += [*_head(family.name, family.help), *samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels_of(record: Record) -> dict[str, str]:
    """Return the labels of a check; one that is empty is none, and left out."""
    told = {
        "test": record.nodeid,
        "model": record.model,
        "backend": record.backend,
        "precision": record.precision,
        "scheme": record.scheme,
        "batch_size": str(record.batch_size),
    }
    return {name: clean(value) for name, value in told.items() if value}


def _run_lines(run: Run) -> Iterator[str]:
    name = f"{PREFIX}run_timestamp_seconds"
    try:
        read = datetime.fromisoformat(run.started_at)
        started_s = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        # A history may hold what another program wrote.
        return
    told = {"run": run.id, "commit": run.commit, "branch": run.branch, "dirty": "true" if run.dirty else "false"}
    yield from _head(name, "Start of the run that the other figures are of, since 1970.")
    yield _line(name, {key: clean(value) for key, value in told.items() if value}, started_s)


def _head(name: str, told: str) -> Iterator[str]:
    unit = name.rpartition("_")[2]
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} gauge"
    if unit in _UNITS:
        yield f"# UNIT {name} {unit}"


def _line(name: str, labels: _Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _status(record: Record) -> Iterator[_Sample]:
    for status in Status:
        yield {"status": status.value}, float(record.status is status)


def _seconds(ms: float) -> float:
    return ms / 1e3


def _bytes(mb: float) -> float:
    return mb * 1e6


def _ratio(pct: float) -> float:
    return pct / 1e2


def _joules(mj: float) -> float:
    return mj / 1e3


def _as_it_is(value: float) -> float:
    return value


def _of_accuracy(read: Callable[[AccuracyResult], float | None], convert: _Convert = _as_it_is) -> _Samples:
    return lambda record: () if record.accuracy is None else [({}, _in_base(read(record.accuracy), convert))]


def _of_score(read: Callable[[AccuracyResult], float | None]) -> _Samples:
    """Read a figure in the unit of the metric, which both become labels."""

    def samples(record: Record) -> Iterator[_Sample]:
        accuracy = record.accuracy
        if accuracy is not None:
            told = {"metric": accuracy.metric, "unit": accuracy.unit}
            yield {name: clean(text) for name, text in told.items() if text}, read(accuracy)

    return samples


def _of_latency(read: Callable[[LatencyFigures], Iterable[_Sample]]) -> _Samples:
    return lambda record: () if record.latency is None else read(record.latency)


def _of_resources(read: Callable[[Resources], float | None], convert: _Convert) -> _Samples:
    return lambda record: () if record.resources is None else [({}, _in_base(read(record.resources), convert))]


def _coverage(record: Record) -> Iterable[_Sample]:
    return () if record.coverage is None else [({}, _in_base(record.coverage.pct, _ratio))]


def _in_base(value: float | None, convert: _Convert) -> float | None:
    return None if value is None else convert(value)


def _low(interval: Interval | None) -> float | None:
    return None if interval is None else interval.low


def _high(interval: Interval | None) -> float | None:
    return None if interval is None else interval.high


def _percentiles(latency: LatencyFigures) -> Iterator[_Sample]:
    figures = {"50": latency.candidate_p50_ms, "90": latency.candidate_p90_ms, "99": latency.candidate_p99_ms}
    for percentile, value_ms in figures.items():
        yield {"percentile": percentile}, _in_base(value_ms, _seconds)


def _bounds(read_ms: Callable[[PercentileBound], float | None]) -> _Samples:
    """Read one side of the intervals of percentiles; of several of one percentile the last."""

    def samples(latency: LatencyFigures) -> Iterable[_Sample]:
        named = {f"{one.percentile:g}": _in_base(read_ms(one), _seconds) for one in latency.percentile_bounds}
        return [({"percentile": percentile}, value) for percentile, value in named.items()]

    return _of_latency(samples)


_FAMILIES = tuple(
    _Family(PREFIX + name, told, read)
    for name, told, read in (
        ("check_status", "1 for the status that the check has, 0 for the others.", _status),
        ("samples", "Samples that were compared.", _of_accuracy(lambda one: one.n)),
        ("reference_score", "Score of the reference, in the unit of the metric.", _of_score(lambda one: one.reference)),
        ("candidate_score", "Score of the candidate, in the unit of the metric.", _of_score(lambda one: one.candidate)),
        ("drop", "How much worse the candidate is, in the unit of the metric.", _of_score(lambda one: one.drop)),
        ("drop_lower", "Lower end of the interval of the drop.", _of_score(lambda one: _low(one.drop_ci))),
        ("drop_upper", "Upper end of the interval of the drop.", _of_score(lambda one: _high(one.drop_ci))),
        (
            "agreement_ratio",
            "Share of samples with the same top-1 class.",
            _of_accuracy(lambda one: one.agreement_pct, _ratio),
        ),
        (
            "sqnr_decibels",
            "Signal to quantization noise, lowest of the outputs.",
            _of_accuracy(lambda one: one.sqnr_db),
        ),
        ("cosine", "Cosine similarity, lowest of the outputs.", _of_accuracy(lambda one: one.cosine)),
        ("max_abs_error", "Largest difference of an output.", _of_accuracy(lambda one: one.max_abs_error)),
        (
            "reference_latency_seconds",
            "Time of one run of the reference, its median.",
            _of_latency(lambda one: [({"percentile": "50"}, _in_base(one.reference_p50_ms, _seconds))]),
        ),
        ("candidate_latency_seconds", "Time of one run of the candidate, by percentile.", _of_latency(_percentiles)),
        (
            "candidate_latency_lower_seconds",
            "Lower end of the interval of a percentile.",
            _bounds(lambda one: one.low_ms),
        ),
        (
            "candidate_latency_upper_seconds",
            "Upper end of the interval of a percentile.",
            _bounds(lambda one: one.high_ms),
        ),
        (
            "speedup_ratio",
            "Time of the reference / time of the candidate.",
            _of_latency(lambda one: [({}, one.speedup)]),
        ),
        (
            "speedup_lower_ratio",
            "Lower end of the interval of the speedup.",
            _of_latency(lambda one: [({}, _low(one.speedup_ci))]),
        ),
        (
            "speedup_upper_ratio",
            "Upper end of the interval of the speedup.",
            _of_latency(lambda one: [({}, _high(one.speedup_ci))]),
        ),
        ("coverage_ratio", "Share of the eligible compute that ran in the asked precision.", _coverage),
        ("candidate_size_bytes", "Size of the candidate.", _of_resources(lambda one: one.size_mb, _bytes)),
        ("reference_size_bytes", "Size of the reference.", _of_resources(lambda one: one.reference_size_mb, _bytes)),
        (
            "peak_memory_bytes",
            "Memory that running the candidate adds.",
            _of_resources(lambda one: one.peak_memory_mb, _bytes),
        ),
        ("build_seconds", "Time to build the candidate.", _of_resources(lambda one: one.build_s, _as_it_is)),
        ("energy_joules", "Energy of one run.", _of_resources(lambda one: one.energy_mj, _joules)),
    )
)
