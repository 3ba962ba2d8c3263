"""The table of limits: each field of `Limits` is a row, which defines its reader, help, unit and verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pytest_quant.errors import UsageError
from pytest_quant.readers import NUMBER, PERCENT, Key, Reader, accept_unit, keys_of, row

OutputLimit = float | tuple[tuple[str, float], ...]
"""A limit on every output, or ``(output, limit)`` pairs; an output without a pair has no limit."""

PARTS = ("overall", "label", "group")
"""What a limit on the drop may be on beside an output: all samples, each label, each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Key):
    """A row of the table of limits. Names of upper limits start with ``max_``, names of lower limits with ``min_``.

    Attributes
    ----------
    figure : the figure that is compared: ``accuracy.``, ``output.`` or ``resources.`` with an attribute of
        `AccuracyResult`, `OutputError` or `Resources`; for a limit with a rule of its own in `pytest_quant.verdict`
        only its subject: ``score``, ``reference``, ``latency`` or ``coverage``.
    called : name of the figure in a sentence.
    missing : reason why the figure may be absent; for a figure of an output, the phrase after the output's name.
    equal : the figure of an output that equals the reference's, whatever its values are.
    interval : the figure's interval, on which the limit is judged, as `figure` names it; empty for a figure that is a
        fact, and for one of several intervals.
    scale : ``score`` for a limit in the unit of the metric, ``drop`` for one in that of its drop; else empty.
    """

    figure: str
    called: str
    missing: str = "this backend or machine does not report it"
    equal: float | None = None
    interval: str = ""
    scale: str = ""

    @property
    def attribute(self) -> str:
        """The attribute: the part of `figure` after the dot, empty without one."""
        return self.figure.partition(".")[2]

    @property
    def is_maximum(self) -> bool:
        """Whether it is an upper limit."""
        return self.name.startswith("max_")

    @property
    def suffix(self) -> str:
        """The unit as text to append to a number."""
        return f" {self.unit}" if self.unit not in ("", "%") else self.unit


def _limit(
    figure: str, name: str, text: str, unit: str = "", reader: Any = None, default: Any = None, **more: Any
) -> Any:
    """Return a field of `Limits` with its row, named after the field: `figure`, the `name` of that, and `text` as help.

    Unless there is a `reader`, it takes numbers with the `unit`; the unit of a limit with a `scale` is the metric's.
    """
    reader = reader or (accept_unit(unit) if unit else NUMBER)
    limit = Limit("", reader, text, "" if "scale" in more else unit, figure=figure, called=name, **more)
    return field(default=default, metadata=row(limit))


def _read_by_output(reader: Reader[float], example: str = "{'scores': 20}") -> Reader[OutputLimit]:
    """Return a reader of one limit or of a dict by output; whether the outputs exist is checked with the model."""

    def form(key: str, value: object) -> OutputLimit | None:
        if not isinstance(value, dict):
            return reader.form(key, value)
        if not value:
            raise UsageError(f"{key} is an empty dict", allowed="limits by output", fix=f"write {key}={example}")
        for name in value:
            if not isinstance(name, str) or not name:
                raise UsageError(f"{key} has a key that is no output's name", value=repr(name), allowed="a text")
        return tuple((name, reader.read(f"{key}[{name!r}]", allowed)) for name, allowed in value.items())

    return Reader(f"{reader.allowed}, or a dict of them by output", form, reader.refusal)


def _cosine(key: str, value: object) -> float | None:
    cosine = NUMBER.form(key, value)
    if cosine is not None and cosine > 1.0:
        raise UsageError(f"{key} lies between 0 and 1", value=f"{cosine:g}", fix="write min_cosine=0.99")
    return cosine


_MS = accept_unit("ms")


def _percentiles(key: str, value: object) -> tuple[tuple[float, float], ...] | None:
    """Return ``(percentile, milliseconds)`` pairs in the order of the percentiles; a plain number is the median."""
    if not isinstance(value, dict):
        median = _MS.form(key, value)
        return None if median is None else ((50.0, median),)
    pairs: dict[float, float] = {}
    for written, allowed in value.items():
        percentile = _percentile(key, written)
        if percentile in pairs:
            raise UsageError(f"{key} names p{percentile:g} twice", value=repr(value))
        pairs[percentile] = _MS.read(f"{key}[{written!r}]", allowed)
    if not pairs:
        raise UsageError(f"{key} is an empty dict", fix=f"write {key}={{'p50': 3, 'p99': 9}}")
    return tuple(sorted(pairs.items()))


