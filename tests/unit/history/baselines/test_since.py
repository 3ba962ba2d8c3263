"""A comparison heeds what was accepted after the base and up to the head."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_entry

from pytest_quant.history import StoredCheck
from pytest_quant.history.baselines.accept import accept
from pytest_quant.history.baselines.file import NAME, BaselineEntry, write_baselines
from pytest_quant.history.baselines.since import accepted_since
from tests.support.repository import ScratchRepository, make_repository
from tests.unit.record.examples import RUN, a_pass

_TODAY = date(2026, 3, 5)


@pytest.fixture
def scratch(tmp_path: Path) -> ScratchRepository:
    """A repository with one commit, and no file of baselines."""
    made = make_repository(tmp_path / "project")
    made.commit("1")
    return made


def _accepted(day: int = 4, commit: str = "c0ffee") -> BaselineEntry:
    check = StoredCheck(replace(RUN, commit=commit), a_pass())
    made = accept([check], reason="r", accepted_at=datetime(2026, 3, day, tzinfo=UTC))
    assert made is not None
    return made


def _write(scratch: ScratchRepository, *entries: BaselineEntry, message: str = "") -> str:
    write_baselines(scratch.path / NAME, entries)
    if not message:
        return ""
    scratch.git("add", NAME)
    return scratch.commit(message)


def _side(commit: str, started_at: str = "2026-03-01T00:00:00+00:00") -> list[StoredCheck]:
    return [StoredCheck(replace(RUN, commit=commit, started_at=started_at), a_pass())]


def _heeded(scratch: ScratchRepository, base: str, head: str, **base_side: str) -> list[BaselineEntry]:
    return list(accepted_since(scratch.path, _side(base, **base_side), _side(head), _TODAY).values())


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


def test_an_entry_that_expired_is_not_heeded(scratch: ScratchRepository) -> None:
    """The day after its last one."""
    base = scratch.git("rev-parse", "HEAD")
    for last, number in ((date(2026, 3, 4), 0), (_TODAY, 1)):
        _write(scratch, replace_entry(_accepted(), expires=last))
        assert len(_heeded(scratch, base, base)) == number


def test_a_removal_is_heeded_whenever_it_was_accepted(scratch: ScratchRepository) -> None:
    """The base may have had records of the test all the same."""
    gone = replace_entry(_accepted(), removed=True, run=None, commit="c")
    base = _write(scratch, gone, message="accept")
    assert _heeded(scratch, base, base) == [gone]
