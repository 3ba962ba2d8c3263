"""Accepting: what it changes in the file of baselines, and writing that; for the command and for a run alike."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from pytest_quant.errors import UsageError
from pytest_quant.history.baselines.entry import BaselineEntry
from pytest_quant.history.baselines.file import baseline_text, read_baselines, write_baselines
from pytest_quant.history.baselines.new_entry import accept, by_series, choose_series
from pytest_quant.history.rows import StoredCheck


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
    made = [
        accept(series[key], reason=reason.text, accepted_at=reason.given_at, expires=reason.expires)
        for key in choose_series(list(series), texts)
    ]
    entries = tuple(entry for entry in made if entry is not None)
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
