"""What becomes a baseline, and which accepted values a comparison heeds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_entry

from pytest_quant.errors import UsageError
from pytest_quant.history.baselines.acceptance import accept, choose_series, keep_accepted
from pytest_quant.history.baselines.file import NAME, AcceptedLatency, BaselineEntry, write_baselines
from pytest_quant.history.commits import find_accepted
from pytest_quant.history.rows import StoredCheck
from pytest_quant.result import Environment, LaunchFigures, Status
from tests.support.repository import ScratchRepository, make_repository
from tests.unit.record.examples import RUN, a_check, a_pass, a_record, unavailable, with_accuracy, with_latency

_NOW = datetime(2026, 3, 4, tzinfo=UTC)
_OTHER = replace(RUN, id="20260103T000000Z-other", environment=Environment({"cpu": "Another"}, {}))
_SECOND = replace(RUN, id="20260104T000000Z-second")


def _faster(speedup: float) -> StoredCheck:
    return StoredCheck(_SECOND, with_latency(a_pass(), speedup=speedup))


def test_the_values_are_those_of_the_record() -> None:
    """Score, drop and its unit, data, speedup and median with the machine, commit and run."""
    record = with_latency(a_pass(), error=0.004)
    entry = accept([StoredCheck(RUN, record)], reason="first", accepted_at=_NOW)
    assert entry is not None
    assert entry.series.text == record.series
    assert (entry.commit, entry.run, entry.reason) == (RUN.commit, RUN.id, "first")
    assert (entry.candidate_score, entry.drop, entry.unit, entry.data) == (97.5, 0.28, "%", "def456")
    launches = (LaunchFigures(RUN.started_at, 1.9475, 0.2345, 0.4567, 0.004),)
    assert entry.latency == (AcceptedLatency(dict(RUN.environment.identity), 1.9475, 0.2345, launches=launches),)


def test_every_launch_of_each_machine_is_kept() -> None:
    """Two machines give two latencies; of one machine all launches count, those of one run too, and their median."""
    checks = [StoredCheck(RUN, a_pass()), StoredCheck(_OTHER, a_pass()), _faster(2.5)]
    entry = accept(checks, reason="r", accepted_at=_NOW)
    assert entry is not None
    assert entry.run == _SECOND.id
    assert [(dict(each.identity), each.speedup) for each in entry.latency] == [
        (dict(RUN.environment.identity), (1.9475 + 2.5) / 2),
        ({"cpu": "Another"}, 1.9475),
    ]
    assert [launch.speedup for launch in entry.latency[0].launches] == [1.9475, 2.5]
    further = (LaunchFigures(RUN.started_at, 2.0, 0.25), LaunchFigures(RUN.started_at, 2.1, 0.26))
    several = with_latency(a_pass(), launches=further)
    entry = accept([StoredCheck(RUN, several)], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert [launch.speedup for launch in entry.latency[0].launches] == [1.9475, 2.0, 2.1]


def test_a_speedup_is_accepted_for_the_way_in_which_it_was_timed() -> None:
    """One machine has one for each reference that latency was compared with."""
    half = with_latency(a_pass(), reference_precision="fp16", speedup=1.25)
    entry = accept([StoredCheck(RUN, a_pass()), StoredCheck(_SECOND, half)], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert [(each.way, each.speedup) for each in entry.latency] == [((), 1.9475), (("against fp16",), 1.25)]


def test_a_timing_that_is_not_to_be_trusted_is_left_out() -> None:
    """Its accuracy is not."""
    noisy = with_latency(a_pass(), reasons=("the null is off",))
    entry = accept([StoredCheck(RUN, noisy)], reason="r", accepted_at=_NOW)
    assert entry is not None
    assert (entry.drop, entry.latency) == (0.28, ())


def test_what_a_record_lacks_stays_as_it_was_accepted() -> None:
    """Latency on each machine and in each way, and the scores with their data: a run may leave out either."""

    def entry(*checks: StoredCheck) -> BaselineEntry:
        accepted = accept(checks, reason="r", accepted_at=_NOW)
        assert accepted is not None
        return accepted

    half = with_latency(a_pass(), reference_precision="fp16", speedup=1.25)
    before = entry(StoredCheck(RUN, half), StoredCheck(_OTHER, a_pass()), StoredCheck(RUN, a_pass()))
    untimed = entry(StoredCheck(_SECOND, replace(with_accuracy(a_pass(), drop=0.1), latency=None)))
    kept = keep_accepted(untimed, before)
    assert (kept.run, kept.drop, kept.latency) == (_SECOND.id, 0.1, before.latency)
    faster = entry(_faster(2.5))
    assert [(each.way, each.speedup) for each in keep_accepted(faster, before).latency] == [
        ((), 2.5),
        (("against fp16",), 1.25),
        ((), 1.9475),
    ]
    scoreless = entry(StoredCheck(_SECOND, replace(a_pass(), accuracy=None, digests={})))
    assert (keep_accepted(scoreless, before).drop, keep_accepted(scoreless, before).data) == (0.28, "def456")
    assert keep_accepted(before, before) is before
    assert keep_accepted(faster, None) is faster


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


@pytest.fixture
def scratch(tmp_path: Path) -> ScratchRepository:
    """A repository with one commit, and no file of baselines."""
    repository = make_repository(tmp_path / "project")
    repository.commit("1")
    return repository


def _accepted(day: int = 4, commit: str = "c0ffee") -> BaselineEntry:
    check = StoredCheck(replace(RUN, commit=commit), a_pass())
    entry = accept([check], reason="r", accepted_at=datetime(2026, 3, day, tzinfo=UTC))
    assert entry is not None
    return entry


def _write(scratch: ScratchRepository, *entries: BaselineEntry, message: str = "") -> str:
    write_baselines(scratch.path / NAME, entries)
    if not message:
        return ""
    scratch.git("add", NAME)
    return scratch.commit(message)


def _side(commit: str, started_at: str = "2026-03-01T00:00:00+00:00") -> list[StoredCheck]:
    return [StoredCheck(replace(RUN, commit=commit, started_at=started_at), a_pass())]


def _heeded(scratch: ScratchRepository, base: str, head: str, **base_side: str) -> list[BaselineEntry]:
    return list(find_accepted(scratch.path, _side(base, **base_side), _side(head)).values())


def test_an_entry_that_the_base_lacks_is_heeded(scratch: ScratchRepository) -> None:
    """Committed after it, or not committed yet."""
    base = scratch.git("rev-parse", "HEAD")
    _write(scratch, _accepted())
    assert _heeded(scratch, base, base) == [_accepted()]
    head = _write(scratch, _accepted(), message="accept")
    assert _heeded(scratch, base, head) == [_accepted()]


def test_an_entry_that_the_base_has_is_no_news(scratch: ScratchRepository) -> None:
    """What was accepted before the base excuses nothing that came after it; accepted again, it does."""
    base = _write(scratch, _accepted(), message="accept")
    head = scratch.commit("2")
    assert _heeded(scratch, base, head) == []
    _write(scratch, _accepted(5))
    assert _heeded(scratch, base, head) == [_accepted(5)]


def test_the_file_is_that_of_the_head(scratch: ScratchRepository) -> None:
    """Not of what is checked out, where the head is another commit."""
    base = scratch.git("rev-parse", "HEAD")
    scratch.git("checkout", "-b", "topic")
    head = _write(scratch, _accepted(), message="accept")
    scratch.git("checkout", "main")
    assert _heeded(scratch, base, head) == [_accepted()]
    assert _heeded(scratch, base, base) == []


def test_what_the_working_tree_accepts_of_another_head_is_heeded(scratch: ScratchRepository) -> None:
    """Its records and removed tests; what it accepts of other runs came later than that head."""
    base = scratch.git("rev-parse", "HEAD")
    scratch.git("checkout", "-b", "topic")
    head = scratch.commit("2")
    scratch.git("checkout", "main")
    _write(scratch, _accepted())
    assert _heeded(scratch, base, head) == [_accepted()]
    _write(scratch, replace_entry(_accepted(), run="another"))
    assert _heeded(scratch, base, head) == []
    gone = replace_entry(_accepted(), removed=True, run=None, commit="c")
    _write(scratch, gone)
    assert _heeded(scratch, base, head) == [gone]


def test_without_the_base_in_git_its_first_run_is_the_border(scratch: ScratchRepository) -> None:
    """As in a clone of one commit; also where there is no repository."""
    head = _write(scratch, _accepted(), message="accept")
    assert _heeded(scratch, "d" * 40, head, started_at="2026-03-03T00:00:00+00:00") == [_accepted()]
    assert _heeded(scratch, "d" * 40, head, started_at="2026-03-04T12:00:00+00:00") == []
    assert _heeded(scratch, "d" * 40, head, started_at="unreadable") == []


def test_a_removal_is_heeded_whenever_it_was_accepted(scratch: ScratchRepository) -> None:
    """The base may have had records of the test all the same."""
    gone = replace_entry(_accepted(), removed=True, run=None, commit="c")
    base = _write(scratch, gone, message="accept")
    assert _heeded(scratch, base, base) == [gone]
