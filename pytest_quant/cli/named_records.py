"""The records of a revision or run that the user names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import UsageError
from pytest_quant.printable import clean

if TYPE_CHECKING:
    from pytest_quant.environment import Committed
    from pytest_quant.history import StoredCheck
    from pytest_quant.history.store import Store


_RUN_ID = re.compile(r"\d{8}T\d")
_RECENT_RUNS = 200


@dataclass(frozen=True, slots=True)
class Found:
    """The records of a revision or run; `told` describes them in one line, `commit` is what they are of."""

    checks: list[StoredCheck]
    told: str
    commit: Committed | None = None


def is_run(text: str) -> bool:
    """Whether `text` is the start of a run's id, not a revision."""
    return _RUN_ID.match(text) is not None


def find_side(store: Store, text: str, root: Path, *, take_dirty: bool) -> Found:
    """Return the records of the run or the commit that `text` names.

    Parameters
    ----------
    store : the history.
    text : start of a run's id, or a revision.
    root : folder in the git repository.
    take_dirty : where the commit has no run of a clean tree, take its last run.

    Raises
    ------
    UsageError : git knows no such commit, there is no such run, or there are no records of it.
    """
    if is_run(text):
        return of_run(store, text)
    # Here, because it loads the database.
    from pytest_quant.environment import Committed, Repository
    from pytest_quant.history.merge_base import elsewhere, records_of, resolve

    git = Repository(root)
    commit = resolve(git, text, store.commits)
    named = Committed(commit, git.tree(commit))
    checks = records_of(store, named)
    shown = f"{clean(text)} ({commit[:12]})" if not commit.startswith(text) else commit[:12]
    if checks:
        return Found(checks, f"{shown}: {_count(checks)}{elsewhere(checks, commit)}", named)
    dirty = next(
        (one.run for one in store.runs(limit=_RECENT_RUNS) if one.run.commit == commit and one.run.dirty), None
    )
    if dirty is not None and take_dirty:
        return of_run(store, dirty.id)
    raise UsageError(
        f"there are no records of {shown}",
        value=None if dirty is None else f"only of run {dirty.id}, whose tree had changes that were not committed",
        fix="run the tests there; 'pytest-quant history' lists the runs there are, whose ids can be named too",
    )


def of_run(store: Store, text: str) -> Found:
    """Return the records of the run whose id begins with `text`. Raises `UsageError` when there is none, or several."""
    from pytest_quant.environment import Committed
    from pytest_quant.history import StoredCheck

    run = store.run(text).run
    checks = [StoredCheck(run, record) for record in store.records(run.id)]
    dirty = ", of a tree with changes that were not committed" if run.dirty else ""
    told = f"run {run.id} of {(run.commit or 'no commit')[:12]}{dirty}: {_count(checks)}"
    return Found(checks, told, None if run.commit is None else Committed(run.commit))


def _count(checks: list[StoredCheck]) -> str:
    launches = len({check.run.id for check in checks})
    return f"{len(checks)} record{'s' if len(checks) != 1 else ''} of {launches} run{'s' if launches != 1 else ''}"
