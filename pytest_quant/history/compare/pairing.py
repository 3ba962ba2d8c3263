"""Which records of base and head are of the same series, and what makes their changes significant together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_quant.history.compare.comparison import Listed, Outcome, Renamed, Reversioned, Row
from pytest_quant.history.compare.samples import overlap
from pytest_quant.history.rows import StoredCheck, version_of
from pytest_quant.record import Record


class Pace(StrEnum):
    """How an engine's latency at the head is to that at the base."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`moved` is ``candidate reference both`` or empty; `note` is a sentence, or empty."""

    outcome: Outcome
    moved: str
    note: str = ""


def when_ratio_changed(candidate: Pace, reference: Pace, *, worse: bool) -> Diagnosis:
    """Return what a proven change of the speedup is.

    A speedup that is worse only because the reference became faster is no regression of the candidate, and one
    that is better only because the reference became slower is no improvement.
    """
    lost, gained = (Pace.SLOWER, Pace.FASTER) if worse else (Pace.FASTER, Pace.SLOWER)
    if reference is gained and candidate is not lost:
        note = f"the reference became {gained}, and the candidate did not become {lost}"
        return Diagnosis(Outcome.CHANGED, "reference", note)
    outcome = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if candidate is not lost:
        return Diagnosis(outcome, "", "neither engine alone moved by more than its noise; their ratio did")
    if reference is Pace.SAME:
        return Diagnosis(outcome, "candidate")
    return Diagnosis(outcome, "both", f"the candidate became {candidate}, and the reference {reference}")


def when_ratio_held(candidate: Pace, reference: Pace) -> Diagnosis | None:
    """Return what it is when both engines moved alike, which a ratio does not show; ``None`` for anything else."""
    if candidate is reference and candidate is not Pace.SAME:
        return Diagnosis(Outcome.CHANGED, "both", f"both became {candidate} alike: the machine, or the runtime")
    return None


@dataclass(frozen=True, slots=True)
class Draft:
    """A row as it stands unless its test, the row's `p`, is rejected, and as it is then; ``None``: the same."""

    row: Row
    if_rejected: Row | None = None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm (1979), Scandinavian Journal of Statistics 6, 65-70, in the same order.

    Rejecting those at most alpha keeps the chance of one false rejection or more below alpha, whatever the
    dependence between the tests.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def judge(drafts: Sequence[Draft], alpha: float) -> list[Row]:
    """Return the rows, those whose adjusted p is at most `alpha` as a rejection makes them."""
    tested = [(index, draft.row.p) for index, draft in enumerate(drafts) if draft.row.p is not None]
    adjusted = dict(zip((index for index, _ in tested), holm([p for _, p in tested]), strict=True))
    return [_judged(draft, adjusted.get(index), alpha) for index, draft in enumerate(drafts)]


def _judged(draft: Draft, adjusted: float | None, alpha: float) -> Row:
    rejected = adjusted is not None and adjusted <= alpha
    chosen = draft.if_rejected if rejected and draft.if_rejected is not None else draft.row
    return replace(chosen, p_adjusted=adjusted)


_Launches = tuple[StoredCheck, ...]
_PARTS = 7


@dataclass(frozen=True, slots=True)
class Pair:
    """The launches of one series on both sides, oldest first, at most one for each run; `series` is the head's key."""

    series: str
    base: _Launches
    head: _Launches


@dataclass(frozen=True, slots=True)
class Pairing:
    """Series that both sides have, and those that cannot be compared."""

    pairs: tuple[Pair, ...]
    added: tuple[Listed, ...]
    removed: tuple[Listed, ...]
    renamed: tuple[Renamed, ...]
    reversioned: tuple[Reversioned, ...]


def pair(base: Sequence[StoredCheck], head: Sequence[StoredCheck]) -> Pairing:
    """Pair by series key; one test that went and one that came are a renamed one when they share everything else."""
    complete = _complete_keys([*base, *head])
    bases, heads = _by_series(base, complete), _by_series(head, complete)
    renamed = _renamed(
        {key: bases[key] for key in bases if key not in heads}, {key: heads[key] for key in heads if key not in bases}
    )
    names = {new: old for old, new in renamed}
    pairs, other_versions = [], []
    for key, launches in heads.items():
        before = bases.get(names.get(key, key))
        if before is None:
            continue
        same = _same_version(Pair(key, before, launches))
        if isinstance(same, Pair):
            pairs.append(same)
        else:
            other_versions.append(same)
    old_names = set(names.values())
    return Pairing(
        pairs=tuple(pairs),
        added=tuple(_listed(key, heads[key]) for key in heads if key not in bases and key not in names),
        removed=tuple(_listed(key, bases[key]) for key in bases if key not in heads and key not in old_names),
        renamed=tuple(_rename(old, new, bases[old], heads[new]) for old, new in renamed),
        reversioned=tuple(other_versions),
    )


