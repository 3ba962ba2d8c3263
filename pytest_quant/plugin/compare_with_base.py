"""``--quant-compare``: compares the records of this commit, those of this run among them, with the merge base's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pytest_quant.environment import Committed, Repository
from pytest_quant.errors import QuantError
from pytest_quant.history import StoredCheck, open_store
from pytest_quant.history.baselines.launches import points_before
from pytest_quant.history.baselines.since import accepted_since
from pytest_quant.history.compare import Comparison, Outcome, Ruling, compare, rule
from pytest_quant.history.merge_base import elsewhere, records_of, select_base
from pytest_quant.plugin.controller import takes_all
from pytest_quant.plugin.settings import Settings
from pytest_quant.record import Record, Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Recorded


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of the comparison.

    Attributes
    ----------
    base : one line that names the base.
    comparison, ruling : ``None`` when the records could not be compared.
    fault : reason why the run fails; empty when it does not.
    """

    base: str
    comparison: Comparison | None
    ruling: Ruling | None
    fault: str


def compare_run(
    config: pytest.Config, settings: Settings, run: Run, records: Sequence[Record], *, whole: bool
) -> Compared:
    """Compare the records of a run with those of the base; it is a fault when that is not possible.

    Parameters
    ----------
    config : of the controlling process.
    settings : of the run.
    run : the run.
    records : of all its checks.
    whole : pytest ran all tests that it collected.
    """
    if settings.history is None:
        why = "the history is turned off, so there is nothing to compare with"
        return Compared("", None, None, f"--quant-compare: {why}")
    try:
        store = open_store(settings.history)
        head = run.commit or "HEAD"
        base = select_base(store.commits, Repository(config.rootpath), settings.compare_base, head, dirty=run.dirty)
        earlier = [] if base.found is None else records_of(store, base.found, Committed(head, run.tree))
        found = f"{base}{elsewhere(earlier, base.commit)}"
        checks = [check for check in earlier if check.run.id != run.id]
        now = [StoredCheck(run, record) for record in records]
        accepted = accepted_since(config.rootpath, checks, now, datetime.now(UTC).date())
        ours = _with_stored(store, run, now, {check.run.id for check in checks})
        before = points_before(store, Repository(config.rootpath), base.commit)
        comparison = compare(checks, ours, accepted=accepted, earlier=before)
    except QuantError as error:
        return Compared("", None, None, f"--quant-compare: {error}")
    full_suite = whole and takes_all(config)
    ruling = rule(comparison, strict=settings.strict, full_suite=full_suite)
    unsure = "; not every test ran, so that none counts as removed" if comparison.removed and not full_suite else ""
    return Compared(f"{found}{unsure}", comparison, ruling, _fault(comparison, ruling) if ruling.code else "")


def _fault(comparison: Comparison, ruling: Ruling) -> str:
    worse = len(comparison.having(Outcome.REGRESSION))
    reasons = [f"{worse} of {len(comparison.rows)} rows regressed"] if worse else []
    if ruling.missing:
        reasons.append(
            f"{len(ruling.missing)} tests of the base are gone; pytest-quant accept --removed tells that they should be"
        )
    return f"--quant-compare: {'; '.join(reasons) or 'not everything could be compared, and --quant-strict is set'}"


def _with_stored(recorded: Recorded, run: Run, now: Sequence[StoredCheck], base: Collection[str]) -> list[StoredCheck]:
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
