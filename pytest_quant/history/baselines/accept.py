"""From records to an entry of the baseline file: only what was clean and within its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from pytest_quant.errors import UsageError, nearest
from pytest_quant.history.baselines.entry import AcceptedLatency, BaselineEntry, Series, series_of
from pytest_quant.history.rows import StoredCheck
from pytest_quant.result import Status

_REGRESSED = (Status.FAIL, Status.ERROR)


def by_series(launches: Sequence[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the records by series key, of every series oldest first as they came."""
    found: dict[str, list[StoredCheck]] = {}
    for check in launches:
        found.setdefault(check.record.series, []).append(check)
    return found


def choose_series(known: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the `known` series keys that have one of `texts` in their readable form; all without texts.

    Raises
    ------
    UsageError : a text is in none of them; the message names the nearest.
    """
    readable = {key: str(series_of(key)) for key in known}
    chosen: set[str] = set()
    for text in texts:
        found = {key for key, shown in readable.items() if text == key or text in shown}
        if not found:
            raise UsageError(f"there is no series '{text}'", allowed=nearest(text, set(readable.values())))
        chosen |= found
    return [key for key in known if key in chosen or not texts]


def accept(
    checks: Sequence[StoredCheck], *, reason: str, accepted_at: datetime, expires: date | None = None
) -> BaselineEntry | None:
    """Return the entry of one series; ``None`` when nothing of it was measured.

    Parameters
    ----------
    checks : its records of one commit, oldest first. The last one counts, and on each other machine the last one
        there for the latency of that machine.

    Raises
    ------
    UsageError : the tree was dirty, no commit is known, or the last record is FAIL or ERROR: accepting that would
        make the regression the measure of all that follows.
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
        latency=tuple(_by_machine(fine).values()),
    )


def accept_removal(series: Series, *, commit: str, reason: str, accepted_at: datetime) -> BaselineEntry:
    """Return the entry that says that the test is gone on purpose, as of `commit`."""
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
        broken = [f"{one.limit}: {one.reason}" for one in record.verdicts or () if one.status in _REGRESSED]
        raise UsageError(
            f"a record that is {record.status.value} never becomes a baseline",
            value="; ".join([shown, *broken, *record.message.splitlines()[:1]]),
            fix="where the change is wanted, relax the limit in the mark or remove the old entry from the file, "
            "which a reviewer sees; then run the tests again and accept that run",
        )


def _by_machine(checks: Sequence[StoredCheck]) -> Mapping[tuple[tuple[str, str], ...], AcceptedLatency]:
    found = {}
    for check in checks:
        figures, identity = check.record.latency, check.run.environment.identity
        if figures is not None and figures.speedup is not None and not figures.reasons:
            machine = tuple(sorted(identity.items()))
            found[machine] = AcceptedLatency(dict(identity), figures.speedup, figures.candidate_p50_ms)
    return found
