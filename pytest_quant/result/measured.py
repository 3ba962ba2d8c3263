"""What ran, what it cost, and all that was measured of a check; the verdicts on it, and what is worth trying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pytest_quant.result.accuracy import AccuracyResult, SelfDifference
from pytest_quant.result.kinds import Count, Interval, Percent, Status
from pytest_quant.result.latency import NOTHING_KNOWN, LatencyResult, LaunchFigures, LaunchNoise
from pytest_quant.spec import Check


@dataclass(frozen=True, slots=True)
class OpCoverage:
    """One op type: nodes and multiply-accumulates, in the asked precision and in all.

    Attributes
    ----------
    op_type : as the runtime's graph has it.
    nodes : all nodes of this type.
    quantized_nodes : nodes of this type that ran in the asked precision.
    macs : multiply-accumulates of `nodes`; ``None`` where they are not counted.
    quantized_macs : multiply-accumulates of `quantized_nodes`; ``None`` where they are not counted.
    stands_for : the operator of the user's model where `op_type` is one of the runtime's own; else empty.
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
    by_op : by op type, the eligible ones first.
    provider : the one that ran the nodes, as the runtime spells it.
    opaque_nodes : products whose precision the runtime does not show, and fused nodes that may hold some.
    float_nodes : names of eligible nodes that ran in another precision, nearly always in float, at most ten.
    asked_nodes : names of all eligible nodes that ran in the asked precision; they are not kept in a record.
    notes : how it was read back, where that is not the usual way, one sentence each.
    plan_of : the product whose plan was read in the place of the one that was asked for; empty when they are the same.
    scheme_pct : 0..100, of the compute that the engine's scheme can quantize on its backend; ``None`` when it can
        quantize nothing of this model, or the backend does not tell.
    not_quantizable : what that scheme cannot quantize, by op type, in percent of the eligible compute.
    high_pct : 0..100, with all that cannot be seen into in the asked precision, where `pct` has it in float; ``None``
        where everything can be seen.
    weights_pct : 0..100, of the compute with weights in the asked precision that is computed in float, as read back;
        ``None`` for none.
    int8_pct : 0..100, of the compute that ran in int8 where another precision is asked; ``None`` for none.
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
    high_pct: Percent | None = None
    weights_pct: Percent | None = None
    int8_pct: Percent | None = None
    asked_nodes: tuple[str, ...] = field(default=(), repr=False, compare=False, metadata={"kept": False})

    @property
    def most_pct(self) -> float | None:
        """The most that may have run in the asked precision, in percent."""
        return self.pct if self.high_pct is None else self.high_pct


@dataclass(frozen=True, slots=True)
class Resources:
    """Sizes in 10^6 bytes, times in seconds, energy in millijoules per run; ``None`` is not measured.

    Attributes
    ----------
    size_mb : files of the candidate's engine.
    reference_size_mb : files of the reference's engine.
    build_s : building the candidate, calibration included; of an engine out of the cache, what its build took then.
    calibration_s : the calibration alone; ``None`` for a scheme without one.
    build_memory_mb : memory that the build added to the process at its peak.
    run_memory_mb : resident memory of the process added by opening the candidate and running one batch.
    energy_mj : of the whole device while runs follow each other, the draw of the idle device included.
    energy_mj_ci : its 95 % interval over repeats of at least 5 s, measured where `max_energy_mj` is set; without it
        `energy_mj` is rough, from half a second of runs.
    device_memory_mb : device memory that the runtime says the candidate holds.
    device_memory_nvml_mb : device memory of this process after opening and running it, less that before, by NVML;
        ``None`` where the driver does not tell it for each process, in most containers for one.
    plan_of : the product that built in the place of the one that was asked for, so that size and time of the build are
        not measured; empty when they are the same.
    device : where the candidate ran, ``cpu`` or ``cuda:0``.
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
    energy_mj_ci: Interval | None = None
    device: str = "cpu"

    @property
    def peak_memory_mb(self) -> float | None:
        """Memory of the device that runs the engine, its larger figure; on a CPU, memory of the process."""
        on_device = [mb for mb in (self.device_memory_mb, self.device_memory_nvml_mb) if mb is not None]
        return max(on_device, default=self.run_memory_mb if self.device == "cpu" else None)


@dataclass(frozen=True, slots=True)
class Portability:
    """Whether what was found about an INT8 engine holds on x86 processors without VNNI too.

    Their kernels add two products of u8 and s8 in 16 bits, where the sum of two large ones saturates.

    Attributes
    ----------
    holds : on ``any`` processor; ``vnni``: only on those that add in 32 bits, by VNNI or AMX, or on ARM; ``None``: not
        known.
    how : ``proven`` by the weights or the kernels, ``measured`` on samples by kernels of such a processor, or
        ``simulated``; ``None`` where it is not known.
    kind : of the kernels that ran here, ``vnni`` for those that add in 32 bits, else ``avx2``.
    reason : what shows it, or why it is not known, one sentence.
    n : samples that ran there; 0 for none.
    drop, sqnr_db, agreement_pct : of the engine there against the reference over those samples, as in `AccuracyResult`.
    worst_layer : the product whose sums can pass 16 bits by most; empty where no product can.
    """

    holds: Annotated[str, ("enum", ("any", "vnni"))] | None
    how: Annotated[str, ("enum", ("proven", "measured", "simulated"))] | None
    kind: str
    reason: str
    n: Count = 0
    drop: float | None = None
    sqnr_db: float | None = None
    agreement_pct: Percent | None = None
    worst_layer: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that a check took in this run, by which a suite is split into shards.

    Attributes
    ----------
    build_s : building engines, calibration included; 0 where all came out of the cache.
    evaluation_s : all before the timing but the builds: loading, reading the data, running both engines over it.
    timing_s : latency in all launches, and energy.
    """

    build_s: float
    evaluation_s: float
    timing_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.build_s + self.evaluation_s + self.timing_s


