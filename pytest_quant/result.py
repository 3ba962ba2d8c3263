"""What was found: frozen values, standard library only. Nothing here judges."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pytest_quant.spec import Check


class Status(StrEnum):
    """The one word of a verdict, worst first."""

    ERROR = "ERROR"
    FAIL = "FAIL"
    UNAVAILABLE = "UNAVAILABLE"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    PASS = "PASS"  # nosec B105 # noqa: S105 - a status, not a secret


Better: TypeAlias = Literal["higher", "lower"]
"""Which way a metric is better."""

Count: TypeAlias = Annotated[int, ("minimum", 0)]
"""A number of things. What this and the next types say beyond their type are words of JSON Schema."""

Positive: TypeAlias = Annotated[int, ("minimum", 1)]
"""A number of things of which there is one at least."""

Percent: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 100)]
"""A share in points of a hundred."""

Probability: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 1)]


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval in the unit of what it encloses."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OutputFault:
    """An output of the candidate that is broken, whatever the limits.

    `kind` is ``missing``, ``other shape``, ``other dtype``, ``not finite``, or ``constant`` for one that says nothing
    about the input where the reference's does. `sample` is the index in the evaluation set of the first sample that
    shows it.
    """

    output: str
    kind: str
    sample: Count
    detail: str


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far one output of the candidate lies from the reference's over the whole evaluation set.

    Attributes
    ----------
    name : what limits and messages call it: the output's own name, or ``output0.scores`` for a group of channels.
    group_of : the output that it is a group of channels of; ``None`` for a whole output.
    sqnr_db : 20 log10(||r|| / ||r - c||); ``None`` where the two are equal, or one of them is all zero or text.
    cosine : of the flattened values, -1..1; ``None`` where a side is all zero, or text.
    max_abs_error, sample : largest |r - c| and the index of the first sample that shows it; ``None`` for text.
    identical : every value equal.
    reference_constant : the reference gives every sample the same, or, of one sample, one value everywhere.
    """

    name: str
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs_error: float | None = None
    sample: Count | None = None
    identical: bool = False
    reference_constant: bool = False
    group_of: str | None = None


@dataclass(frozen=True, slots=True)
class WorstClass:
    """The class that lost most: its label, its samples, and the two scores in percent."""

    label: int
    n: Count
    reference: float
    candidate: float


@dataclass(frozen=True, slots=True)
class AccuracyResult:
    """Reference and candidate over one evaluation set.

    Attributes
    ----------
    metric, unit, better : the task metric, ``None`` without labels; `better` is ``higher`` or ``lower``.
    n : samples compared.
    reference, candidate, drop, drop_ci : in `unit`; drop > 0 is worse. ``None`` without a metric.
    p_value : exact McNemar for 0/1 scores, else ``None``.
    discordant : samples that exactly one of the two gets right; ``None`` unless scores are 0/1.
    n_to_resolve : by limit in `unit`, see `pytest_quant.stats`; ``None`` when no limit was asked about.
    sample_weight : the most that one sample can change a score, in `unit`; ``None`` where a score has no bounds.
    agreement_pct : share of samples with the same top-1 class, 0..100; ``None`` when no output is (n, classes).
    by_output : every output that could be compared, each by itself, in the order of the graph. Outputs have scales
        of their own, and one sum over all of them would hide the small ones.
    sqnr_db, cosine : see `OutputError`; the lowest of all outputs that differ, ``None`` where one of them has none.
    max_abs_error, max_abs_error_sample : the largest of all outputs and the sample that shows it.
    worst_output : the one with the lowest SQNR, or with none; ``None`` when all are identical.
    chance : what guessing scores on average, in `unit`; ``None`` where that is not known.
    kl : mean KL(softmax r || softmax c) in nats for classifiers, else ``None``.
    faults : outputs that could not be compared, or that are constant where the reference's are not; not empty is a
        failure.
    identical : every output equal in value.
    simulated : the candidate's numbers come from a float simulation.
    reference_correct, candidate_correct : for 0/1 scores, which samples each gets right: packed bits, deflated,
        base64.
    """

    n: Count
    metric: str | None = None
    unit: str | None = None
    better: Better | None = None
    reference: float | None = None
    candidate: float | None = None
    drop: float | None = None
    drop_ci: Interval | None = None
    confidence: Annotated[float, ("exclusiveMinimum", 0), ("exclusiveMaximum", 1)] = 0.95
    p_value: Probability | None = None
    discordant: Count | None = None
    n_to_resolve: Count | None = None
    agreement_pct: Percent | None = None
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs_error: float | None = None
    max_abs_error_sample: Count | None = None
    by_output: tuple[OutputError, ...] = field(default=(), repr=False)
    worst_output: str | None = None
    chance: float | None = None
    kl: float | None = None
    worst_class: WorstClass | None = None
    faults: tuple[OutputFault, ...] = ()
    reference_correct: str | None = field(default=None, repr=False)
    candidate_correct: str | None = field(default=None, repr=False)
    identical: bool = False
    simulated: bool = False
    sample_weight: float | None = None