def _percentile(key: str, written: object) -> float:
    """Return the percentile of ``"p99"``, ``"99"`` or ``99``. Raises `UsageError` for anything else."""
    digits = re.fullmatch(r"p?(\d+\.?\d*|\.\d+)", str(written), re.ASCII)
    percentile = float(digits[1]) if digits else 0.0
    if not 0.0 < percentile < 100.0:
        raise UsageError(
            f"{key} has a key that is no percentile",
            value=repr(written),
            allowed="'p50', 'p99', or 99: between 0 and 100",
            fix=f"write {key}={{'p50': 3, 'p99': 9}}",
        )
    return percentile


_PERCENTILES = Reader(f"{_MS.allowed}, or a dict of them by percentile", _percentiles, _MS.refusal)


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit that a mark can set; ``None`` for a limit that it does not set.

    Percentages and drops are in points of a hundred, latency in milliseconds per run of one batch, sizes in
    megabytes of 10^6 bytes, SQNR in dB, energy in millijoules per run, `min_ratio` and `min_speedup` as ratios; a text
    with the unit, as a mark may have it, is read into the number. `min_coverage` refers to all eligible compute.
    `default_min_coverage`, not a key of the mark, applies where the mark sets no `min_coverage`, and refers to what the
    engine's scheme can quantize. `max_latency_ms` has ``(percentile, milliseconds)`` pairs; 50 is the median.
    `min_sqnr_db`, `min_cosine` and `max_abs_error` apply to each output separately.
    """

    max_drop: OutputLimit | None = _limit(
        "score",
        "drop",
        "loss against the reference in the metric's unit, percentage points for percentages; or a dict of losses of "
        "all samples ('overall'), of each label ('label'), of each group ('group'), and of outputs by their names",
        reader=_read_by_output(accept_unit("pp"), "{'overall': 1, 'label': 3}"),
        interval="accuracy.drop_ci",
        scale="drop",
    )
    min_ratio: float | None = _limit(
        "score", "ratio of the scores", "candidate / reference; the inverse for a metric that is better when lower"
    )
    min_accuracy: float | None = _limit(
        "score",
        "score",
        "the candidate's own score, in the metric's unit; the most if lower is better",
        "%",
        scale="score",
    )
    min_reference_accuracy: float | None = _limit(
        "reference",
        "score of the reference",
        "the reference's own score, in the metric's unit; the most if lower is better",
        "%",
        scale="score",
    )
    min_agreement: float | None = _limit(
        "accuracy.agreement_pct",
        "agreement",
        "samples with the same top-1 class, or words of texts and top tokens that are the same, in percent",
        "%",
        accept_unit("%", PERCENT),
        missing="no output is (n, classes), text or scores of tokens; min_sqnr_db limits any output, max_drop a score",
    )
    min_sqnr_db: OutputLimit | None = _limit(
        "output.sqnr_db",
        "SQNR",
        "signal to quantization noise in dB of each output, or a dict by output, {'scores': 20}",
        "dB",
        _read_by_output(accept_unit("dB")),
        missing="has no SQNR: its reference is all zero, or text",
        equal=math.inf,
    )
    min_cosine: OutputLimit | None = _limit(
        "output.cosine",
        "cosine",
        "cosine similarity of each output, 0 to 1, or a dict by output",
        reader=_read_by_output(Reader("a number from 0 to 1", _cosine, NUMBER.refusal)),
        missing="has no cosine: it is all zero, or text",
        equal=1.0,
    )
    max_abs_error: OutputLimit | None = _limit(
        "output.max_abs_error",
        "largest error",
        "largest difference in each output, or a dict by output",
        reader=_read_by_output(NUMBER),
        missing="is text and has no error",
        equal=0.0,
    )
    max_latency_ms: tuple[tuple[float, float], ...] = _limit(
        "latency",
        "latency",
        "median of one run in ms, or a dict of percentiles, {'p50': 3, 'p99': 9}",
        "ms",
        _PERCENTILES,
        default=(),
    )
    min_speedup: float | None = _limit(
        "latency", "speedup", "reference time / candidate time", "x", interval="latency.speedup_ci"
    )
    max_ttft_ms: float | None = _limit(
        "latency", "time to the first token", "median time to the first token in ms", "ms"
    )
    max_tpot_ms: float | None = _limit("latency", "time per token", "median time per token after the first in ms", "ms")
    max_size_mb: float | None = _limit("resources.size_mb", "size", "engine file in 10^6 bytes", "MB")
    max_memory_mb: float | None = _limit(
        "resources.peak_memory_mb", "memory", "peak memory added while running, in 10^6 bytes", "MB"
    )
    max_build_s: float | None = _limit("resources.build_s", "time of the build", "seconds to build the engine", "s")
    max_energy_mj: float | None = _limit(
        "resources.energy_mj",
        "energy",
        "millijoules of one run, judged on the interval of 3 to 6 repeats of 5 s",
        "mJ",
        interval="resources.energy_mj_ci",
    )
    min_coverage: float | None = _limit(
        "coverage",
        "coverage",
        "compute that ran in the asked precision, in percent (default: 50 of what the scheme can quantize, where the "
        "backend tells, and 5 of all MACs; for a model that arrives quantized 50)",
        "%",
        accept_unit("%", PERCENT),
    )
    default_min_coverage: float | None = None
    max_slowdown: float | None = _limit("latency", "slowdown", "slowdown against the baseline in percent", "%")
    max_p50_increase: float | None = _limit(
        "latency",
        "increase of the median",
        "increase of the candidate's median time against the baseline's in percent",
        "%",
    )
    max_drop_increase: float | None = _limit(
        "score", "drop beyond the baseline's", "drop above the baseline's, in percentage points", "pp", scale="drop"
    )

    @property
    def drops(self) -> dict[str, float]:
        """The limits on the drop by what they are on: one of `PARTS`, or an output."""
        if self.max_drop is None:
            return {}
        return dict(self.max_drop) if isinstance(self.max_drop, tuple) else {PARTS[0]: self.max_drop}

    @property
    def margin(self) -> float | None:
        """The limit on the drop of all samples together, in the metric's unit; ``None`` without one."""
        return self.drops.get(PARTS[0])

    @property
    def by_output(self) -> tuple[tuple[str, str], ...]:
        """The ``(limit, output)`` pairs of limits that name outputs."""
        limits = {name: getattr(self, name) for name in limits_on("score", "output")}
        pairs = ((limit, pair[0]) for limit, value in limits.items() if isinstance(value, tuple) for pair in value)
        return tuple(pair for pair in pairs if pair[1] not in PARTS or pair[0] in limits_on("output"))

    @property
    def judges_history(self) -> bool:
        """Whether a limit is against a baseline."""
        return self.max_drop_increase is not None or self.judges_earlier_latency

    @property
    def judges_earlier_latency(self) -> bool:
        """Whether a limit is against the latency of a baseline."""
        return self.max_slowdown is not None or self.max_p50_increase is not None

    @property
    def token_limits(self) -> tuple[tuple[str, float], ...]:
        """The ``(name, milliseconds)`` limits on times of tokens."""
        pairs = (("ttft", self.max_ttft_ms), ("tpot", self.max_tpot_ms))
        return tuple((name, allowed) for name, allowed in pairs if allowed is not None)

    @property
    def judges_latency(self) -> bool:
        """Whether a limit needs the latency of this run."""
        return any(getattr(self, name) not in (None, ()) for name in limits_on("latency"))


LIMITS: Mapping[str, Limit] = {name: row for name, row in keys_of(Limits).items() if isinstance(row, Limit)}
"""Every limit by its name, in the order in which they are judged and shown."""

OWN_SCORES = tuple(name for name, row in LIMITS.items() if row.scale == "score")
"""Limits on the score of one engine, in the metric's unit: the least, or the most where lower is better."""


@cache
def limits_on(*about: str) -> tuple[str, ...]:
    """Return the names of the limits whose figure has any of these kinds, see `Limit.figure`."""
    return tuple(name for name, row in LIMITS.items() if row.figure.partition(".")[0] in about)
