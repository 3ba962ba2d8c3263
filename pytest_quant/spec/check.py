"""The request of one marked test: its engines, its limits and the plan of the timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pytest_quant.errors import UsageError
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.limits import Limits
from pytest_quant.spec.model import ChannelGroup, InputShapes, Model

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "int4", "fp8")
QUANTIZED_PRECISIONS = ("int8", "int4", "fp8")
SCHEMES = ("static", "dynamic", "weight-only", "qat")
REFERENCE_PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
"""What latency may be compared with: exact FP32, FP32 whose products are rounded to TF32, or a shorter float."""

Pages: TypeAlias = Literal["huge", "small"]
"""Pages of memory under engines on the processor: of 2 MB, or those that the system gives by itself."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a static scheme finds the ranges of activations.

    Attributes
    ----------
    method : ``minmax``, ``entropy`` or ``percentile``.
    percentile : share of the histogram kept by ``percentile``, in percent; see `check_percentile`.
    samples : largest number of calibration samples to use; ``None`` for all of them.
    batch_size : samples in one calibration batch.
    """

    method: str = "minmax"
    percentile: float = 99.999
    samples: int | None = None
    batch_size: int = 1


def check_percentile(percentile: float) -> float:
    """Return `percentile` if a calibration can use it.

    50 and below is refused because it is most likely a share, 0.99, where percent, 99, was meant.

    Raises
    ------
    UsageError : it is not above 50 and at most 100.
    """
    if not 50.0 < percentile <= 100.0:
        raise UsageError(
            "the calibration percentile is the share of values kept, in percent",
            value=repr(percentile),
            allowed="above 50, at most 100",
            fix="write calibration={'method': 'percentile', 'percentile': 99.99}",
        )
    return percentile


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One model in one backend at one precision.

    Attributes
    ----------
    backend : registered name.
    precision : one of `PRECISIONS`.
    scheme : one of `SCHEMES` for a quantized precision, else ``None``.
    quantized : a model that is already quantized (scheme ``qat``), else ``None``.
    exclude : names of nodes to leave in float.
    options : options of the backend as ``(name, value)`` pairs sorted by name; the backend validates them.
    shapes : shapes of its inputs in the data; only for a backend that builds for them, empty without data.
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

    @property
    def id(self) -> str:
        """A readable name, ``ort-int8-static`` or ``ort-fp32``; the same in test ids, tables and logs."""
        return "-".join(part for part in (self.backend, self.precision, self.scheme) if part)


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation, as a natural logarithm, and its degrees of freedom; 0 of them for one that is unknown."""

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
    """The budget of one latency measurement, see `pytest_quant.measure.latency`.

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
    min_speedup : stop when the interval of the speedup lies above or below it; ``None`` to ignore.
    max_latency_ms : ``(percentile, milliseconds)`` limits to decide, percentile 50 for the median.
    seed : of the random order.
    sessions : between sessions, within one launch, of log(reference / candidate): what more rounds cannot average out.
        The launch's own null counts as one more degree of freedom.
    pages : ``huge`` moves what engines on the processor read into pages of 2 MB, where the system can; ``small`` times
        them on the pages that the system gives.
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
    min_speedup: float | None = None
    max_latency_ms: tuple[tuple[float, float], ...] = ()
    seed: int = 0
    sessions: Spread = UNMEASURED
    pages: Pages = "huge"


@dataclass(frozen=True, slots=True)
class Check:
    """Candidate, reference, data and limits of one marked test.

    Attributes
    ----------
    nodeid : pytest's id of the test.
    series_nodeid : the same without the parameters that lists in the mark add.
    metric : a metric's name, a ``Metric``, or ``None`` for the default.
    output : the output that the metric reads and tensor limits apply to; ``None``: the metric reads the first, tensor
        limits apply to all.
    channels : groups of channels that are judged as outputs of their own, in place of the outputs they belong to.
    batch_size : samples in one timed run, as the mark asks; part of the series also when latency is off.
    reference_precision : one of `REFERENCE_PRECISIONS`, of the engine that latency is compared with.
    timed_reference : that engine; ``None`` where it is the reference itself, at exact FP32.
    eval_batch_size : samples in one batch of the evaluation; ``None`` for the default or the model's fixed size.
    latency : ``None`` when latency is not to be measured.
    latency_off : reason why latency is not measured; empty when it is.
    confidence : judge accuracy by its interval at this level; ``None`` judges it by the point estimate.
    """

    nodeid: str
    series_nodeid: str
    candidate: EngineSpec
    reference: EngineSpec
    dataset: Dataset
    limits: Limits = field(default_factory=Limits)
    metric: object | None = None
    output: str | None = None
    channels: tuple[ChannelGroup, ...] = ()
    eval_batch_size: int | None = None
    latency: LatencyPlan | None = field(default_factory=LatencyPlan)
    latency_off: str = ""
    confidence: float | None = None
    batch_size: int = 1
    reference_precision: str = "fp32"
    timed_reference: EngineSpec | None = None

    @property
    def engines(self) -> tuple[EngineSpec, ...]:
        """The reference, the candidate and, if it is another one, the engine that latency is compared with."""
        return (self.reference, self.candidate, *([] if self.timed_reference is None else [self.timed_reference]))

    def map_engines(self, change: Callable[[EngineSpec], EngineSpec]) -> Check:
        """Return the check with each of its engines changed."""
        return replace(
            self,
            candidate=change(self.candidate),
            reference=change(self.reference),
            timed_reference=None if self.timed_reference is None else change(self.timed_reference),
        )
