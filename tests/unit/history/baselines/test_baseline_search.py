"""History limits judge against what was accepted, else against the merge base."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_entry

from pytest_quant.errors import HistoryError
from pytest_quant.history.baselines.baseline_search import Baselines
from pytest_quant.history.baselines.file import NAME, AcceptedLatency, write_baselines
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.store import Store
from pytest_quant.record import Run
from pytest_quant.result import NOTHING_KNOWN, Baseline, LaunchFigures, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.baseline import baseline_verdicts
from tests.support.repository import ScratchRepository
from tests.unit.history.baselines.test_file import ENTRY
from tests.unit.history.in_memory import InMemory
from tests.unit.record.examples import ACCURACY, RUN, a_pass, a_record, series_of, with_accuracy, with_latency

_HERE = dict(ENTRY.latency[0].identity)
_SERIES = ENTRY.series.text


def _accepted(root: Path) -> Baselines:
    return Baselines(root, None, _HERE)


def _run(scratch: ScratchRepository, name: str) -> Run:
    return replace(RUN, id=name, commit=scratch.git("rev-parse", "main"))


def _check(run: Run, speedup: float = 2.0, drop: float = 0.5) -> StoredCheck:
    scored = with_accuracy(a_pass(), drop=drop)
    return StoredCheck(run, with_latency(scored, speedup=speedup, candidate_p50_ms=1.0 / speedup))


def _of_merge_base(scratch: ScratchRepository, *checks: StoredCheck) -> Baseline | str:
    recorded = InMemory(checks)
    baselines = Baselines(scratch.path, lambda: recorded, RUN.environment.identity)
    return baselines.find(_SERIES, "def456")


def _why(result: Baseline | str) -> str:
    assert isinstance(result, str)
    return result


def _speedups(result: Baseline) -> list[float | None]:
    return [launch.speedup for launch in result.launches]


def test_an_accepted_entry_is_the_baseline(tmp_path: Path) -> None:
    """Its values."""
    write_baselines(tmp_path / NAME, [ENTRY])
    launches = (LaunchFigures(ENTRY.accepted_at.isoformat(), 1.9475, 0.2345),)
    expected = Baseline(ENTRY.commit, drop=4.23, launches=launches, p50_launches=launches)
    assert _accepted(tmp_path).find(_SERIES, "def456") == expected


def test_on_other_samples_an_entry_has_its_latency_alone(tmp_path: Path) -> None:
    """It says why it has no drop, and no other entry takes its place unasked."""
    write_baselines(tmp_path / NAME, [ENTRY])
    result = _accepted(tmp_path).find(_SERIES, "changed")
    assert isinstance(result, Baseline)
    why = "the accepted baseline of c0ffeec0ffee is for other evaluation data"
    assert (result.drop, result.no_drop, _speedups(result)) == (None, why, [1.9475])


def test_on_other_samples_the_merge_base_has_its_latency_alone(scratch: ScratchRepository) -> None:
    """As an accepted entry."""
    recorded = InMemory((_check(_run(scratch, "a"), 2.5),))
    result = Baselines(scratch.path, lambda: recorded, RUN.environment.identity).find(_SERIES, "changed")
    assert isinstance(result, Baseline)
    assert (result.drop, _speedups(result)) == (None, [2.5])
    assert result.no_drop.endswith("and the merge base's records are for other evaluation data")


def test_latency_of_another_machine_is_not_compared(tmp_path: Path) -> None:
    """Accuracy is."""
    write_baselines(tmp_path / NAME, [ENTRY])
    result = Baselines(tmp_path, None, _HERE | {"isa": "avx512"}).find(_SERIES, "def456")
    assert result == Baseline(ENTRY.commit, drop=4.23)


def test_a_speedup_against_another_reference_is_not_compared(tmp_path: Path) -> None:
    """Accuracy is; and one that was timed in the same way is."""
    write_baselines(tmp_path / NAME, [ENTRY])
    result = _accepted(tmp_path).find(_SERIES, "def456", way=("against fp16",))
    assert result == Baseline(ENTRY.commit, drop=4.23)
    half = AcceptedLatency(_HERE, 1.25, 0.2345, way=("against fp16",))
    write_baselines(tmp_path / NAME, [replace_entry(ENTRY, latency=(*ENTRY.latency, half))])
    result = _accepted(tmp_path).find(_SERIES, "def456", way=("against fp16",))
    assert isinstance(result, Baseline)
    assert _speedups(result) == [1.25]


def test_without_an_entry_the_merge_base_counts(scratch: ScratchRepository) -> None:
    """The launches of it here; other machines, other references and dirty runs stay out."""
    elsewhere = replace(_run(scratch, "e"), environment=replace(RUN.environment, identity={"cpu": "Another"}))
    dirty = replace(_run(scratch, "d"), dirty=True)
    half = _check(_run(scratch, "h"), 9.0)
    half = replace(half, record=with_latency(half.record, reference_precision="fp16"))
    launches = [_check(_run(scratch, name), speedup) for name, speedup in (("a", 4.0), ("b", 2.0), ("c", 2.5))]
    result = _of_merge_base(scratch, *launches, half, _check(elsewhere, 9.0), _check(dirty, 9.0))
    assert isinstance(result, Baseline)
    assert _speedups(result) == [4.0, 2.0, 2.5]
    logs = [math.log(speedup) for speedup in (4.0, 2.0, 2.5)]
    assert result.speedup_noise.within.variance == pytest.approx(statistics.variance(logs))
    assert (result.speedup_noise.within.freedom, result.speedup_noise.between.freedom) == (2.0, 0.0)
    expected = Baseline(scratch.git("rev-parse", "main"), 0.5)
    unlike = {"launches": (), "p50_launches": (), "speedup_noise": NOTHING_KNOWN, "p50_noise": NOTHING_KNOWN}
    assert replace(result, **unlike) == expected  # type: ignore[arg-type]


def test_a_removed_test_that_is_back_has_no_entry(scratch: ScratchRepository) -> None:
    """What was accepted was that it is gone."""
    gone = replace_entry(ENTRY, removed=True, latency=(), drop=None)
    write_baselines(scratch.path / NAME, [gone])
    assert isinstance(_of_merge_base(scratch, _check(_run(scratch, "a"))), Baseline)


def test_a_regressed_record_of_the_merge_base_is_no_baseline(scratch: ScratchRepository) -> None:
    """Or each further loss would be measured from the one before."""
    run = _run(scratch, "a")
    assert "within its limits" in _why(_of_merge_base(scratch, StoredCheck(run, a_record())))
    errored = StoredCheck(run, replace(_check(run).record, status=Status.ERROR))
    assert "within its limits" in _why(_of_merge_base(scratch, errored))
    result = _of_merge_base(scratch, _check(run, 3.0), errored)
    assert isinstance(result, Baseline)
    assert _speedups(result) == [3.0]


def _passes(run: Run, engine: str = "abc123", status: Status = Status.INCONCLUSIVE) -> tuple[StoredCheck, ...]:
    """Both passes over the commit of `run`, the second one here, with the engine of this digest."""
    record, other = _check(run).record, replace(run.environment, identity={"cpu": "Another"})
    limit = Verdict("max_drop", 1.0, 0.5, status, "found")
    first = replace(record, latency=None, latency_off="off", status=status, verdicts=(limit,))
    second = replace(record, accuracy=None, accuracy_off="off", status=Status.INCONCLUSIVE, verdicts=())
    second = replace(second, digests={**record.digests, "engine": engine})
    return StoredCheck(replace(run, id=f"{run.id}-1", environment=other), first), StoredCheck(run, second)


@pytest.mark.parametrize("engine", ["abc123", "another"])
def test_two_passes_of_the_merge_base_are_a_baseline(scratch: ScratchRepository, engine: str) -> None:
    """The drop of the first, and the launches of the second, also where they are not joined."""
    result = _of_merge_base(scratch, *_passes(_run(scratch, "a"), engine))
    assert isinstance(result, Baseline)
    assert (result.drop, [launch.speedup for launch in result.launches]) == (0.5, [2.0])


def test_two_passes_of_which_one_failed_are_no_baseline(scratch: ScratchRepository) -> None:
    """Of the merge base and of the commits below it: one limit that is broken is a broken check."""
    good = replace(_run(scratch, "good"), commit=scratch.git("rev-parse", "main"))
    scratch.git("checkout", "main")
    bad, worst = (replace(_run(scratch, name), commit=scratch.commit(name)) for name in ("bad", "worst"))
    scratch.git("checkout", "-b", "later")
    scratch.commit("later")
    failed = (*_passes(bad, status=Status.FAIL), *_passes(worst, status=Status.FAIL))
    result = _of_merge_base(scratch, *_passes(good), *failed)
    assert isinstance(result, Baseline)
    assert (result.commit, len(result.launches)) == (good.commit, 1)


@pytest.mark.parametrize("status", [Status.FAIL, Status.ERROR, Status.UNAVAILABLE, None])
def test_a_red_merge_base_gives_way_to_the_nearest_usable_commit(
    scratch: ScratchRepository, status: Status | None
) -> None:
    """The limit stays on, and the verdict's reason tells what the merge base was and which commit is used."""
    first = replace(_run(scratch, "first"), commit=scratch.git("rev-parse", "main"))
    scratch.git("checkout", "main")
    second = replace(_run(scratch, "second"), commit=scratch.commit("also good"))
    red = replace(_run(scratch, "red"), commit=scratch.commit("red"))
    other = replace(_check(red).record, series=series_of("another"))
    at_base = StoredCheck(red, other if status is None else replace(_check(red).record, status=status))
    scratch.git("checkout", "-b", "later")
    scratch.commit("later")
    result = _of_merge_base(scratch, _check(first, drop=0.1), _check(second, drop=0.4), at_base)
    assert isinstance(result, Baseline)
    assert (result.commit, result.drop) == (second.commit, 0.4)
    merge_base = f"{(red.commit or '')[:12]} (merge base with main)"
    why = f"{merge_base} has no record of the test" if status is None else f"the test is {status.value} at {merge_base}"
    assert result.note == f"{why}, so that {(second.commit or '')[:12]} below it is the base"
    accuracy = replace(ACCURACY, drop=2.0)
    (verdict,) = baseline_verdicts(Limits(max_drop_increase=1.0), accuracy, None, result)
    assert verdict.status is Status.FAIL
    assert verdict.reason.endswith(result.note)


