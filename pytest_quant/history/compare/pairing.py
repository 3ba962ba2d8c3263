"""Pairs of base and head records of one series, and the joint significance of their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_quant.history.compare.comparison import ALPHA, Comparison, Listed, Outcome, Quantity, Row, Side
from pytest_quant.history.rows import StoredCheck, commit_of, group_items, identity_of, is_second_pass, version_of
from pytest_quant.record import Record, Run
from pytest_quant.record.figures import drop_unit
from pytest_quant.result import Better
from pytest_quant.spec import SeriesKey
from pytest_quant.stats.holm import holm


@dataclass(frozen=True, slots=True)
class Draft:
    """A row, and the row that replaces it when its test of no change is rejected; ``None`` for the same row."""

    row: Row
    if_rejected: Row | None = None

    def replace_values(self, **values: Any) -> Draft:
        """Return the draft with these values in both rows."""
        rejected = None if self.if_rejected is None else replace(self.if_rejected, **values)
        return Draft(replace(self.row, **values), rejected)


def judge(drafts: Sequence[Draft]) -> list[Row]:
    """Return the row of each draft, its replacement if the adjusted p is at most `ALPHA`."""
    adjusted = iter(holm([draft.row.p for draft in drafts if draft.row.p is not None]))
    rows = []
    for draft in drafts:
        p = None if draft.row.p is None else next(adjusted)
        rejected = draft.if_rejected if p is not None and p <= ALPHA else None
        rows.append(replace(rejected or draft.row, p_adjusted=p))
    return rows


_Launches = tuple[StoredCheck, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """The launches of one series at base and head, oldest first, one for each run; `series` is the head's key.

    `other_version` : evaluation data or metric are other ones, so that scores are not compared.
    """

    series: str
    base: _Launches
    head: _Launches
    other_version: bool = field(default=False, kw_only=True)


def row_of(
    pair: Pair,
    quantity: Quantity,
    base: float | str | None = None,
    head: float | str | None = None,
    unit: str = "",
    better: Better | None = None,
) -> Row:
    """Return an unchanged row of these values, see `Row`, of the last launch of the head."""
    record = pair.head[-1].record
    return Row(
        series=pair.series,
        **{name: getattr(record, name) for name in ("nodeid", "model", "engine_id")},
        quantity=quantity,
        outcome=Outcome.UNCHANGED,
        base=base,
        head=head,
        unit=unit,
        better=better,
        change_unit="%" if quantity in _RELATIVE else drop_unit(unit),
        base_launches=len(pair.base),
        head_launches=len(pair.head),
    )


_RELATIVE = ("size", "speedup", "p50")
"""Quantities whose change is in percent of the base."""


def pair(
    base: Sequence[StoredCheck], head: Sequence[StoredCheck], runs: Iterable[Run] = (), *, whole: bool | None = None
) -> tuple[list[Pair], Comparison]:
    """Return the series that both have, and their comparison, which has no rows yet.

    Records are paired by series key; a removed and an added test are a renamed one when all else of them is equal.
    `runs` say why the head lacks records; without any, those of its records do, as they say whether it ran every test
    if `whole` does not. What it did not run is not renamed.
    """
    runs = runs or {check.run.id: check.run for check in head}.values()
    now = _side(head)
    now = now if whole is None else replace(now, partial=not whole)
    complete = _complete_keys([*base, *head])
    bases, heads = _group_by_series(base, complete), _group_by_series(head, complete)
    removed = {key: launches for key, launches in bases.items() if key not in heads}
    added = {key: launches for key, launches in heads.items() if key not in bases}
    lost = {key: explain_loss(key, runs) for key in removed}
    names = _find_renamed({key: launches for key, launches in removed.items() if not (now.partial or lost[key])}, added)
    pairs = [
        _same_version(Pair(key, bases[names.get(key, key)], launches))
        for key, launches in heads.items()
        if names.get(key, key) in bases
    ]
    comparison = Comparison(
        base=_side(base),
        head=now,
        added=tuple(_list_test(key, launches) for key, launches in added.items() if key not in names),
        removed=tuple(
            replace(_list_test(key, removed[key]), **lost[key]) for key in removed if key not in names.values()
        ),
        renamed=tuple(
            replace(_list_test(new, heads[new]), base_nodeid=bases[old][-1].record.nodeid) for new, old in names.items()
        ),
    )
    return pairs, comparison


def _side(checks: Sequence[StoredCheck]) -> Side:
    runs = {check.run.id: check.run for check in checks}
    branches = {run.branch for run in runs.values()}
    return Side(
        commit=commit_of(checks),
        branch=branches.pop() if len(branches) == 1 else None,
        dirty=any(run.dirty for run in runs.values()),
        runs=len(runs),
        checks=len(checks),
        partial=bool(runs) and all(run.partial for run in runs.values()),
    )


def select_common_machines(pair: Pair) -> tuple[Pair, bool]:
    """Return the launches on machines that base and head share, and true; all launches, and false, without any.

    One of two passes was on both machines, with one engine.
    """
    base, head = ({machine for check in side for machine in _machines(check)} for side in (pair.base, pair.head))
    common = base & head
    if not common:
        return pair, False
    sides = (tuple(check for check in side if common & _machines(check)) for side in (pair.base, pair.head))
    return Pair(pair.series, *sides), True


def _machines(check: StoredCheck) -> set[str]:
    return {identity_of(each.run, each.record) for each in (check, check.first) if each is not None}


def is_measured(record: Record) -> bool:
    """Whether the check was measured, so that the record has figures."""
    return record.accuracy is not None or is_second_pass(record)


def reason(record: Record) -> str:
    """Return the first two lines of the message of a check that was not measured."""
    lines = [line.strip() for line in record.message.splitlines() if line.strip()]
    return " / ".join(lines[:2]) or "it was not measured"


def _group_by_series(checks: Iterable[StoredCheck], complete: Mapping[object, set[str]]) -> dict[str, _Launches]:
    launches_of: dict[str, dict[str, StoredCheck]] = {}
    for check in checks:
        # Of several reports of one run the last counts.
        launches_of.setdefault(_key(check.record, complete), {})[check.run.id] = check
    return {key: tuple(launches.values()) for key, launches in launches_of.items()}


def _shorter_keys(record: Record) -> tuple[object, ...]:
    """Return the series key, and what is left of it without the metric, and without the model too."""
    key = SeriesKey.parse(record.series)
    return record.series, key[:6], (key.test, *key[2:6])


def _complete_keys(checks: Iterable[StoredCheck]) -> dict[object, set[str]]:
    keys: dict[object, set[str]] = {}
    for record in (check.record for check in checks if is_measured(check.record)):
        for shorter in _shorter_keys(record):
            keys.setdefault(shorter, set()).add(record.series)
    return keys


def _key(record: Record, complete: Mapping[object, set[str]]) -> str:
    """Return the key of a record; a check that was not measured has the key that it would have had.

    It may lack the default metric, and the name of a model whose fixture raised.
    """
    if is_measured(record):
        return record.series
    likely = next((complete[shorter] for shorter in _shorter_keys(record) if shorter in complete), set())
    return next(iter(likely)) if len(likely) == 1 else record.series


def _same_version(given: Pair) -> Pair:
    """Leave out launches of a version that only base or only head has.

    Without a common version they are compared in what needs no equal data.
    """
    base, head = _versions(given.base), _versions(given.head)
    if not base or not head:
        return given
    common = base & head
    if not common:
        return replace(given, other_version=True)
    sides = (
        tuple(check for check in side if version_of(check.record) in ("", *common)) for side in (given.base, given.head)
    )
    return Pair(given.series, *sides)


def _versions(launches: _Launches) -> set[str]:
    return {version_of(launch.record) for launch in launches} - {""}


def _engine(series: Mapping[str, _Launches], key: str) -> tuple[object, ...]:
    record = series[key][-1].record
    return (record.model, record.backend, record.precision, record.scheme, record.batch_size, record.metric)


def _find_renamed(removed: Mapping[str, _Launches], added: Mapping[str, _Launches]) -> dict[str, str]:
    """Return the old key by the new key of pairs that alone have the same engine, metric and batch size."""
    old, new = (group_items(series, partial(_engine, series)) for series in (removed, added))
    both = (engine for engine in old if engine in new)
    return {new[engine][0]: old[engine][0] for engine in both if len(old[engine]) == len(new[engine]) == 1}


def explain_loss(series: str, runs: Iterable[Run]) -> dict[str, str]:
    """Return why `runs` have no record of a series, as the field of `Listed` that says it; empty if no run says why."""
    key = SeriesKey.parse(series)
    for run in runs:
        for name, found in (("skipped", run.skipped), ("uncollected", run.uncollected)):
            for where, why in found.items():
                if where in (".", key.planned) or key.test.startswith((f"{where}::", f"{where}/")):
                    return {name: why}
    return {}


def _list_test(series: str, launches: _Launches) -> Listed:
    record = launches[-1].record
    return Listed(series, record.nodeid, record.model, record.engine_id, record.status.value)