@dataclass(frozen=True, slots=True)
class SelfDifference:
    """How far two runs of one engine over the same batch lie apart; all zero for a deterministic engine.

    Attributes
    ----------
    engine : its id, ``ort-fp32``.
    n : samples of the batch.
    relative : largest ||one - other|| / ||one|| of an output; infinite where shapes or integers differ.
    max_abs : largest |one - other| of a value.
    top1_pct : samples whose largest score is that of another class, 0..100; ``None`` where no output is (n, classes).
    """

    engine: str = ""
    n: int = 0
    relative: float = 0.0
    max_abs: float = 0.0
    top1_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """The timed runs of one engine: one tuple of nanoseconds per round, cold first runs kept apart."""

    runs_ns: tuple[tuple[int, ...], ...]
    cold_ns: tuple[int, ...] = ()

    @property
    def medians_ns(self) -> tuple[float, ...]:
        """The median run of each round, all that a history keeps."""
        return tuple(statistics.median(runs) for runs in self.runs_ns)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Reference, null and candidate timed interleaved, round by round.

    Attributes
    ----------
    batch_size : samples in one run.
    reference, null, candidate : the raw runs.
    reference_p50_ms, candidate_p50_ms, candidate_p90_ms, candidate_p99_ms : milliseconds per run; a
        percentile is ``None`` when there were too few runs to state it.
    percentile_bounds_ms : ``(percentile, low, high)`` order-statistic intervals of the candidate;
        ``low`` or ``high`` is ``None`` when there were too few runs for that side.
    speedup, speedup_ci : reference / candidate; > 1 is faster.
    null_ratio_ci : null / reference; must enclose nearly 1.
    half_width_pct : half-width of the speedup's interval in percent, the detectable effect.
    reasons : named reasons why the numbers cannot be trusted; empty when they can.
    notes : named signs of noise that do not void the numbers.
    spent_s : seconds that warming up and all rounds took.
    repeat : the second measurement, when the first one broke a limit.
    """

    batch_size: int
    rounds: int
    reference: Blocks = field(repr=False)
    null: Blocks = field(repr=False)
    candidate: Blocks = field(repr=False)
    reference_p50_ms: float
    candidate_p50_ms: float
    candidate_p90_ms: float | None
    candidate_p99_ms: float | None
    percentile_bounds_ms: tuple[tuple[float, float | None, float | None], ...]
    speedup: float
    speedup_ci: Interval
    null_ratio_ci: Interval
    half_width_pct: float
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent_s: float = 0.0
    repeat: LatencyResult | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """One run taken apart, milliseconds: medians over `runs` runs.

    Attributes
    ----------
    gpu_ms : compute, between two events on the engine's stream.
    h2d_ms, d2h_ms : copies of all inputs to the device, and of all outputs back.
    host_ms : from the call to the synchronized return, copies excluded.
    """

    runs: int
    gpu_ms: float
    h2d_ms: float
    d2h_ms: float
    host_ms: float


@dataclass(frozen=True, slots=True)
class OpCoverage:
    """One op type: nodes and multiply-accumulates, in the asked precision and in all.

    `stands_for` is the operator of the user's model where `op_type` is one of the runtime's own; else it is empty.
    """

    op_type: str
    nodes: Count
    quantized_nodes: Count
    macs: Count | None = None
    quantized_macs: Count | None = None
    stands_for: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of the eligible compute that ran in the asked precision, read back from the runtime.

    Attributes
    ----------
    pct : 0..100; ``None`` when nothing was eligible.
    unit : what was counted, ``MACs`` or ``nodes``.
    by_op : eligible op types first, one row each.
    provider : the one that ran the nodes, as the runtime spells it.
    opaque_nodes : fused nodes one cannot see into; never counted as quantized.
    float_nodes : names of eligible nodes that ran in float, at most ten.
    notes : how it was read back, where that is not the plain way, one sentence each.
    plan_of : the product whose plan was read in the place of the one that was asked for; empty when they are the same.
    scheme_pct : 0..100, of the compute that the engine's scheme can quantize on its backend; ``None`` when it can
        quantize nothing of this model, or the backend does not tell.
    not_quantizable : by op type what it cannot, in percent of the eligible compute.
    """

    pct: Percent | None
    unit: str
    by_op: tuple[OpCoverage, ...] = field(repr=False)
    provider: str
    opaque_nodes: Count = 0
    float_nodes: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    plan_of: str = ""
    scheme_pct: Percent | None = None
    not_quantizable: Mapping[str, Percent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resources:
    """Sizes in 10^6 bytes, times in seconds, energy in millijoules per run; ``None`` is not measured.

    Attributes
    ----------
    run_memory_mb : resident memory of the process added by opening the candidate and running one batch.
    device_memory_mb : device memory that the runtime says the candidate holds.
    device_memory_nvml_mb : device memory in use after opening and running it, less that before, by NVML.
    plan_of : the product that built in the place of the one that was asked for, so that size and time of the build are
        not measured; empty when they are the same.
    """

    size_mb: float | None = None
    reference_size_mb: float | None = None
    build_s: float | None = None
    calibration_s: float | None = None
    build_memory_mb: float | None = None
    run_memory_mb: float | None = None
    energy_mj: float | None = None
    device_memory_mb: float | None = None
    device_memory_nvml_mb: float | None = None
    plan_of: str = ""

    @property
    def peak_memory_mb(self) -> float | None:
        """Memory where the engine runs: the larger figure of the device, else that of the process."""
        on_device = [mb for mb in (self.device_memory_mb, self.device_memory_nvml_mb) if mb is not None]
        return max(on_device) if on_device else self.run_memory_mb


@dataclass(frozen=True, slots=True)
class Environment:
    """Machine and libraries: `identity` must match before latency is compared, `context` is only noted."""

    identity: Mapping[str, str]
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier record of the same series, accepted or of the merge base, as far as a limit needs it.

    Where the evaluation data is another one, `drop` is that on the samples that both have, `own_drop` this check's drop
    on them, and `counted` says how many they are.
    """

    commit: str
    drop: float | None
    speedup: float | None
    candidate_p50_ms: float | None
    same_identity: bool
    own_drop: float | None = None
    counted: str = ""


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """There is nothing to compare with; `why` is the end of a sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit, judged.

    Attributes
    ----------
    limit : the mark's key, or ``outputs`` for outputs that could not be compared.
    allowed : what the mark allows, in the limit's unit; a whole number where the mark has one.
    observed : what was found; ``None`` when it was not measured.
    reason : one sentence that says why this status.
    implicit : the mark does not set it; it holds for every check.
    """

    limit: str
    allowed: int | float | None
    observed: float | None
    status: Status
    reason: str
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Hint:
    """Advice that was measured on this check.

    Attributes
    ----------
    text : what was measured, one sentence.
    paste : what to write into the mark or on the command line; empty where there is nothing to write.
    limit : the limit whose figure `before` and `after` are; empty when no other engine was tried.
    before, after : that figure of the engine as it is and of the one with `paste`, on the same samples; ``None`` when
        nothing was tried or it could not be measured.
    """

    text: str
    paste: str = ""
    limit: str = ""
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was found about one check: what its limits are judged by, and what its record keeps.

    Attributes
    ----------
    latency : ``None`` when it is off; `Check.latency_off` says why.
    accuracy_again : a second evaluation, where an engine differs from itself by more than rounding; else ``None``.
    unsteady : those of reference and candidate that differ from themselves on the same batch.
    cache : ``{"engine": ..., "reference": ...}``, each ``built`` or ``hit``.
    digests : of the engines and the data, by name.
    sample_hashes : 64-bit hashes of the evaluated samples, in their order.
    calibration_samples : that the calibration saw, ``None`` when the scheme has none.
    threads : processor threads of the candidate, ``None`` when its backend does not say.
    notes : what the reader should know beside the verdicts.
    """

    check: Check
    accuracy: AccuracyResult
    latency: LatencyResult | None
    coverage: Coverage
    resources: Resources
    cache: Mapping[str, str]
    digests: Mapping[str, str]
    accuracy_again: AccuracyResult | None = field(default=None, repr=False)
    unsteady: tuple[SelfDifference, ...] = ()
    sample_hashes: array[int] = field(default_factory=lambda: array("Q"), repr=False)
    calibration_samples: int | None = None
    threads: int | None = None
    notes: tuple[str, ...] = ()
