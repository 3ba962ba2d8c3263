"""Old runs lose the times of single rounds and nothing else."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.history import open_store, writing
from pytest_quant.history.rows import unpack
from pytest_quant.history.writing import prune, thin_record
from pytest_quant.record import Record, Run
from pytest_quant.result import LatencyFigures
from tests.unit.record.examples import RUN, a_record, unavailable, with_latency


def _with_rounds(count: int = 40) -> Record:
    """A record whose first measurement broke a limit, with so many rounds of each engine twice."""
    draw = random.Random(0)  # noqa: S311 - figures that deflate as badly as real ones
    rounds = {name: tuple(round(draw.random(), 4) for _ in range(count)) for name in ("reference", "null", "candidate")}
    timed = with_latency(a_record(), round_p50_ms=rounds)
    return with_latency(timed, repeat=timed.latency)


def _run(day: int) -> Run:
    return replace(RUN, id=f"run-{day}", started_at=f"2026-01-{day:02}T12:00:00+00:00")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Four days with a run each."""
    place = tmp_path / "history.db"
    store = open_store(place)
    for day in (1, 2, 3, 4):
        store.append(_run(day), [_with_rounds(), unavailable()])
    return place


def _days_with_rounds(place: Path) -> list[int]:
    store = open_store(place)
    return [day for day in (1, 2, 3, 4) if store.records(f"run-{day}")[0] == _with_rounds()]


def test_every_other_figure_stays() -> None:
    """Of the repetition too; a record without latency is left as it is."""
    full, thin = _with_rounds(), thin_record(_with_rounds())
    assert isinstance(full.latency, LatencyFigures)
    assert isinstance(thin.latency, LatencyFigures)
    assert thin.latency.repeat == replace(full.latency, repeat=None, round_p50_ms={})
    assert replace(thin, latency=full.latency) == full
    assert thin_record(unavailable()) == unavailable()


def test_the_newest_runs_are_kept_whole(place: Path) -> None:
    """By when they started; the others hold the thinned record."""
    assert prune(open_store(place), keep_runs=3)[:2] == (1, 1)
    assert _days_with_rounds(place) == [2, 3, 4]
    assert open_store(place).records("run-1") == [thin_record(_with_rounds()), unavailable()]


def test_a_dry_run_tells_and_changes_nothing(place: Path) -> None:
    """The same figures as the run that follows it; a third has nothing left to do."""
    before = place.read_bytes()
    result = prune(open_store(place), keep_runs=0, dry_run=True)
    assert place.read_bytes() == before
    assert _days_with_rounds(place) == [1, 2, 3, 4]
    assert prune(open_store(place), keep_runs=0) == result
    assert result[:2] == (4, 4)
    assert prune(open_store(place), keep_runs=0) == (0, 0, 0)


def test_a_prune_goes_on_where_the_last_one_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that it has thinned are whole, are not read again, and the others follow, with those that came since."""

    def broken(stored: bytes, where: str) -> Record:
        if "run-2" in where:
            raise KeyboardInterrupt
        return unpack(stored, where)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "unpack", broken)
        with pytest.raises(KeyboardInterrupt):
            prune(open_store(place), keep_runs=0)
    assert _days_with_rounds(place) == [1, 2]
    open_store(place).append(_run(5), [_with_rounds(), unavailable()])
    assert prune(open_store(place), keep_runs=0)[:2] == (3, 3)
    assert _days_with_rounds(place) == []
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE quant_records SET record = 'damaged'")
        connection.commit()
    assert prune(open_store(place), keep_runs=0) == (0, 0, 0)


def test_summaries_do_not_change(place: Path) -> None:
    """What lists and lines of points show is the same before and after."""
    store = open_store(place)
    before = [(store.series(), store.runs(), [store.points(each.key) for each in store.series()])]
    prune(open_store(place), keep_runs=0)
    assert [(store.series(), store.runs(), [store.points(each.key) for each in store.series()])] == before
