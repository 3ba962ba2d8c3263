"""Which shards and tests of a commit never reported, from what its runs say; and what tests cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.history import open_store
from pytest_quant.history.rows import unpack
from pytest_quant.history.shards import Unreported, durations_s, find_unreported
from pytest_quant.history.store import Store
from pytest_quant.record import Record, Run
from pytest_quant.result import Cost, Environment
from tests.unit.record.examples import NODEID, RUN, a_pass, series_of, unavailable


def _shard(shard: str | None, *left: str, ended: bool = True, number: int = 0) -> Run:
    return replace(RUN, id=f"{shard}-{number}", shard=shard, deselected=left if ended else None)


WHOLE = (_shard("1/3", "b", "c"), _shard("2/3", "a", "c"), _shard("3/3", "a", "b"))


def test_nothing_is_missing_of_a_whole_suite() -> None:
    """A test that ran without a record, one that is skipped for example, was left out by fewer than all."""
    assert find_unreported(WHOLE, {"a"}, 3) == Unreported()
    assert not find_unreported((), ())
    assert not find_unreported((RUN,), {"a"})


def test_a_lost_shard_is_named_with_its_tests() -> None:
    """With and without a number that is expected."""
    for expected in (0, 3):
        found = find_unreported(WHOLE[1:], {"b", "c"}, expected)
        assert found == Unreported(("1/3",), ("a",))
        assert found


def test_shards_without_a_number_are_counted() -> None:
    """Where more are expected than any shard knows of, and where none reported at all."""
    assert find_unreported(WHOLE, (), 4).shards == ("1 of unknown number",)
    assert find_unreported(WHOLE[:1], (), 5).shards == ("2/3", "3/3", "2 of unknown number")
    assert find_unreported((), (), 8).shards == ("8 of unknown number",)


def test_a_shard_counts_once() -> None:
    """However often it ran; a run of another job that is no shard stands for none."""
    again = _shard("1/3", "b", "c", number=1)
    assert find_unreported((*WHOLE[:2], again), (), 3).shards == ("3/3",)
    assert find_unreported((*WHOLE[:2], _shard(None, ended=False)), (), 3).shards == ("3/3",)
    assert find_unreported((RUN,), (), 1).shards == ("1 of unknown number",)


def test_a_shard_that_did_not_end_is_missing_until_it_is_run_again() -> None:
    """Tests that it had measured are not."""
    killed = _shard("3/3", ended=False)
    left_by_two = (_shard("1/3", "b", "c", "d"), _shard("2/3", "a", "c", "d"))
    assert find_unreported((*left_by_two, killed), {"a", "b", "c"}, 3) == Unreported(("3/3",), ("d",))
    assert not find_unreported((*WHOLE[:2], killed, WHOLE[2]), (), 3)
    assert find_unreported((killed,), (), 3) == Unreported(("1/3", "2/3", "3/3"))


def test_jobs_that_are_split_apart_are_judged_apart() -> None:
    """Tests of one are not collected by the other."""
    gpu = (_shard("1/2", "y"), _shard("2/2", "x"))
    assert not find_unreported((*WHOLE, *gpu), (), 5)
    assert find_unreported((*WHOLE[1:], gpu[0]), (), 5) == Unreported(("2/2", "1/3"), ("a", "y"))


@pytest.mark.parametrize("text", ["", "3", "0/8", "3/0", "a/b", "1/99999999999", "1/8\n"])
def test_a_shard_of_another_form_is_none(text: str) -> None:
    """A document may come from anywhere."""
    assert find_unreported((_shard(text, "a"),), ()) == Unreported()


OTHER = Environment({"cpu": "Another CPU"}, {})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty history."""
    return open_store(tmp_path / "history.db")


def _record(*seconds: float, series: str = "s", nodeid: str = NODEID) -> Record:
    return replace(a_pass(), series=series_of(series), nodeid=nodeid, cost=Cost(*seconds))


def _add(store: Store, day: int, *records: Record, environment: Environment = RUN.environment) -> None:
    started_at = f"2026-03-{day:02}T00:00:00+00:00"
    store.append(replace(RUN, id=f"run-{day:02}", started_at=started_at, environment=environment), records)


def test_the_median_of_the_newest_runs_counts(store: Store) -> None:
    """The build, the evaluation and the timing together; older runs than the last five are not looked at."""
    for day in range(1, 10):
        _add(store, day, _record(1.0, 2.0, float(day)))
    assert durations_s(store) == {NODEID: 10.0}
    _add(store, 10, _record(0.0, 500.0, 0.0))
    assert durations_s(store) == {NODEID: 11.0}


def test_runs_on_another_kind_of_machine_do_not_count(store: Store) -> None:
    """The newest run says which one it is."""
    for day in (1, 2, 4):
        _add(store, day, _record(0.0, 9.0, 0.0), environment=OTHER)
    _add(store, 5, _record(0.0, 2.0, 1.0))
    assert durations_s(store) == {NODEID: 3.0}


def test_checks_of_one_run_add_up_and_those_of_two_do_not(store: Store) -> None:
    """A test whose mark has changed has another series from then on."""
    _add(store, 1, _record(0.0, 4.0, 0.0, series="old"))
    _add(store, 2, _record(0.0, 1.0, 0.0, series="new"), _record(0.0, 5.0, 0.0, series="both"))
    assert durations_s(store) == {NODEID: 5.0}


def test_what_was_not_measured_costs_nothing_known(store: Store) -> None:
    """No test costs 0: those would all go to one shard."""
    _add(store, 1, unavailable(), replace(a_pass(), nodeid="old"), _record(0.0, 0.0, 0.0, nodeid="quick", series="q"))
    assert durations_s(store) == {"quick": 0.001}


def test_only_the_newest_records_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 records of two series ten are decoded."""
    for day in range(1, 21):
        _add(store, day, _record(0.0, 1.0, 0.0), _record(0.0, 1.0, 0.0, series="other", nodeid="other"))
    decoded: list[str] = []

    def counting(packed: bytes, where: str) -> Record:
        decoded.append(where)
        return unpack(packed, where)

    monkeypatch.setattr("pytest_quant.history.store.unpack", counting)
    assert durations_s(store) == {NODEID: 1.0, "other": 1.0}
    assert len(decoded) == 10
