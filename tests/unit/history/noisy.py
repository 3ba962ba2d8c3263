"""A self-test, and runs whose nulls have a known spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_quant.record import Record, Run
from pytest_quant.result import KindNoise, SelfTest
from tests.unit.record.examples import RUN, a_record, with_latency

IDENTITY = dict(RUN.environment.identity)


def a_kind(name: str = "tiny", one_pct: float = 3.2, draws: tuple[tuple[float, float], ...] = ()) -> KindNoise:
    """A kind of model that holds `one_pct` in one launch."""
    return KindNoise(
        name=name,
        session_sd_pct=0.6,
        launch_sd_pct=0.9,
        one_pct=one_pct,
        five_pct=one_pct / 2,
        five_each_pct=one_pct / 1.5,
        draws=draws,
    )


def a_selftest(
    *kinds: KindNoise,
    measured_at: str = "2026-01-01T00:00:00+00:00",
    identity: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> SelfTest:
    """A self-test of the machine of `RUN`."""
    return SelfTest(
        measured_at=measured_at,
        backend="ort",
        device=device,
        planned=20,
        launches=20,
        seconds=300.0,
        identity=IDENTITY if identity is None else identity,
        kinds=kinds or (a_kind(), a_kind("compute-bound", 2.1), a_kind("memory-bound", 4.4)),
    )


def run_number(number: int, **changes: object) -> Run:
    """A run of the same machine, later than those with lower numbers."""
    started = f"2026-02-{1 + number // 24:02d}T{number % 24:02d}:00:00+00:00"
    return replace(RUN, id=f"run-{number:04d}", started_at=started, **changes)  # type: ignore[arg-type]


def with_null(session_log: float, *, round_sd: float = 0.002, rounds: int = 40, seed: int = 0) -> Record:
    """A record whose null took exp(`session_log`) times as long as its reference, but for noise of its rounds."""
    noise = np.random.default_rng(seed).normal(0.0, round_sd, rounds)
    times = {"reference": (1.0,) * rounds, "null": tuple(float(each) for each in np.exp(session_log + noise))}
    return with_latency(a_record(), round_p50_ms=times, rounds=rounds)
