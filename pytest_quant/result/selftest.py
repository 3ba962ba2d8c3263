"""What a self-test says about the noise of one runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KindNoise:
    """The noise of one kind of model: how far apart equal engines lie, and the smallest limits that this leaves.

    Attributes
    ----------
    name : ``tiny``, ``compute-bound`` or ``memory-bound``.
    session_sd_pct : standard deviation of the log ratio of two sessions of one model in one process, rounds excluded.
    launch_sd_pct : standard deviation between launches of the log speedup that each gives, all noise included.
    one_pct, five_pct, five_each_pct : smallest limits that are held by one launch, by five, and by five against a
        baseline of five; see `pytest_quant.measure.selftest.held_limits`.
    draws : log ratio of the two sessions of each launch with its standard error.
    """

    name: str
    session_sd_pct: float
    launch_sd_pct: float
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
    planned, launches : of each kind of model, to be measured and measured.
    seconds : that it took.
    identity : of the machine, see `Environment`.
    kinds : of models.
    notes : what took processor time away meanwhile, and in how many launches.
    """

    measured_at: str
    backend: str
    device: str
    planned: int
    launches: int
    seconds: float
    identity: Mapping[str, str]
    kinds: tuple[KindNoise, ...]
    notes: tuple[str, ...] = ()
