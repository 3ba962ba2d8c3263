"""The request of one marked test: its data, its engines, its limits and the plan of the timing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from pytest_quant.errors import UsageError
from pytest_quant.readers import NUMBER, Reader, choice_of, count, option
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.limits import Limits
from pytest_quant.spec.model import ChannelGroup, InputShapes, Model
from pytest_quant.spec.scores import Scores

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "int4", "fp8")
QUANTIZED_PRECISIONS = ("int8", "int4", "fp8")
ARRIVING = ("given", "qat")
"""Schemes of a model that arrives quantized, whoever made it: where the mark says nothing more, and where it says that
the model was trained so. Both make the same engine."""
SCHEMES = ("static", "dynamic", "weight-only", *ARRIVING)
PROCESSORS = ("any", "avx2", "vnni")
"""Kinds of processors that a verdict may have to hold on: any; x86 without VNNI, the oldest kind; or with VNNI."""
REFERENCE_PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
"""What latency may be compared with: exact FP32, FP32 whose products are rounded to TF32, or a shorter float."""

Pages: TypeAlias = Literal["huge", "small"]
"""Pages of memory under engines on the processor: of 2 MB, or those that the system gives by itself."""


def _percentile(name: str, value: object) -> float | None:
    """50 and below is refused because the user most likely wrote a share, 0.99, and meant percent, 99."""
    percentile = NUMBER.form(name, value)
    if percentile is not None and not 50.0 < percentile <= 100.0:
        raise UsageError(
            "the calibration percentile is the share of values kept, in percent",
            value=repr(percentile),
            allowed="above 50, at most 100",
            fix="write calibration={'method': 'percentile', 'percentile': 99.99}",
        )
    return percentile


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a static scheme finds the ranges of activations; each field is a row of the table for marks."""

    method: str = option("minmax", choice_of("entropy", "minmax", "percentile"), "how ranges are chosen")
    percentile: float = option(
        99.999,
        Reader("a number above 50, at most 100", _percentile, NUMBER.refusal),
        "share of the histogram kept by the method percentile, in percent",
    )
    samples: int | None = option(None, count(), "largest number of calibration samples to use (default: all)")
    batch_size: int = option(1, count(), "samples in one calibration batch")


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One model in one backend at one precision.

    Attributes
    ----------
    backend : registered name.
    precision : one of `PRECISIONS`; empty where nobody knows it.
    scheme : one of `SCHEMES` for a quantized precision, else ``None``.
    quantized : a model that is already quantized (schemes `ARRIVING`), or the function of a candidate; else ``None``.
    exclude : names of nodes to leave in float.
    options : options of the backend as ``(name, value)`` pairs sorted by name; the backend validates them.
    shapes : shapes of its inputs in the data; only for a backend that builds for them, empty without data.
    cpus : the processors that it is built for, one of `PROCESSORS`, whatever this one is; empty for this one.
    """

    backend: str
    precision: str
    scheme: str | None
    model: Model
    quantized: Model | None = None
    calibration: Calibration = field(default_factory=Calibration)
    exclude: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    shapes: tuple[InputShapes, ...] = ()
    cpus: str = ""

    @property
    def id(self) -> str:
        """A readable name, ``ort-int8-static`` or ``ort-fp32``; the same in test ids, tables and logs."""
        return "-".join(filter(None, (self.backend, self.precision, self.scheme)))

    @property
    def asked(self) -> dict[str, str]:
        """What the mark asks beside model, precision and scheme, as text: `calibration`, `exclude`, `cpus`, `options`.

        A key that is not set, or that nothing reads, is left out. A path is its file's name: folders differ between
        machines.
        """
        asked: dict[str, object] = {"exclude": ", ".join(self.exclude), "cpus": self.cpus}
        if self.scheme == "static":
            asked |= {f"calibration {name}": value for name, value in asdict(self.calibration).items()}
            asked["calibration"] = asked.pop("calibration method")
            if self.calibration.method != "percentile":
                del asked["calibration percentile"]
        texts = ((name, f"{value:.15g}" if isinstance(value, float) else str(value)) for name, value in asked.items())
        of_keys = {name: text for name, text in texts if text not in ("", "None")}
        return of_keys | {name: _NOT_OF_VALUE.sub("", repr(value)) for name, value in self.options}


_NOT_OF_VALUE = re.compile(r" at 0x[0-9a-f]+|(?<=['\"])(?:/|[A-Za-z]:)[^'\"]*[/\\]")
"""What a text of a value says of this process or this machine: an address, the folder of a file."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation, as a natural logarithm, and its degrees of freedom, 0 for an unknown deviation."""

    sd: float
    freedom: float

    @property
    def variance(self) -> float:
        """The square of the standard deviation."""
        return self.sd**2


UNKNOWN = Spread(0.0, 0.0)

