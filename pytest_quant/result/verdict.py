"""Verdicts, what they are compared with, and what is worth trying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_quant.result.accuracy import AccuracyResult, SelfDifference
from pytest_quant.result.kinds import Status
from pytest_quant.result.latency import NOTHING_KNOWN, LatencyResult, LaunchFigures, LaunchNoise
from pytest_quant.result.proof import Coverage, Resources
from pytest_quant.spec import Check


@dataclass(frozen=True, slots=True)
class Baseline:
    """Earlier records of the same series, accepted or of the target branch, as far as a limit needs them.

    Attributes
    ----------
    commit : the last one that a record is of.
    drop : of the last record; ``None`` where it has none.
    speedup, candidate_p50_ms : medians over the launches on this machine; ``None`` without any.
    same_identity : there are launches on this machine, timed in the same way.
    launches, p50_launches : those launches since the speedup, and since the candidate's own time, last changed.
    speedup_noise, p50_noise : how launches of this series differ here, as far as the history knows.
    now : start of the launch that is judged, ISO 8601 in UTC.
    note : why it is of another commit than the merge base; empty where it is not.
    """

    commit: str
    drop: float | None
    speedup: float | None
    candidate_p50_ms: float | None
    same_identity: bool
    launches: tuple[LaunchFigures, ...] = ()
    p50_launches: tuple[LaunchFigures, ...] = ()
    speedup_noise: LaunchNoise = NOTHING_KNOWN
    p50_noise: LaunchNoise = NOTHING_KNOWN
    now: str = ""
    note: str = ""


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
    latency : ``None`` when it is off; `Check.latency_off` says why.
    accuracy_again : a second evaluation, where an engine differs from itself by more than rounding; else ``None``.
    unsteady : those of reference and candidate that differ from themselves on the same batch.
    cache : ``{"engine": ..., "reference": ...}``, each ``built`` or ``hit``.
    digests : of the engines and the data, by name.
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
    calibration_samples: int | None = None
    threads: int | None = None
    notes: tuple[str, ...] = ()
