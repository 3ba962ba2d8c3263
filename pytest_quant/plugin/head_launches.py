"""Launches of the commit under test for ``--quant-compare``: those that the history has, and how many it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_quant.environment import Committed, Repository, fingerprint, git_state
from pytest_quant.errors import QuantError
from pytest_quant.history import StoredCheck, missing_libraries, open_store
from pytest_quant.history.baselines.launches import launches_in
from pytest_quant.history.merge_base import records_of, select_base
from pytest_quant.plugin.settings import Settings
from pytest_quant.record import Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Recorded

ENOUGH = 5
"""Launches of a commit by which a latency can be compared."""

_LACKING = pytest.StashKey[dict[str, int]]()


def with_stored(recorded: Recorded, run: Run, now: Sequence[StoredCheck], base: Collection[str]) -> list[StoredCheck]:
    """Return the records of a run behind those that earlier runs of the same commit have of the same series.

    Those of uncommitted changes are of no commit, and stand alone.

    Parameters
    ----------
    recorded : the history.
    run : the run.
    now : its records.
    base : ids of the runs that it is compared with.
    """
    if run.dirty or run.commit is None:
        return [*now]
    mine = {check.record.series for check in now}
    stored = records_of(recorded, Committed(run.commit, run.tree))
    others = [one for one in stored if one.run.id not in {run.id, *base} and one.record.series in mine]
    return [*others, *now]


def lacking_launches(config: pytest.Config, settings: Settings, series: str) -> int:
    """Return how many launches this run should add to a series, 1 at least, so that it can be compared.

    Only where the base was timed on machines like this one do more than one help. What cannot be asked, because there
    is no history or git knows no base, is told at the end of the run.
    """
    if _LACKING not in config.stash:
        try:
            config.stash[_LACKING] = _count(config, settings)
        except QuantError:
            config.stash[_LACKING] = {}
    return config.stash[_LACKING].get(series, 1)


def _count(config: pytest.Config, settings: Settings) -> dict[str, int]:
    """Return the launches that each series of the base lacks at the commit under test."""
    state = git_state(config.rootpath)
    if settings.history is None or missing_libraries() or state is None or state.commit is None:
        return {}
    store, git = open_store(settings.history), Repository(config.rootpath)
    base = select_base(store.commits, git, settings.compare_base, state.commit, dirty=state.dirty)
    head = Committed(state.commit, git.tree(state.commit))
    timed = _timed([] if base.found is None else records_of(store, base.found, head))
    made = Counter[str]() if state.dirty or base.commit == state.commit else _timed(records_of(store, head))
    return {series: max(ENOUGH - made[series], 1) for series in timed}


def _timed(checks: Sequence[StoredCheck]) -> Counter[str]:
    """Count the launches of each series on machines like this one."""
    here, counted = dict(fingerprint().identity), Counter[str]()
    for check in checks:
        if dict(check.run.environment.identity) == here:
            counted[check.record.series] += len(launches_in(check))
    return +counted