def test_nothing_to_compare_with_says_why(scratch: ScratchRepository, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No records, no history, no repository, a history that is damaged: each in its own words."""
    assert "there are no records of" in _why(_of_merge_base(scratch))
    assert "the history is turned off" in _why(_accepted(scratch.path).find(_SERIES, None))

    def broken() -> Store:
        raise HistoryError("the history x cannot be opened", value="file is not a database")

    no_repository = "there is no git repository: make one, git init, with a first commit, and run again"
    assert _why(Baselines(tmp_path_factory.mktemp("outside"), broken, _HERE).find(_SERIES, None)).endswith(
        no_repository
    )
    baselines = Baselines(scratch.path, broken, _HERE)
    assert "the history x cannot be opened: file is not a database" in _why(baselines.find(_SERIES, None))


def test_the_history_is_read_once(scratch: ScratchRepository) -> None:
    """A suite of many checks asks git and the database as often as one of a single check."""
    opened: list[int] = []

    def open_history() -> Store:
        opened.append(1)
        return InMemory((_check(_run(scratch, "a")),))

    baselines = Baselines(scratch.path, open_history, RUN.environment.identity)
    first = baselines.find(_SERIES, None)
    assert baselines.find(_SERIES, None) == first
    assert len(opened) == 1


def _line(scratch: ScratchRepository, speedups: Sequence[float], started: str = "2026-03-{:02}T12:00:00") -> Baseline:
    """The baseline after commits on ``main``, one launch of each on a day of its own, with the branch on its last."""
    scratch.git("checkout", "main")
    checks = []
    for day, speedup in enumerate(speedups, 1):
        commit = scratch.commit(f"m{day}")
        run = replace(RUN, id=f"r{day}", commit=commit, started_at=started.format(day))
        checks.append(_check(run, speedup))
    scratch.git("checkout", "-b", "next")
    scratch.commit("n")
    result = _of_merge_base(scratch, *checks)
    assert isinstance(result, Baseline)
    return result


def test_the_launches_since_the_last_change_are_the_base(scratch: ScratchRepository) -> None:
    """Eight commits around 2, then eight around 3: one commit is not the base, nor are those of another level."""
    noise = [1.0, 0.99, 1.01, 1.0, 1.01, 0.99, 1.0, 1.0]
    result = _line(scratch, [*(2.0 * each for each in noise), *(3.0 * each for each in noise)])
    assert _speedups(result) == [3.0 * each for each in noise]
    assert [launch.candidate_p50_ms for launch in result.p50_launches] == [1.0 / (3.0 * each) for each in noise]
    spread = statistics.variance([math.log(each) for each in noise])
    assert result.speedup_noise.between.variance == pytest.approx(spread)
    assert result.speedup_noise.between.freedom == 14.0


def test_launches_are_read_only_where_a_limit_needs_them(scratch: ScratchRepository) -> None:
    """A limit on the drop alone is judged without them, and an accepted drop without the history."""
    recorded = InMemory((_check(_run(scratch, "a")),))
    baselines = Baselines(scratch.path, lambda: recorded, RUN.environment.identity)
    result = baselines.find(_SERIES, "def456", on_latency=False)
    assert isinstance(result, Baseline)
    assert (result.drop, result.launches) == (0.5, ())
    write_baselines(scratch.path / NAME, [ENTRY])

    def unread() -> Store:
        raise AssertionError

    accepted = Baselines(scratch.path, unread, _HERE).find(_SERIES, "def456", on_latency=False)
    assert isinstance(accepted, Baseline)
    assert accepted.drop == 4.23


def _scores(run: Run, score: float, name: str, **more: object) -> StoredCheck:
    """A record of scores that were given, with the digest of the candidate's."""
    record = with_accuracy(a_pass(), candidate=score, candidate_runs=1, reference_runs=1, varies=True, **more)
    return StoredCheck(run, replace(record, digests={**record.digests, "candidate scores": name}))


def test_the_noise_between_runs_is_that_of_earlier_records(scratch: ScratchRepository) -> None:
    """Runs of one record, and single ones of one commit that differ; a record of the same scores is no further run."""
    first, second, third = (_run(scratch, name) for name in ("1", "2", "3"))
    single = [_scores(first, 70.0, "a"), _scores(second, 72.0, "b"), _scores(third, 72.0, "b")]
    several = _scores(third, 71.0, "c", run_sd=0.5)
    several = StoredCheck(third, with_accuracy(several.record, reference_runs=3, candidate_runs=3))
    other = _scores(first, 10.0, "d")
    other = StoredCheck(first, replace(other.record, digests={**other.record.digests, "data": "another set"}))
    recorded = InMemory((*single, several, other))
    baseline = Baselines(scratch.path, lambda: recorded, _HERE).find(_SERIES, "def456", on_latency=False, answers=True)
    assert isinstance(baseline, Baseline)
    assert baseline.run_freedom == 1 + 4
    assert baseline.run_sd == pytest.approx(math.sqrt((2 * 1.0**2 + 4 * 0.5**2) / 5))
    assert baseline.accuracy is not None
    assert baseline.accuracy.candidate == 71.0
