"""Which shards and tests of a commit never reported, from what its runs say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history.shards import Unreported, find_unreported
from pytest_quant.record import Run
from tests.unit.record.examples import RUN


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
