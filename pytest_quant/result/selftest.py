"""What a self-test found about the noise of one runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.result.kinds import Interval


@dataclass(frozen=True, slots=True)
class SlowdownSeen:
    """How often a slowdown is seen at a limit of half of it, and what unchanged code gets there, in percent of runs.

    Attributes
    ----------
    slowdown_pct : of the work, or of the measured rounds.
    limit_pct : half of it.
    failed_pct : of runs with the slowdown that fail.
    passed_pct : of runs of unchanged code that pass.
    runs : of each.
    is_planted : whether an engine did more work; else the measured rounds of unchanged code were shifted.
    """

    slowdown_pct: float
    limit_pct: float
    failed_pct: float
    passed_pct: float
    runs: int
    is_planted: bool = False


@dataclass(frozen=True, slots=True)
class KindNoise:
    """The noise of one kind of model.

    Attributes
    ----------
    name : ``tiny``, ``compute-bound`` or ``memory-bound``.
    reference_p50_ms, candidate_p50_ms : medians over the processes.
    processes, rounds : that were measured, and rounds in each.
    round_sd_pct : standard deviation of the log ratio between rounds.
    autocorrelation : of a round's log ratio with the one before it, -1..1; the median over the processes.
    session_sd_pct, session_sd_ci : between sessions within one process, rounds excluded, and its 95 % interval.
    launch_sd_pct, launch_sd_ci : between processes of the one number that each gives, all noise included.
    half_width_pct : of the interval that one launch prints.
    slowdowns : what is seen of slowdowns.
    one_pct, five_pct, five_each_pct : smallest limits that are held by one launch, by five, and by five against a
        baseline of five; see `pytest_quant.stats.runner.held_limits`.
    draws : log ratio of two sessions of one model in one process with its standard error, one of each pair.
    """

    name: str
    reference_p50_ms: float
    candidate_p50_ms: float
    processes: int
    rounds: int
    round_sd_pct: float
    autocorrelation: float
    session_sd_pct: float
    session_sd_ci: Interval
    launch_sd_pct: float
    launch_sd_ci: Interval
    half_width_pct: float
    slowdowns: tuple[SlowdownSeen, ...]
    one_pct: float
    five_pct: float
    five_each_pct: float
    draws: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One self-test of a runner.

    Attributes
    ----------
    measured_at : UTC, ISO 8601.
    backend, device : that the models ran in and on.
    asked, processes : fresh processes that were to be measured, and that were.
    gate_pct : limit at which false alarms were counted.
    alarms : processes in which unchanged code failed at that limit, for any kind of model.
    alarms_below_pct : what that proves: the largest rate that is not excluded at 95 %.
    seconds : that it took.
    identity : of the machine, see `Environment`.
    kinds : of models.
    notes : what took processor time away meanwhile, and in how many processes.
    """

    measured_at: str
    backend: str
    device: str
    asked: int
    processes: int
    gate_pct: float
    alarms: int
    alarms_below_pct: float
    seconds: float
    identity: Mapping[str, str]
    kinds: tuple[KindNoise, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> KindNoise:
        """The kind of model whose slowdowns are seen best here."""
        return min(self.kinds, key=lambda kind: kind.one_pct)

    @property
    def worst(self) -> KindNoise:
        """The kind of model whose slowdowns are seen worst here."""
        return max(self.kinds, key=lambda kind: kind.one_pct)