UNMEASURED = Spread(0.005, 4.0)
"""What `LatencyPlan.sessions` is on a runner that nobody measured: interleaved sessions of one model differ by 0.4 to
0.6 % on CPUs that were measured. CPUs differ between 0.4 and 3 %: a runner's own sessions soon count for more."""


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """The budget of one latency measurement, see `pytest_quant.measure.timed_rounds`.

    Attributes
    ----------
    batch_size : samples in one run.
    min_rounds, max_rounds : bounds on the rounds; every engine is timed once in each round. A limit on a tail takes as
        many more as bound it.
    look_every : rounds between two looks at the interval.
    min_runs : fewest runs of one block, not counting its first one, which is recorded separately as cold.
    min_block_s : shortest duration of a block in seconds.
    max_warmup_s : most seconds spent warming up one engine.
    max_s : seconds for everything: warming up, all rounds, and the second measurement that confirms a broken limit.
    confidence : of every interval, 0..1.
    precision : relative half-width of the speedup's interval at which a plan without limits stops.
    least_speedup : stop when the interval of the speedup lies above or below it; ``None`` to ignore.
    most_ms : ``(percentile, milliseconds)`` limits to decide, percentile 50 for the median.
    most_tokens_ms : ``(name, milliseconds)`` limits on times of tokens to decide, see `TokenTime`.
    seed : of the random order.
    sessions : between sessions, within one launch, of log(reference / candidate): what more rounds cannot average out.
        The launch's own null counts as one more degree of freedom.
    pages : ``huge`` moves what engines on the processor read into pages of 2 MB, where the system can; ``small`` times
        them on the pages that the system gives, as every check with a limit in milliseconds is timed.
    refill_s : seconds of each block in which runs are not counted, because caches still have what the engine before
        it read.
    """

    batch_size: int = 1
    min_rounds: int = 8
    max_rounds: int = 40
    look_every: int = 8
    min_runs: int = 4
    min_block_s: float = 0.005
    max_warmup_s: float = 2.0
    max_s: float = 10.0
    confidence: float = 0.95
    precision: float = 0.02
    least_speedup: float | None = None
    most_ms: tuple[tuple[float, float], ...] = ()
    most_tokens_ms: tuple[tuple[str, float], ...] = ()
    seed: int = 0
    sessions: Spread = UNMEASURED
    pages: Pages = "huge"
    refill_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """Candidate, reference, data and limits of one marked test.

    Attributes
    ----------
    nodeid : pytest's id of the test.
    series_nodeid : the same with the path below the checkout, without the parameters that lists in the mark add, see
        `SeriesKey`.
    metric : a metric's name, a ``Metric``, a dict of these by output, or ``None`` for the default.
    output : the outputs that the metric reads and tensor limits apply to; empty: the metric reads the first, tensor
        limits apply to all.
    channels : groups of channels that are judged as outputs of their own, in place of the outputs they belong to.
    batch_size : samples in one timed run, as the mark asks; part of the series also when latency is off.
    latency_sample : index in the evaluation set of the sample whose shapes are timed; ``None`` for the median size.
    reference_precision : one of `REFERENCE_PRECISIONS`, of the engine that latency is compared with.
    timed_reference : that engine; ``None`` where it is the reference itself, at exact FP32.
    eval_batch_size : samples in one batch of the evaluation; ``None`` for the default or the model's fixed size.
    latency : ``None`` when latency is not to be measured.
    latency_off : reason why latency is not measured; empty when it is.
    accuracy_off : reason why the evaluation is left out; empty when it is not.
    portability_off : reason why nobody looks on which processors the verdict holds; empty where it is looked at.
    confidence : judge accuracy by its interval at this level; ``None`` judges it by the point estimate.
    scores : of single samples that were given in place of engines and data; ``None`` where there are engines.
    """

    nodeid: str
    series_nodeid: str
    candidate: EngineSpec
    reference: EngineSpec
    dataset: Dataset
    limits: Limits = field(default_factory=Limits)
    metric: Any = None
    output: tuple[str, ...] = ()
    channels: tuple[ChannelGroup, ...] = ()
    eval_batch_size: int | None = None
    latency: LatencyPlan | None = field(default_factory=LatencyPlan)
    latency_off: str = ""
    accuracy_off: str = ""
    portability_off: str = ""
    confidence: float | None = None
    batch_size: int = 1
    latency_sample: int | None = None
    reference_precision: str = "fp32"
    timed_reference: EngineSpec | None = None
    scores: Scores | None = None

    @property
    def is_alone(self) -> bool:
        """Whether the scores of a candidate are given without those of a reference."""
        return self.scores is not None and not self.scores.reference

    @property
    def engines(self) -> tuple[EngineSpec, ...]:
        """The reference, the candidate and, if it is a third engine, the engine that latency is compared with.

        None of them where scores are given in their place.
        """
        if self.scores is not None:
            return ()
        return (self.reference, self.candidate, *([] if self.timed_reference is None else [self.timed_reference]))

    def map_engines(self, change: Callable[[EngineSpec], EngineSpec]) -> Check:
        """Return the check with each of its engines changed."""
        if not self.engines:
            return self
        timed = None if self.timed_reference is None else change(self.timed_reference)
        return replace(self, candidate=change(self.candidate), reference=change(self.reference), timed_reference=timed)
