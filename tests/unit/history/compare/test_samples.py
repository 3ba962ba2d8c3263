"""Records of different evaluation data are compared on the samples that both have."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_quant.errors import HistoryError
from pytest_quant.history.compare import Comparison, Outcome, compare
from pytest_quant.history.compare.accuracy import drop_on
from pytest_quant.history.compare.samples import LEAST_SHARE, overlap
from pytest_quant.history.rows import StoredCheck
from pytest_quant.record import encoded, run_from_json, run_to_json, to_json
from pytest_quant.record.kept_samples import MOST_SAMPLES, pack_samples, unpack_samples
from pytest_quant.record.run import gather_samples
from pytest_quant.result import Better
from tests.unit.history.compare.launched import answered, launch, packed, record_of, row
from tests.unit.record.examples import RUN


def hashes(samples: Sequence[int]) -> array[int]:
    """64-bit hashes of samples known by a small number; only their first half is kept."""
    return array("Q", [(1 + sample) * 0x9E3779B97F4A7C15 % 2**64 for sample in samples])


def checked(samples: Sequence[int], wrong: set[int], commit: str, better: Better = "higher") -> StoredCheck:
    """A check of these samples whose candidate misses `wrong`, as a history gives it back."""
    record = answered(record_of(), [sample not in wrong for sample in samples], better)
    assert record.accuracy is not None
    everything = packed([True] * len(samples))
    record = replace(
        record,
        accuracy=replace(record.accuracy, reference_correct=everything),
        digests={"data": str(list(samples))},
        samples=pack_samples(hashes(samples)),
    )
    run, records = gather_samples(RUN, [encoded(record)])
    ((stored, (only,)),) = [run_from_json(run_to_json(run, records))]
    (found,) = launch(only, commit=commit)
    return StoredCheck(replace(found.run, samples=stored.samples), only)


def compared(base: StoredCheck, head: StoredCheck) -> Comparison:
    """Compare two checks."""
    return compare([base], [head])


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.sets(st.integers(0, 60)),
    st.sets(st.integers(0, 60)),
    st.sampled_from(["higher", "lower"]),
)
def test_lost_and_won_are_counted_on_the_common_samples(
    before: list[int], after: list[int], missed: set[int], missing: set[int], better: Better
) -> None:
    """Counts, change and p are those of the multiset that both hold; with too little of it nothing is compared."""
    assume(before != after)
    found = compared(checked(before, missed, "base", better), checked(after, missing, "head", better))
    common = Counter(before) & Counter(after)
    n = common.total()
    if n < LEAST_SHARE * min(len(before), len(after)) or n == 0:
        assert "accuracy" not in {one.quantity for one in found.rows}
        assert [one.what for one in found.reversioned] == ["evaluation data"]
        return
    lost = sum(count for sample, count in common.items() if sample in missing - missed)
    won = sum(count for sample, count in common.items() if sample in missed - missing)
    shown = row(found, "accuracy")
    assert (shown.lost, shown.won, shown.n) == (lost, won, n)
    sign = 1.0 if better == "higher" else -1.0
    assert shown.change == pytest.approx(sign * 100.0 * (won - lost) / n)
    assert shown.p == pytest.approx(scipy_stats.binomtest(lost, lost + won).pvalue if lost + won else None)
    assert isinstance(shown.base, float)
    assert isinstance(shown.head, float)
    assert shown.head - shown.base == pytest.approx(shown.change)


def test_fewer_calibration_samples_leave_a_comparison() -> None:
    """898 and 960 samples share 880; 30 of these lost are a regression, and both counts are told."""
    base = checked(range(898), set(), "base")
    head = checked([*range(18, 898), *range(1000, 1080)], {*range(20, 50), *range(1000, 1040)}, "head")
    found = compared(base, head)
    shown = row(found, "accuracy")
    assert shown.outcome is Outcome.REGRESSION
    assert (shown.lost, shown.won, shown.n, shown.base) == (30, 0, 880, 100.0)
    assert shown.change == pytest.approx(-100 * 30 / 880)
    assert shown.notes == (
        "compared on the 880 samples that both have, of 898 and 960",
        "drop on them: 0 -> 3.409 pp",
    )
    assert found.reversioned == ()
    assert found.notes == (
        "tests/test_digits.py::test_int8 ort-int8-static: other evaluation data, "
        "compared on the 880 samples that both have, of 898 and 960",
    )


def test_the_same_data_is_compared_as_a_whole() -> None:
    """Every sample is in both, and nothing is told of it."""
    shown = row(compared(checked(range(50), {3}, "base"), checked(range(50), {3, 9}, "head")), "accuracy")
    assert (shown.lost, shown.n, shown.notes) == (1, 50, ())


def test_a_sample_is_paired_as_often_as_both_hold_it() -> None:
    """Three times here, each place once."""
    found = overlap(checked([7, 7, 8, 7, 7], set(), "base"), checked([9, 7, 7, 7], set(), "head"))
    assert found is not None
    assert (found.base, found.head) == ((0, 1, 3), (1, 2, 3))


def test_a_drop_on_some_samples_needs_the_answers_of_both_engines() -> None:
    """One wrong of the two that are asked about is 50 points; without the reference's answers there is no drop."""
    found = checked(range(8), {3}, "base").record.accuracy
    assert found is not None
    assert drop_on(found, "t", (2, 3)) == pytest.approx(50.0)
    assert drop_on(found, "t", ()) is None
    assert drop_on(replace(found, reference_correct=None), "t", (2, 3)) is None
    assert drop_on(replace(found, candidate_correct=None), "t", (2, 3)) is None


