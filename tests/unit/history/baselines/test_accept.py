"""Only what was clean and within its limits becomes a baseline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.history import StoredCheck
from pytest_quant.history.baselines.accept import accept, choose_series
from pytest_quant.history.baselines.file import AcceptedLatency
from pytest_quant.result import Environment, LaunchFigures, Status
from tests.unit.record.examples import RUN, a_check, a_pass, a_record, unavailable

_NOW = datetime(2026, 3, 4, tzinfo=UTC)
_OTHER = replace(RUN, id="20260103T000000Z-other", environment=Environment({"cpu": "Another"}, {}))
_SECOND = replace(RUN, id="20260104T000000Z-second")


def _faster(speedup: float) -> StoredCheck:
    record = a_pass()
    assert record.latency is not None
    return StoredCheck(_SECOND, replace(record, latency=replace(record.latency, speedup=speedup)))


def test_the_values_are_those_of_the_record() -> None:
    """Score, drop and its unit, data, speedup and median with the machine, commit and run."""
    record = a_pass()
    entry = accept([StoredCheck(RUN, record)], reason="first", accepted_at=_NOW)
    assert entry is not None
    assert entry.series.key == record.series
    assert (entry.commit, entry.run, entry.reason) == (RUN.commit, RUN.id, "first")
    assert (entry.candidate_score, entry.drop, entry.unit, entry.data) == (97.5, 0.28, "%", "def456")
    launches = (LaunchFigures(RUN.started_at, 1.9475, 0.2345, 0.4567, 0.0),)
    assert entry.latency == (AcceptedLatency(dict(RUN.environment.identity), 1.9475, 0.2345, launches=launches),)


def test_every_launch_of_each_machine_is_kept() -> None:
    """Two machines give two latencies; of one machine all launches count, those of one run too, and their median."""
    checks = [StoredCheck(RUN, a_pass()), StoredCheck(_OTHER, a_pass()), _faster(2.5)]
    entry = accept(checks, reason="r", accepted_at=_NOW)
    assert entry is not None
    assert entry.run == _SECOND.id
    assert [(dict(one.identity), one.speedup) for one in entry.latency] == [
        (dict(RUN.environment.identity), (1.9475 + 2.5) / 2),
        ({"cpu": "Another"}, 1.9475),
    ]
    assert [launch.speedup for launch in entry.latency[0].launches] == [1.9475, 2.5]
    record = a_pass()
    assert record.latency is not None
    further = (LaunchFigures(RUN.started_at, 2.0, 0.25), LaunchFigures(RUN.started_at, 2.1, 0.26))
    several = StoredCheck(RUN, replace(record, latency=replace(record.latency, launches=further)))
    entry = accept([several], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert [launch.speedup for launch in entry.latency[0].launches] == [1.9475, 2.0, 2.1]


def test_a_speedup_is_accepted_for_the_way_in_which_it_was_timed() -> None:
    """One machine has one for each reference that latency was compared with."""
    record = a_pass()
    assert record.latency is not None
    half = replace(record, latency=replace(record.latency, reference_precision="fp16", speedup=1.25))
    entry = accept([StoredCheck(RUN, record), StoredCheck(_SECOND, half)], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert [(one.way, one.speedup) for one in entry.latency] == [((), 1.9475), (("against fp16",), 1.25)]


def test_a_timing_that_is_not_to_be_trusted_is_left_out() -> None:
    """Its accuracy is not."""
    record = a_pass()
    assert record.latency is not None
    noisy = replace(record, latency=replace(record.latency, reasons=("the null is off",)))
    entry = accept([StoredCheck(RUN, noisy)], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert (entry.drop, entry.latency) == (0.28, ())


@pytest.mark.parametrize("status", [Status.FAIL, Status.ERROR])
def test_a_regressed_record_never_becomes_a_baseline(status: Status) -> None:
    """Whatever earlier launches said; the broken limit is named."""
    checks = [StoredCheck(RUN, a_pass()), StoredCheck(_SECOND, replace(a_record(), status=status))]
    with pytest.raises(UsageError, match=f"(?s)is {status.value} never becomes.*max_drop: 4.23 pp is above 1.0 pp"):
        accept(checks, reason="r", accepted_at=_NOW)


def test_a_dirty_run_never_becomes_a_baseline() -> None:
    """Nobody could build it again; neither without a commit."""
    with pytest.raises(UsageError, match="not committed"):
        accept([StoredCheck(replace(RUN, dirty=True), a_pass())], reason="r", accepted_at=_NOW)
    with pytest.raises(UsageError, match="without a commit"):
        accept([StoredCheck(replace(RUN, commit=None), a_pass())], reason="r", accepted_at=_NOW)


def test_what_was_not_measured_is_nothing_to_accept() -> None:
    """A runtime that is missing on one machine does not hide the record of another."""
    assert accept([StoredCheck(RUN, unavailable())], reason="r", accepted_at=_NOW) is None
    checks = [StoredCheck(RUN, a_pass()), StoredCheck(_SECOND, replace(a_pass(), status=Status.UNAVAILABLE))]
    entry = accept(checks, reason="r", accepted_at=_NOW)
    assert entry is not None
    assert entry.run == RUN.id


def test_series_are_chosen_by_a_part_of_their_name() -> None:
    """All of them without a text; each text must be in one."""
    ort, trt = a_record().series, a_record(a_check(backend="trt")).series
    assert choose_series([ort, trt], []) == [ort, trt]
    assert choose_series([ort, trt], ["trt-int8"]) == [trt]
    assert choose_series([ort, trt], [ort]) == [ort]
    assert choose_series([ort, trt], ["digits", "trt"]) == [ort, trt]
    with pytest.raises(
        UsageError, match=r"(?s)no series 'tests/test_digist.py::test_int8 digits ort-int8.*did you mean"
    ):
        choose_series([ort, trt], ["tests/test_digist.py::test_int8 digits ort-int8-static batch 1"])
