"""Accepting records as baselines: which may become one, what that changes in the file, and writing it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from pytest_quant.errors import UsageError, nearest
from pytest_quant.history.baselines.file import (
    AcceptedLatency,
    BaselineEntry,
    Series,
    baseline_text,
    read_baselines,
    series_of,
    write_baselines,
)
from pytest_quant.history.baselines.launches import launches_in, median_of
from pytest_quant.history.rows import StoredCheck, way_of_timing
from pytest_quant.result import Status

_REGRESSED = (Status.FAIL, Status.ERROR)


def by_series(launches: Sequence[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the records by series key, in the given order, oldest first."""
    series: dict[str, list[StoredCheck]] = {}
    for check in launches:
        series.setdefault(check.record.series, []).append(check)
    return series


def choose_series(known: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the `known` series keys whose readable form contains one of `texts`; all of them without texts.

    Raises
    ------
    UsageError : no series contains one of the texts.
    """
    readable = {key: str(series_of(key)) for key in known}
    chosen: set[str] = set()
    for text in texts:
        matching = {key for key, shown in readable.items() if text == key or text in shown}
        if not matching:
            raise UsageError(f"there is no series '{text}'", allowed=nearest(text, set(readable.values())))
        chosen |= matching
    return [key for key in known if key in chosen or not texts]


def accept(
    checks: Sequence[StoredCheck], *, reason: str, accepted_at: datetime, expires: date | None = None
) -> BaselineEntry | None:
    """Return the entry of one series; ``None`` when nothing of it was measured.

    Parameters
    ----------
    checks : its records of one commit, oldest first. Accuracy is that of the last one, latency on each machine that of
        all launches there.
    reason : written to the file, for those who review the change.
    accepted_at : time with a time zone.
    expires : last day on which the entry is valid; ``None`` for no end.

    Raises
    ------
    UsageError : the tree was dirty, no commit is known, or the last record is FAIL or ERROR: later runs would be judged
        against the regression.
    """
    measured = [check for check in checks if check.record.status is not Status.UNAVAILABLE]
    if not measured:
        return None
    last = measured[-1]
    _refuse(last)
    accuracy = last.record.accuracy
    fine = [check for check in measured if check.record.status not in _REGRESSED]
    return BaselineEntry(
        series=series_of(last.record.series),
        commit=last.run.commit or "",
        run=last.run.id,
        reason=reason,
        accepted_at=accepted_at,
        expires=expires,
        unit=accuracy.unit if accuracy else None,
        candidate_score=accuracy.candidate if accuracy else None,
        drop=accuracy.drop if accuracy else None,
        data=last.record.digests.get("data"),
        size_mb=last.record.resources.size_mb if last.record.resources else None,
        coverage_pct=last.record.coverage.pct if last.record.coverage else None,
        latency=tuple(_by_machine(fine)),
    )


def accept_removal(series: Series, *, commit: str, reason: str, accepted_at: datetime) -> BaselineEntry:
    """Return an entry that accepts the removal of a test.

    Parameters
    ----------
    series : of the removed test.
    commit : as of which it is removed.
    reason : written to the file, for those who review the change.
    accepted_at : time with a time zone.
    """
    return BaselineEntry(series, commit, None, reason, accepted_at, removed=True)


def _refuse(check: StoredCheck) -> None:
    run, record = check.run, check.record
    shown = f"{series_of(record.series)}, run {run.id}"
    if run.dirty:
        raise UsageError(
            "a run with changes that were not committed is never a baseline",
            value=shown,
            fix="commit, run the tests again, and accept that run",
        )
    if run.commit is None:
        raise UsageError("a run without a commit is never a baseline", value=shown, fix="run the tests in a repository")
    if record.status in _REGRESSED:
        broken = [
            f"{verdict.limit}: {verdict.reason}" for verdict in record.verdicts or () if verdict.status in _REGRESSED
        ]
        raise UsageError(
            f"a record that is {record.status.value} never becomes a baseline",
            value="; ".join([shown, *broken, *record.message.splitlines()[:1]]),
            fix="where the change is wanted, relax the limit in the mark or remove the old entry from the file, "
            "which a reviewer sees; then run the tests again and accept that run",
        )


def _by_machine(checks: Sequence[StoredCheck]) -> Iterator[AcceptedLatency]:
    """Yield the latency on each machine, with every launch there."""
    machines: dict[tuple[object, ...], list[StoredCheck]] = {}
    for check in checks:
        key = (*sorted(check.run.environment.identity.items()), way_of_timing(check.record.latency))
        machines.setdefault(key, []).append(check)
    for here in machines.values():
        launches = tuple(launch for check in here for launch in launches_in(check) if launch.speedup is not None)
        if launches:
            yield AcceptedLatency(
                dict(here[-1].run.environment.identity),
                median_of(launch.speedup for launch in launches),
                median_of(launch.candidate_p50_ms for launch in launches),
                way_of_timing(here[-1].record.latency),
                launches,
            )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why records are accepted, and for how long.

    Attributes
    ----------
    text : a sentence for those who review the change.
    given_at : time with a time zone.
    expires : last day on which they count; ``None`` for no end.
    """

    text: str
    given_at: datetime
    expires: date | None = None

    @classmethod
    def now(cls, text: str, expires: date | None = None) -> Reason:
        """Return a reason that is given now. Raises `UsageError` where it is empty, or over."""
        now = datetime.now(UTC).replace(microsecond=0)
        if not text.strip():
            raise UsageError("--reason is empty", allowed="a sentence for those who review the change")
        if expires is not None and expires < now.date():
            raise UsageError("--expires is over", value=f"{expires:%Y-%m-%d}", allowed="today or a later day")
        return cls(text.strip(), now, expires)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Entries that take their place in a file of baselines, as of which `before` are there."""

    file: Path
    before: Mapping[str, BaselineEntry]
    entries: tuple[BaselineEntry, ...]

    @property
    def after(self) -> dict[str, BaselineEntry]:
        """All entries of the file with these among them."""
        return dict(self.before) | {entry.series.key: entry for entry in self.entries}

    def texts(self) -> tuple[str, str]:
        """Return the file before and after; without a file the whole new text is the change."""
        before = baseline_text(self.before.values()) if self.file.exists() else ""
        return before, baseline_text(self.after.values())

    def write(self) -> None:
        """Write the file. Raises `HistoryError`."""
        write_baselines(self.file, self.after.values())


def accept_checks(file: Path, checks: Sequence[StoredCheck], reason: Reason, texts: Sequence[str] = ()) -> Acceptance:
    """Return what accepting the records of one commit changes; nothing is written.

    Parameters
    ----------
    file : of the baselines.
    checks : the records, oldest first.
    reason : for all of them.
    texts : parts of the names of the series that are meant; empty for all.

    Raises
    ------
    UsageError : a record must not become a baseline, see `accept`; nothing was measured; or no series is meant.
    HistoryError : the file cannot be read.
    """
    before = read_baselines(file)
    series = by_series(checks)
    accepted = [
        accept(series[key], reason=reason.text, accepted_at=reason.given_at, expires=reason.expires)
        for key in choose_series(list(series), texts)
    ]
    entries = tuple(entry for entry in accepted if entry is not None)
    if not entries:
        raise UsageError(
            "nothing was measured there, so there is nothing to accept", fix="run the tests where they can run"
        )
    return Acceptance(file, before, entries)


def changed_lines(before: str, after: str, name: str) -> list[str]:
    """Return the difference of two versions of a file as git shows it; empty where there is none.

    Parameters
    ----------
    before, after : the whole texts.
    name : of the file.
    """
    names = f"a/{name}", f"b/{name}"
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=9))