def test_records_without_digests_are_not_compared() -> None:
    """Those of before, and those of sets too large to keep them."""
    base, head = checked(range(50), set(), "base"), checked(range(1, 51), set(), "head")
    assert overlap(base, head) is not None
    old = StoredCheck(replace(base.run, samples={}), base.record)
    assert [one.what for one in compared(old, head).reversioned] == ["evaluation data"]
    assert pack_samples(hashes(range(MOST_SAMPLES))) is not None
    assert pack_samples(hashes(range(MOST_SAMPLES + 1))) is None


def test_a_score_of_the_whole_set_is_not_compared_on_a_part_of_it() -> None:
    """Size and status are compared all the same."""
    base, head = checked(range(50), set(), "base"), checked(range(1, 51), set(), "head")
    pairs = []
    for one in (base, head):
        assert one.record.accuracy is not None
        accuracy = replace(one.record.accuracy, candidate_correct=None, reference_correct=None)
        pairs.append(StoredCheck(one.run, replace(one.record, accuracy=accuracy)))
    found = compared(pairs[0], pairs[1])
    assert [one.what for one in found.reversioned] == ["evaluation data"]
    assert "accuracy" not in {one.quantity for one in found.rows}
    assert row(found, "size").outcome is Outcome.UNCHANGED


def test_another_metric_is_not_compared_whatever_the_samples() -> None:
    """Its right answers are others."""
    base, head = checked(range(50), set(), "base"), checked(range(1, 51), set(), "head", "lower")
    assert len(compared(base, head).reversioned) == 1


def test_samples_are_kept_once_for_each_data() -> None:
    """However many checks share them; a record in a history holds none."""
    records = [checked(range(50), set(), "base").record, checked(range(7), set(), "base").record] * 3
    brought = [
        replace(record, samples=pack_samples(hashes(range(record.accuracy.n)))) for record in records if record.accuracy
    ]
    run, kept = gather_samples(RUN, [encoded(one) for one in brought])
    assert len(run.samples) == 2
    assert {one.record.samples for one in kept} == {None}
    assert [one.json for one in kept] == [to_json(one.record) for one in kept]
    assert len(unpack_samples(run, kept[1].record)) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["AAAA", "not base64"])
def test_damaged_digests_are_an_error(text: str) -> None:
    """They would pair samples that are not the same."""
    base, head = checked(range(50), set(), "base"), checked(range(1, 51), set(), "head")
    broken = StoredCheck(replace(base.run, samples=dict.fromkeys(base.run.samples, text)), base.record)
    with pytest.raises(HistoryError, match="damaged"):
        compared(broken, head)
