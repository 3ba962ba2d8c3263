"""The launches and the noise that a baseline has, from records and summaries of the last commits."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import median_abs_deviation

from pytest_quant.environment.revision import Repository
from pytest_quant.history.baselines.launch_history import (
    CANDIDATE,
    NO_NOISE_KNOWN,
    SPEEDUP,
    include_launches,
    noise_by_machine,
    shared_noise,
)
from pytest_quant.history.merge_base import points_before
from pytest_quant.history.rows import StoredCheck, launches_in
from pytest_quant.measure.interleave import Block
from pytest_quant.measure.latency_figures import latency_figures
from pytest_quant.record import build_record, from_json
from pytest_quant.result import NOTHING_KNOWN, Baseline, LaunchFigures, LaunchNoise, Status
from pytest_quant.spec import LatencyPlan
from pytest_quant.stats.launches import launch_of
from tests.support.repository import make_repository, without_ci
from tests.unit.history.in_memory import InMemory, a_point
from tests.unit.record.examples import RUN, a_measurement, a_pass, with_latency

NOTHING = Baseline("c", drop=None)


def check(day: int, speedup: float, **figures: object) -> StoredCheck:
    """One launch of a commit of its own, on a day of March."""
    run = replace(RUN, id=f"r{day}", commit=f"c{day}", started_at=f"2026-03-{day:02}T12:00:00+00:00")
    return StoredCheck(run, with_latency(a_pass(), speedup=speedup, candidate_p50_ms=1.0 / speedup, **figures))


def test_a_record_holds_its_own_launch_and_further_ones() -> None:
    """One that is not to be trusted holds none."""
    further = LaunchFigures("2026-03-01T12:10:00+00:00", 2.1, 0.4)
    first, second = launches_in(check(1, 2.0, launches=(further,), error=0.01))
    assert (first.started_at, first.speedup, first.candidate_p50_ms) == ("2026-03-01T12:00:00+00:00", 2.0, 0.5)
    assert (first.error, second) == (0.01, further)
    assert launches_in(check(1, 2.0, reasons=("null_off",))) == ()
    assert launches_in(replace(check(1, 2.0), record=replace(a_pass(), latency=None))) == ()


@pytest.mark.parametrize("sets", [(), (12, 12), (8, 8, 8)])
def test_a_launch_has_the_same_error_today_and_when_it_is_read_back(sets: tuple[int, ...]) -> None:
    """That of its rounds, in sets of sessions too, and of more rounds than a record keeps."""
    random = np.random.default_rng(len(sets))
    rounds = sum(sets) or 60
    sides = [
        [Block(1, tuple(int(1e6 * scale * value) for value in random.normal(1.0, 0.02, 3))) for _ in range(rounds)]
        for scale in (2.0, 2.0, 1.0)
    ]
    latency = latency_figures(sides, LatencyPlan(max_rounds=60), sets)
    today = launch_of(latency, RUN.started_at)
    measured = a_measurement(latency=replace(latency, reasons=()))
    encoded = build_record(measured, status=Status.PASS, verdicts=())
    (stored,) = launches_in(StoredCheck(RUN, from_json(json.loads(json.dumps(encoded.json)))))
    assert stored == today
    logs = np.log([[statistics.median(block.runs_ns) for block in side] for side in sides])
    ratios = (logs[0] + logs[1]) / 2.0 - logs[2] if sets else logs[0] - logs[2]
    scatter = np.concatenate([part - np.median(part) for part in np.split(ratios, np.cumsum(sets or rounds)[:-1])])
    assert today.error == pytest.approx(
        math.sqrt(math.pi / 2.0 / rounds) * median_abs_deviation(scatter, scale="normal")
    )


def test_a_time_that_changed_with_its_reference_begins_a_level_of_its_own() -> None:
    """Both engines doubled after eight commits: the speedup has sixteen launches, the candidate's time eight."""
    noise = [1.0, 0.99, 1.01, 1.0, 1.01, 0.99, 1.0, 1.0]
    checks = [check(day, 2.0 * each) for day, each in enumerate(noise, 1)]
    later = [check(day, 2.0 * each) for day, each in enumerate(noise, 9)]
    slower = [replace(each, record=with_latency(each.record, candidate_p50_ms=1.0)) for each in later]
    result = include_launches(NOTHING, [*checks, *slower], NO_NOISE_KNOWN)
    assert len(result.launches) == 16
    assert [launch.candidate_p50_ms for launch in result.p50_launches] == [1.0] * 8
    assert include_launches(NOTHING, [], NO_NOISE_KNOWN) == NOTHING


def test_accepted_launches_and_the_history_tell_the_noise_together() -> None:
    """And a launch that is in both counts once."""
    checks = [check(day, 2.0 * each) for day, each in enumerate((1.0, 0.99, 1.01, 1.0), 1)]
    accepted = tuple(LaunchFigures(f"2026-02-{day:02}T12:00:00+00:00", 2.0, 0.5) for day in (1, 2, 3))
    both = include_launches(replace(NOTHING, launches=accepted), checks, NO_NOISE_KNOWN)
    assert (both.speedup_noise.between.freedom, both.p50_noise.between.freedom) == (5.0, 5.0)
    assert both.launches == both.p50_launches == accepted
    of_history = replace(NOTHING, launches=tuple(launch for each in checks for launch in launches_in(each)))
    assert include_launches(of_history, checks, NO_NOISE_KNOWN).speedup_noise.between.freedom == 3.0
    alone = replace(NOTHING, launches=accepted[:1])
    assert include_launches(alone, [], NO_NOISE_KNOWN).speedup_noise == LaunchNoise()


def test_the_commits_before_one_are_its_first_parents_with_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without itself; a commit that is not here, as in a shallow clone, has none, nor has a run without one."""
    without_ci(monkeypatch)
    scratch = make_repository(tmp_path)
    commits = [scratch.commit(str(number)) for number in range(4)]
    checks = tuple(
        replace(each, run=replace(each.run, commit=commits[day]))
        for day, each in ((day, check(day + 1, 2.0)) for day in (0, 2, 3))
    )
    git = Repository(scratch.path)
    result = points_before(InMemory(checks), git, commits[3])
    assert {point.commit for point in result} == {commits[0], commits[2]}
    assert points_before(InMemory(checks), git, None) == points_before(InMemory(checks), git, "f" * 40) == []


def test_series_on_one_machine_have_their_noise_in_common() -> None:
    """Twenty series of thirty days with 1 % between them; a step in one, and another machine, change nothing."""
    random = np.random.default_rng(5)
    points = [
        a_point(day, series=f"s{series}", identity=machine, speedup=float(np.exp(random.normal(0.0, sd))) * step)
        for machine, sd in (("here", 0.01), ("there", 0.1))
        for day in range(1, 31)
        for series in range(20)
        for step in [2.0 if series == 3 and day > 15 else 1.0]
    ]
    result = noise_by_machine(points)
    here, there = (shared_noise(result[machine].values()) for machine in ("here", "there"))
    assert here[SPEEDUP].between.sd == pytest.approx(0.01, rel=0.12)
    assert there[SPEEDUP].between.sd == pytest.approx(0.1, rel=0.12)
    assert here[CANDIDATE] == NOTHING_KNOWN
    assert noise_by_machine([]) == {}
    assert shared_noise([]) == NO_NOISE_KNOWN