@dataclass(frozen=True, slots=True)
class Environment:
    """Machine and libraries.

    Attributes
    ----------
    identity : what must match before latencies are compared, by name: processor, instruction set, cores, system, GPU.
    context : what is only noted, by name: versions of Python, kernel, driver and libraries.
    """

    identity: Mapping[str, str]
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Earlier records of the same series, accepted or of the target branch, as far as a limit needs them.

    Attributes
    ----------
    commit : the last one that a record is of.
    drop : of the last record; ``None`` where it has none.
    no_drop : why it has none, as the end of a sentence; empty where the record itself has none.
    launches, p50_launches : those on this machine, timed in the same way, since the speedup, and since the candidate's
        own time, last changed.
    speedup_noise, p50_noise : how launches of this series differ here, as far as the history knows.
    now : start of the launch that is judged, ISO 8601 in UTC.
    note : why it is of another commit than the merge base; empty where it is not.
    is_paired : this run judges base and head in pairs as well, in the section of ``--quant-against``.
    accuracy : of the last record, for scores that were given; ``None`` where it is not asked for or not kept.
    run_sd, run_freedom : standard deviation of the score of a run, and its degrees of freedom, as far as earlier
        records of the series show it.
    """

    commit: str
    drop: float | None = None
    launches: tuple[LaunchFigures, ...] = ()
    p50_launches: tuple[LaunchFigures, ...] = ()
    speedup_noise: LaunchNoise = NOTHING_KNOWN
    p50_noise: LaunchNoise = NOTHING_KNOWN
    now: str = ""
    note: str = ""
    is_paired: bool = False
    accuracy: AccuracyResult | None = None
    run_sd: float = 0.0
    run_freedom: int = 0
    no_drop: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit, judged.

    Attributes
    ----------
    limit : the mark's key, or ``outputs`` for outputs that could not be compared.
    allowed : what the mark allows, in the limit's unit; a whole number where the mark has one.
    observed : what was found, in the same unit; ``None`` when it was not measured.
    status : what was decided about this limit.
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
    before : that figure of the engine as it is; ``None`` when nothing was tried or it could not be measured.
    after : that figure of the engine with `paste`, on the same samples; ``None`` as for `before`.
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
    accuracy : of no samples when it is off; `Check.accuracy_off` says why.
    latency : ``None`` when it is off; `Check.latency_off` says why.
    coverage, resources : ``None`` of scores, which say nothing of the engine that they are of.
    accuracy_again : a second evaluation, where an engine differs from itself by more than rounding; else ``None``.
    accuracy_at_worst : with the worst score in samples that the candidate lacks and that are left out of `accuracy`;
        ``None`` where there are none, and where nothing bounds what they lost.
    unsteady : those of reference and candidate that differ from themselves on the same batch.
    cache : ``{"engine": ..., "reference": ...}``, each ``built`` or ``hit``; without ``reference`` where accuracy is
        off, ``None`` without engines.
    digests : of the engines and the data, by name.
    calibration_samples : that the calibration saw, ``None`` when the scheme has none.
    threads : processor threads of the candidate, ``None`` when its backend does not say.
    notes : what the reader should know beside the verdicts.
    warnings : those of `notes` that a check which passes must not hide.
    builds : see `pytest_quant.record.Record`.
    cost : seconds that it took.
    portability : ``None`` of what is no INT8 engine on the CPU, or where it is off; `Check.portability_off` says why.
    """

    check: Check
    accuracy: AccuracyResult
    latency: LatencyResult | None = None
    coverage: Coverage | None = None
    resources: Resources | None = None
    cache: Mapping[str, str] | None = None
    digests: Mapping[str, str]
    accuracy_again: AccuracyResult | None = field(default=None, repr=False)
    accuracy_at_worst: AccuracyResult | None = field(default=None, repr=False)
    unsteady: tuple[SelfDifference, ...] = ()
    calibration_samples: int | None = None
    threads: int | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cost: Cost | None = None
    builds: Mapping[str, str] = field(default_factory=dict)
    portability: Portability | None = None

    def close(self) -> None:
        """Release what is still open; scores that were given have no engines."""
