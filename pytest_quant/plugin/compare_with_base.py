"""``--quant-compare``: compares the records of this commit, those of this run among them, with the merge base's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pytest_quant.environment import Committed, Repository
from pytest_quant.errors import UsageError
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.history.baselines.accept import accepted_since
from pytest_quant.history.baselines.launches import points_before
from pytest_quant.history.compare import Outcome, compare, rule
from pytest_quant.history.merge_base import elsewhere, records_of, select_base
from pytest_quant.plugin.settings import settings_of
from pytest_quant.record import Record, Run
from pytest_quant.report.comparison import ComparedRuns

if TYPE_CHECKING:
    from pytest_quant.history.store import Store


def compare_run(config: pytest.Config, run: Run, records: Sequence[Record], *, all_ran: bool) -> ComparedRuns:
    """Compare the records of a run with those of the base.

    Parameters
    ----------
    config : of the controlling process.
    run : the run.
    records : of all its checks.
    all_ran : every test of the suite ran; otherwise no test counts as removed.

    Raises
    ------
    QuantError : they cannot be compared.
    """
    settings = settings_of(config)
    if settings.history is None:
        raise UsageError("the history is turned off, so there is nothing to compare with")
    store = open_store(settings.history)
    head = run.commit or "HEAD"
    base = select_base(store.commits, Repository(config.rootpath), settings.compare_base, head, dirty=run.dirty)
    earlier = [] if base.found is None else records_of(store, base.found, Committed(head, run.tree))
    of_base = [check for check in earlier if check.run.id != run.id]
    now = [StoredCheck(run, record) for record in records]
    accepted = accepted_since(config.rootpath, of_base, now, datetime.now(UTC).date())
    of_head = _with_stored(store, run, now, {check.run.id for check in of_base})
    before = points_before(store, Repository(config.rootpath), base.commit)
    comparison = compare(of_base, of_head, accepted=accepted, earlier=before)
    unsure = "; not every test ran, so that none counts as removed" if comparison.removed and not all_ran else ""
    ruling = rule(comparison, strict=settings.strict, full_suite=all_ran)
    return ComparedRuns(comparison, ruling, (f"{base}{elsewhere(earlier, base.commit)}{unsure}",))


def regression(compared: ComparedRuns) -> str:
    """Return why a comparison lets the run fail; empty if it does not."""
    if not compared.ruling.code:
        return ""
    rows, missing = compared.comparison.rows, compared.ruling.missing
    worse = len(compared.comparison.having(Outcome.REGRESSION))
    reasons = [f"{worse} of {len(rows)} rows regressed"] if worse else []
    if missing:
        reasons.append(
            f"{len(missing)} tests of the base are gone; pytest-quant accept --removed tells that they should be"
        )
    return f"--quant-compare: {'; '.join(reasons) or 'not everything could be compared, and --quant-strict is set'}"


def _with_stored(recorded: Store, run: Run, now: Sequence[StoredCheck], base: Collection[str]) -> list[StoredCheck]:
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
    others = [check for check in stored if check.run.id not in {run.id, *base} and check.record.series in mine]
    return [*others, *now]