def measured(record: Record) -> bool:
    """Whether the check came to be, so that it has a score, a version and figures."""
    return record.accuracy is not None


def _by_series(checks: Iterable[StoredCheck], complete: Mapping[tuple[str, ...], set[str]]) -> dict[str, _Launches]:
    found: dict[str, dict[str, StoredCheck]] = {}
    for check in checks:
        # Of several reports of one run the last counts.
        found.setdefault(_key(check.record, complete), {})[check.run.id] = check
    return {key: tuple(launches.values()) for key, launches in found.items()}


def _parts(series: str) -> tuple[str, ...] | None:
    """Parts of a key but its last, the metric; ``None`` for a key that is none of ours."""
    try:
        parts = json.loads(series)
    except ValueError:
        return None
    if not isinstance(parts, list) or len(parts) != _PARTS:
        return None
    return tuple(map(str, parts[:-1]))


def _complete_keys(checks: Iterable[StoredCheck]) -> dict[tuple[str, ...], set[str]]:
    found: dict[tuple[str, ...], set[str]] = {}
    for record in (check.record for check in checks):
        parts = _parts(record.series) if measured(record) else None
        if parts is not None:
            found.setdefault(parts, set()).add(record.series)
    return found


def _key(record: Record, complete: Mapping[tuple[str, ...], set[str]]) -> str:
    """Key of a record; one that never came to be does not know the metric that would have been computed."""
    if measured(record) or record.metric is not None:
        return record.series
    likely = complete.get(_parts(record.series) or (), set())
    return next(iter(likely)) if len(likely) == 1 else record.series


def _same_version(found: Pair) -> Pair | Reversioned:
    """Leave out launches of a version that only one side has.

    Two sides without a common version are compared where their last ones differ in evaluation data alone and share
    enough samples, else not at all.
    """
    base, head = _versions(found.base), _versions(found.head)
    if not base or not head:
        return found
    common = base & head
    if not common:
        return _overlapping(found) or _reversioned(found)
    sides = (
        tuple(one for one in side if not measured(one.record) or version_of(one.record) in common)
        for side in (found.base, found.head)
    )
    return Pair(found.series, *sides)


def _overlapping(found: Pair) -> Pair | None:
    """Leave the launches of each side's last version, when their samples overlap."""
    base, head = (next(one for one in reversed(side) if measured(one.record)) for side in (found.base, found.head))
    if _counted_in(base.record) != _counted_in(head.record) or overlap(base, head) is None:
        return None
    sides = (
        tuple(one for one in side if not measured(one.record) or version_of(one.record) == version_of(last.record))
        for side, last in ((found.base, base), (found.head, head))
    )
    return Pair(found.series, *sides)


def _counted_in(record: Record) -> tuple[str | None, ...]:
    accuracy = record.accuracy
    return () if accuracy is None else (accuracy.metric, accuracy.unit, accuracy.better)


def _versions(launches: _Launches) -> set[str]:
    return {version_of(one.record) for one in launches if measured(one.record)}


def _reversioned(found: Pair) -> Reversioned:
    base, head = (next(one.record for one in reversed(s) if measured(one.record)) for s in (found.base, found.head))
    scores = [record.accuracy.candidate if record.accuracy else None for record in (base, head)]
    other_data = base.digests.get("data") != head.digests.get("data")
    unit = head.accuracy.unit if head.accuracy else None
    return Reversioned(
        found.series, head.nodeid, head.model, head.engine_id, head.metric, unit or "", scores[0], scores[1],
        "evaluation data" if other_data else "metric",
    )  # fmt: skip


def _engine(launches: _Launches) -> tuple[object, ...]:
    record = launches[-1].record
    return (record.model, record.backend, record.precision, record.scheme, record.batch_size, record.metric)


def _renamed(removed: Mapping[str, _Launches], added: Mapping[str, _Launches]) -> list[tuple[str, str]]:
    """Pairs of an old and a new key of one engine, metric and batch size, which no other of either side shares."""
    old, new = _by_engine(removed), _by_engine(added)
    both = (engine for engine in old if engine in new)
    return [(old[engine][0], new[engine][0]) for engine in both if len(old[engine]) == len(new[engine]) == 1]


def _by_engine(series: Mapping[str, _Launches]) -> dict[tuple[object, ...], list[str]]:
    found: dict[tuple[object, ...], list[str]] = {}
    for key, launches in series.items():
        found.setdefault(_engine(launches), []).append(key)
    return found


def _rename(old: str, new: str, base: _Launches, head: _Launches) -> Renamed:
    before, after = base[-1].record, head[-1].record
    return Renamed(old, new, before.nodeid, after.nodeid, after.model, after.engine_id)


def _listed(series: str, launches: _Launches) -> Listed:
    record = launches[-1].record
    return Listed(series, record.nodeid, record.model, record.engine_id, record.status.value)
