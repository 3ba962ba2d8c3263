"""The run in progress: each finished check is on the disk before the next one starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_quant.environment import git_trouble
from pytest_quant.history import missing_libraries
from pytest_quant.history.journal import Journal, recover
from pytest_quant.plugin.settings import settings_of
from pytest_quant.record import Json, Run, start_run


@dataclass
class Unfinished:
    """A run in progress.

    Attributes
    ----------
    run : the run.
    journal : of its finished checks; ``None`` without one, where no history is written, or where the disk refuses it.
    notes : what the user should know at the end.
    warnings : problems that do not change the exit code.
    """

    run: Run
    journal: Journal | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def end(self, *, stored: bool) -> None:
        """Give up what is on the disk: it is `stored` elsewhere, or left to the next run."""
        if self.journal is not None:
            self.journal.close(stored=stored)
            self.journal = None


_UNFINISHED = pytest.StashKey[Unfinished]()


def run_in_progress(config: pytest.Config) -> Unfinished:
    """Return the run of this process, which begins with the first call."""
    if _UNFINISHED not in config.stash:
        begun = config.stash[_UNFINISHED] = Unfinished(start_run(config.rootpath))
        if not begun.run.parents and (trouble := git_trouble(config.rootpath)):
            begun.warnings.append(trouble)
    return config.stash[_UNFINISHED]


def keep_finished(config: pytest.Config, record: dict[str, Json]) -> None:
    """Put the JSON of a finished check on the disk; where that fails, the run goes on and says so at its end.

    With the first one, what dead runs left is added to the history.
    """
    first = _UNFINISHED not in config.stash
    begun = run_in_progress(config)
    try:
        if first:
            _open(config, begun)
        if begun.journal is not None:
            begun.journal.keep(record)
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        begun.warnings.append(f"finished checks could not be kept on the disk while other tests ran: {why}")
        begun.end(stored=False)


def _open(config: pytest.Config, begun: Unfinished) -> None:
    place = settings_of(config).history
    if place is None or missing_libraries():
        return
    recovered = recover(place, config.rootpath)
    begun.notes += [str(recovered)] if recovered.runs else []
    begun.warnings += recovered.refused
    begun.journal = Journal(place, config.rootpath, begun.run)
