"""The baseline of a check for the limits against earlier records: the accepted one, else the merge base's records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import Committed, Repository, find_checkout, git_state
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import missing_libraries
from pytest_quant.history.baselines.file import NAME, BaselineEntry, read_baselines
from pytest_quant.history.baselines.launch_history import LatencyNoise, include_launches, noise_by_machine, shared_noise
from pytest_quant.history.merge_base import line_below, records_of, select_base, select_recorded
from pytest_quant.history.rows import StoredCheck, identity_of, way_of_timing
from pytest_quant.history.two_passes import join_passes
from pytest_quant.result import AccuracyResult, Baseline, LaunchFigures, Status

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

_NOT_ACCEPTED = "no record of this series was accepted"
_NO_REPOSITORY = "there is no git repository: make one, git init, with a first commit, and run again"

# A regressed record is never a baseline, or each further loss would be measured from the one before.
_NEVER_A_BASE = (Status.FAIL, Status.ERROR, Status.UNAVAILABLE)


class Baselines:
    """The baselines of one run, read when the first limit needs them.

    Parameters
    ----------
    root : the project's folder, which contains the file of baselines.
    open_history : opens the history; ``None`` when it is turned off.
    identity : of this machine, see `Environment`.
    """

    def __init__(self, root: Path, open_history: Callable[[], Store] | None, identity: Mapping[str, str]) -> None:
        self._root = root
        self._open_history = open_history
        self._identity = dict(identity)

    def find(
        self,
        series: str,
        data: str | None,
        *,
        way: tuple[str, ...] = (),
        started_at: str = "",
        on_latency: bool = True,
        answers: bool = False,
    ) -> Baseline | str:
        """Return the baseline of a check, or the reason why there is none.

        Parameters
        ----------
        series : key of the check's series.
        data : digest of its evaluation data; ``None`` accepts records of any data.
        way : how its latency was measured, see `pytest_quant.history.rows.way_of_timing`.
        started_at : time of that, ISO 8601 in UTC.
        on_latency : a limit needs the launches of the baseline, which take longer to read than one drop.
        answers : the scores of single samples are needed, and the noise between runs of them.

        Raises
        ------
        HistoryError : the file of baselines is damaged; the message names the line.
        """
        entry = self._entries.get(series)
        if entry is None or entry.removed:
            baseline = self._find_at_commits(series, data)
        else:
            baseline = self._accepted(entry, data, way)
            on_latency = on_latency and bool(baseline.launches)
        if isinstance(baseline, Baseline) and answers:
            baseline = self._add_answers(baseline, series, data)
        if isinstance(baseline, str) or not on_latency:
            return baseline
        timed = self._find_earlier_timings(series, way)
        here = self._noises.get(identity_of(timed[-1].run, timed[-1].record), {}) if timed else {}
        return replace(include_launches(baseline, timed, shared_noise(here.values())), now=started_at)

    @cached_property
    def _entries(self) -> Mapping[str, BaselineEntry]:
        return read_baselines(self._root / NAME)

    def _accepted(self, entry: BaselineEntry, data: str | None, way: tuple[str, ...]) -> Baseline:
        """Return the baseline of an entry, with the accepted launches on this machine."""
        here = [figures for figures in entry.latency if dict(figures.identity) == self._identity and figures.way == way]
        baseline = Baseline(entry.commit, entry.drop, accuracy=_accepted_accuracy(entry))
        if entry.data is not None and data is not None and entry.data != data:
            why = f"the accepted baseline of {entry.commit[:12]} is for other evaluation data"
            baseline = Baseline(entry.commit, no_drop=why)
        if not here:
            return baseline
        latency = here[-1]
        single = LaunchFigures(entry.accepted_at.isoformat(), latency.speedup, latency.candidate_p50_ms)
        return replace(baseline, launches=latency.launches or (single,))

    def _find_at_commits(self, series: str, data: str | None) -> Baseline | str:
        """Return the baseline of the merge base, or of the nearest commit below it that has a usable record."""
        base = self._merge_base
        checks = [check for check in base.checks if check.record.series == series]
        first = _join_launches(checks, data, base.why)
        if base.recorded is None or any(check.record.status not in _NEVER_A_BASE for check in checks):
            return first
        try:
            below = join_passes(base.recorded.launches(*base.commits, series=series))
        except HistoryError as error:
            return f"{base.why}, and {error.what}"
        for commit in base.reach:
            here = [check for check in below if {check.run.commit, check.run.tree}.intersection(commit.ids)]
            baseline = _join_launches(here, data, base.why)
            if isinstance(baseline, Baseline):
                statuses = " and ".join(sorted({check.record.status.value for check in checks}))
                why = f"the test is {statuses} at {base.name}" if statuses else f"{base.name} has no record of the test"
                return replace(baseline, note=f"{why}, so that {commit.id[:12]} below it is the base")
        return first

    def _add_answers(self, baseline: Baseline, series: str, data: str | None) -> Baseline:
        """Return a baseline with what the history has of its scores; a history that cannot be read has nothing."""
        alike = [
            check
            for check in self._launches(series, baseline.commit)
            if check.record.status not in _NEVER_A_BASE and check.record.digests.get("data") == data
        ]
        own = [check.record.accuracy for check in alike if baseline.commit in (check.run.commit, check.run.tree)]
        run_sd, freedom = _run_noise(alike)
        return replace(baseline, accuracy=own[-1] if own else baseline.accuracy, run_sd=run_sd, run_freedom=freedom)

    def _launches(self, series: str, *more: str) -> list[StoredCheck]:
        """Return the records of a series of the last commits, and of `more`; none if the history cannot be read."""
        base = self._merge_base
        # A damaged record of an earlier commit: with less known the interval is wider, and never a wrong verdict.
        with suppress(HistoryError):
            return [] if base.recorded is None else base.recorded.launches(*base.commits, *more, series=series)
        return []

    def _find_earlier_timings(self, series: str, way: tuple[str, ...]) -> list[StoredCheck]:
        """Return the sound records of a series of the last commits on this machine, timed in this way, oldest first."""
        return [
            check
            for check in join_passes(self._launches(series))
            if check.record.status not in _NEVER_A_BASE
            and dict(check.run.environment.identity) == self._identity
            and check.record.latency is not None
            and way_of_timing(check.record.latency) == way
        ]

    @cached_property
    def _noises(self) -> Mapping[str, Mapping[str, LatencyNoise]]:
        """How launches of each series differ, by machine."""
        base = self._merge_base
        return {} if base.recorded is None else noise_by_machine(base.recorded.points_of(base.commits))

    @cached_property
    def _merge_base(self) -> _MergeBase:
        if self._open_history is None:
            return _MergeBase([], f"{_NOT_ACCEPTED}, and the history is turned off")
        state = git_state(self._root)
        if state is None and not missing_libraries() and find_checkout(self._root.resolve()) is None:
            return _MergeBase([], f"{_NOT_ACCEPTED}, and {_NO_REPOSITORY}")
        try:
            recorded, git = self._open_history(), Repository(self._root)
            base = select_base(recorded.commits, git, dirty=bool(state and state.dirty))
            if base.committed is None:
                return _MergeBase([], f"{_NOT_ACCEPTED}, and {base}")
            checks = records_of(recorded, base.committed)
            reach = select_recorded(recorded, line_below(git, base.committed.id))
        except (UsageError, HistoryError) as error:
            # Without a baseline one limit cannot be judged; the other verdicts of the check must not be lost.
            return _MergeBase([], f"{_NOT_ACCEPTED}, and {error.what}" + (f": {error.value}" if error.value else ""))
        name = f"{base.committed.id[:12]} ({base.start_name})"
        why = f"{_NOT_ACCEPTED}, and {name} has no record of it within its limits"
        return _MergeBase(checks, why, recorded, reach, name)


@dataclass(frozen=True, slots=True)
class _MergeBase:
    """Records of the merge base, and of the history from it on.

    Attributes
    ----------
    why : reason to give for a series without a record there.
    recorded : the history; ``None`` where it cannot be read.
    reach : the last commits with records, the merge base first.
    name : of the merge base, with how it was found.
    """

    checks: Sequence[StoredCheck]
    why: str
    recorded: Store | None = None
    reach: tuple[Committed, ...] = ()
    name: str = ""

    @property
    def commits(self) -> tuple[str, ...]:
        """The ids of the last commits with records, and of their trees."""
        return tuple(run_id for each in self.reach for run_id in each.ids)


def _accepted_accuracy(entry: BaselineEntry) -> AccuracyResult | None:
    kept = entry.scores
    if kept is None:
        return None
    return AccuracyResult(
        n=kept.n,
        drop=entry.drop,
        candidate=entry.candidate_score,
        candidate_correct=kept.candidate_correct,
        candidate_scores=kept.candidate_scores,
        candidate_runs=kept.runs,
    )


def _run_noise(checks: Sequence[StoredCheck]) -> tuple[float, int]:
    """Return the standard deviation of the candidate's score over runs, and its degrees of freedom; 0, 0 for none.

    Runs of one record differ by noise, and so do single runs of one commit, each with scores of its own.
    """
    squares, freedom = 0.0, 0
    of_commits: dict[str | None, dict[str | None, float]] = {}
    for check in checks:
        accuracy = check.record.accuracy
        if accuracy is None or accuracy.candidate is None:
            continue
        if accuracy.run_sd is not None:
            more = sum((runs or 1) - 1 for runs in (accuracy.reference_runs, accuracy.candidate_runs))
            squares, freedom = squares + more * accuracy.run_sd**2, freedom + more
        else:
            runs = of_commits.setdefault(check.run.commit, {})
            runs[check.record.digests.get("candidate scores")] = accuracy.candidate
    for runs in of_commits.values():
        squares += sum((score - mean(runs.values())) ** 2 for score in runs.values())
        freedom += len(runs) - 1
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def _join_launches(checks: Sequence[StoredCheck], data: str | None, why: str) -> Baseline | str:
    """Return a baseline with the last drop that was measured in the launches, and no latency yet."""
    usable = [check for check in checks if check.record.status not in _NEVER_A_BASE]
    if not usable:
        return why
    last = usable[-1].run.commit or "unknown"
    comparable = [check for check in usable if data is None or check.record.digests.get("data") in (None, data)]
    other_data = f"{_NOT_ACCEPTED}, and the merge base's records are for other evaluation data"
    drop = next((each.record.accuracy.drop for each in reversed(comparable) if each.record.accuracy), None)
    return Baseline(last, drop, no_drop="" if comparable else other_data)
