"""Accepted baselines: the entry that a record makes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from pytest_quant.errors import UsageError, nearest
from pytest_quant.history.baselines.file import AcceptedLatency, AcceptedScores, BaselineEntry
from pytest_quant.history.rows import StoredCheck, group_items, launches_in, way_of_timing
from pytest_quant.result import AccuracyResult, Status
from pytest_quant.spec import SeriesKey

_REGRESSED = (Status.FAIL, Status.ERROR)


def choose_series(keys: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the series of `keys` whose readable form contains any of `texts`; without texts, all.

    Raises
    ------
    UsageError : no series contains one of the texts.
    """
    readable = {key: str(SeriesKey.parse(key)) for key in keys}
    chosen: set[str] = set()
    for text in texts:
        matching = {key for key, shown in readable.items() if text == key or text in shown}
        if not matching:
            raise UsageError(f"there is no series '{text}'", allowed=nearest(text, set(readable.values())))
        chosen |= matching
    return [key for key in keys if key in chosen or not texts]


def accept(checks: Sequence[StoredCheck], *, reason: str, accepted_at: datetime) -> BaselineEntry | None:
    """Return the entry of one series; ``None`` when nothing of it was measured.

    Parameters
    ----------
    checks : its records of one commit, oldest first. Accuracy is that of the last one, latency on each machine that of
        all launches there.
    reason : written to the file, for those who review the change.
    accepted_at : time with a time zone.

    Raises
    ------
    UsageError : the tree was dirty, no commit is known, the data was a placeholder, or the last record is FAIL or
        ERROR: later runs would be judged against the regression.
    """
    measured = [check for check in checks if check.record.status is not Status.UNAVAILABLE]
    if not measured:
        return None
    last = measured[-1]
    _refuse(last)
    accuracy = last.record.accuracy
    fine = [check for check in measured if check.record.status not in _REGRESSED]
    return BaselineEntry(
        **SeriesKey.parse(last.record.series)._asdict(),
        commit=last.run.commit or "",
        run=last.run.id,
        reason=reason,
        accepted_at=accepted_at,
        unit=accuracy.unit if accuracy else None,
        candidate_score=accuracy.candidate if accuracy else None,
        drop=accuracy.drop if accuracy else None,
        data=last.record.digests.get("data"),
        size_mb=last.record.resources.size_mb if last.record.resources else None,
        coverage_pct=last.record.coverage.pct if last.record.coverage else None,
        latency=_sort_latency(_group_by_machine(fine)),
        scores=_scores(accuracy),
    )


def _sort_latency(latency: Iterable[AcceptedLatency]) -> tuple[AcceptedLatency, ...]:
    return tuple(sorted(latency, key=lambda machine: (sorted(machine.identity.items()), machine.way)))


def _scores(accuracy: AccuracyResult | None) -> AcceptedScores | None:
    """Return the scores of single samples, unless engines can be run again."""
    if accuracy is None or accuracy.candidate_runs is None:
        return None
    return AcceptedScores(accuracy.n, accuracy.candidate_runs, accuracy.candidate_correct, accuracy.candidate_scores)


def _refuse(check: StoredCheck) -> None:
    run, record = check.run, check.record
    shown = f"{SeriesKey.parse(record.series)}, run {run.id}"
    if run.dirty:
        fix = "commit, new test files too, run the tests again, and accept that run"
        raise UsageError("a run with changes that were not committed is never a baseline", value=shown, fix=fix)
    if run.commit is None:
        raise UsageError("a run without a commit is never a baseline", value=shown, fix="run the tests in a repository")
    if record.stands_in:
        fix = "return Dataset.from_arrays(inputs, labels, calibration=100) in its place, and run the tests again"
        raise UsageError("random numbers of Dataset.placeholder are never a baseline", value=shown, fix=fix)
    if record.status in _REGRESSED:
        broken = [
            f"{verdict.limit}: {verdict.reason}" for verdict in record.verdicts or () if verdict.status in _REGRESSED
        ]
        raise UsageError(
            f"a record that is {record.status.value} never becomes a baseline",
            value="; ".join([shown, *broken, *record.message.splitlines()[:1]]),
            fix="if the change is wanted, relax the limit in the mark, or, of a limit against earlier runs, remove "
            "the old entry from the file, which a reviewer sees; then run the tests again and accept that run",
        )


def _group_by_machine(checks: Sequence[StoredCheck]) -> Iterator[AcceptedLatency]:
    """Yield the latency on each machine, with every launch there."""

    def machine(check: StoredCheck) -> tuple[object, ...]:
        return *sorted(check.run.environment.identity.items()), way_of_timing(check.record.latency)

    for here in group_items(checks, machine).values():
        launches = tuple(launch for check in here for launch in launches_in(check) if launch.speedup is not None)
        if launches:
            speedup = median_of(launch.speedup for launch in launches)
            p50_ms = median_of(launch.candidate_p50_ms for launch in launches)
            identity, way = dict(here[-1].run.environment.identity), way_of_timing(here[-1].record.latency)
            yield AcceptedLatency(identity, speedup, p50_ms, way, launches)


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there; ``None`` without any."""
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def accept_checks(
    checks: Sequence[StoredCheck], texts: Sequence[str], *, reason: str, accepted_at: datetime
) -> list[BaselineEntry]:
    """Return the entries that accepting the records of one commit makes.

    Parameters
    ----------
    checks : the records, oldest first.
    texts : parts of the names of the series that are meant; empty for all.
    reason, accepted_at : see `accept`.

    Raises
    ------
    UsageError : a record must not become a baseline, see `accept`; nothing was measured; or no series is meant.
    """
    series = group_items(checks, lambda check: check.record.series)
    chosen = choose_series(list(series), texts)
    accepted = [accept(series[key], reason=reason, accepted_at=accepted_at) for key in chosen]
    entries = [entry for entry in accepted if entry is not None]
    if not entries:
        fix = "run the tests on a machine that can run them"
        raise UsageError("nothing was measured there, so there is nothing to accept", fix=fix)
    return entries


def keep_accepted(entry: BaselineEntry, before: BaselineEntry | None) -> BaselineEntry:
    """Return `entry` with the figures of `before` that its records lack; `entry` itself if they lack none.

    They are the latency on machines, and in ways of timing, that `entry` has no latency of, and the scores if it has
    none: a run may leave out either.

    Parameters
    ----------
    entry : what is accepted now.
    before : what the file has of the series; ``None`` for nothing.
    """
    if before is None:
        return entry
    timed = [(dict(figures.identity), figures.way) for figures in entry.latency]
    kept = tuple(figures for figures in before.latency if (dict(figures.identity), figures.way) not in timed)
    figures: dict[str, object] = {"latency": _sort_latency([*entry.latency, *kept])} if kept else {}
    if entry.candidate_score is entry.drop is None and before.drop is not None:
        # The data too, for a drop holds on those alone.
        scored = ("candidate_score", "drop", "unit", "data", "scores")
        figures |= {name: getattr(before, name) for name in scored}
    return msgspec.structs.replace(entry, **figures) if figures else entry
