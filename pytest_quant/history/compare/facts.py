"""Facts compared without a test: status, size, coverage, nodes, and the ingredients that may explain a change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_quant.history.compare.comparison import Difference, Outcome, Row, choose_outcome
from pytest_quant.history.compare.pairing import Pair, is_measured, reason, row_of, select_common_machines
from pytest_quant.history.rows import StoredCheck, group_items, is_second_pass
from pytest_quant.record import Record
from pytest_quant.result import Stage, Status


def explain_row(row: Row, pair: Pair) -> Row:
    """Return a row that changed with what else differs; a test that is expected to fail fails no comparison."""
    if row.outcome is Outcome.REGRESSION and pair.head[-1].record.expected:
        row = replace(row, outcome=Outcome.WORSE, notes=(*row.notes, "the test is expected to fail (xfail)"))
    return replace(row, differs=find_differences(pair)) if row.changed else row


def find_differences(pair: Pair) -> tuple[Difference, ...]:
    """Return the properties that differ between the last launches of base and head.

    What the mark asks, reference and provider come first, then digests, the machine, and the versions of libraries. Of
    a check that was not measured, only what is known of it counts.
    """
    base, head = pair.base[-1], pair.head[-1]
    both = is_measured(base.record) and is_measured(head.record)
    asked = {*(base.record.asked or ()), *(head.record.asked or ())}
    if None in (base.record.asked, head.record.asked):
        asked = set()
    facts, digests, *surroundings = zip(_facts(base, asked), _facts(head, asked), strict=True)
    differing = [
        *_list_differences(*facts),
        *(replace(each, name=f"{each.name} digest", digest_of=each.name) for each in _list_differences(*digests)),
        *(each for kind in surroundings for each in _list_differences(*kind)),
    ]
    return tuple(each for each in differing if both or each.name in asked or None not in (each.base, each.head))


def explains(difference: Difference, stage: Stage, asked: Collection[str]) -> bool:
    """Whether a loss at this stage may come from a difference.

    Parameters
    ----------
    asked : keys of the mark, see `Record.asked`.
    """
    about = difference.digest_of or difference.name
    of_calibration = about.startswith("calibration")
    if stage in ("calibration", "range"):
        return of_calibration
    if stage in ("weights", "layer", "export"):
        return about in ("model", "quantized model") or (about in asked and not of_calibration)
    return stage == "kernels" and not difference.digest_of and about not in asked


def _facts(check: StoredCheck, asked: Collection[str]) -> Iterator[Mapping[str, str]]:
    record, environment = check.record, check.run.environment
    facts = {
        "calibration": record.calibration,
        "calibration samples": None if record.calibration_samples is None else str(record.calibration_samples),
        "threads": None if record.threads is None else str(record.threads),
        "reference": record.reference,
        "latency compared with": (record.latency.compared_with or None) if record.latency else None,
        "provider": record.coverage.provider if record.coverage else None,
        "samples": str(record.accuracy.n) if record.accuracy else None,
    }
    # What was measured says more than what was asked: how many samples there were, and threads by default.
    written = {name: value for name, value in (record.asked or {}).items() if name in asked}
    yield written | {name: value for name, value in facts.items() if value is not None}
    yield {name.replace("_", " "): value for name, value in record.digests.items()}
    yield environment.identity
    yield environment.context


def _list_differences(base: Mapping[str, str], head: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*base, *head]):
        if base.get(name) != head.get(name):
            yield Difference(name, base.get(name), head.get(name))


BROKEN = (Status.ERROR, Status.FAIL)


def compare_statuses(pair: Pair) -> Row:
    """Return the row of the commonest status of the launches at base and at head, the worst of equally common ones.

    The same status at both is INCONCLUSIVE where some launches of the head fail and none of the base.
    """
    base, head = _usual(pair.base), _usual(pair.head)
    notes = (*_note_others("base", pair.base, base), *_note_others("head", pair.head, head))
    notes += () if is_measured(pair.head[-1].record) else (reason(pair.head[-1].record),)
    row = replace(row_of(pair, "status", base.value, head.value), notes=notes)
    outcome = _outcome(base, head)
    if outcome is Outcome.UNCHANGED and _fails(pair.head) and not _fails(pair.base):
        outcome = Outcome.INCONCLUSIVE
    return replace(row, outcome=outcome)


def _fails(launches: tuple[StoredCheck, ...]) -> bool:
    return any(check.record.status in BROKEN for check in launches)


def _outcome(base: Status, head: Status) -> Outcome:
    if base is head:
        return Outcome.UNCHANGED
    if head is Status.UNAVAILABLE:
        return Outcome.INCONCLUSIVE
    if base is Status.UNAVAILABLE:
        return Outcome.NO_BASELINE
    if (base in BROKEN) == (head in BROKEN):
        return Outcome.CHANGED
    return Outcome.REGRESSION if head in BROKEN else Outcome.IMPROVEMENT


def _usual(launches: tuple[StoredCheck, ...]) -> Status:
    """Return the commonest status; of two passes that are not joined each has one, and the worse counts."""
    of_passes = group_items(launches, lambda launch: is_second_pass(launch.record)).values()
    return min(map(_commonest, of_passes), key=list(Status).index)


def _commonest(launches: Sequence[StoredCheck]) -> Status:
    counts = Counter(launch.record.status for launch in launches)
    # `Status` lists its words worst first, and `max` takes the first of equals.
    return max(Status, key=lambda status: counts[status])


def _note_others(name: str, launches: tuple[StoredCheck, ...], usual: Status) -> tuple[str, ...]:
    """Return a note that counts the launches with another status, if there are any."""
    others = Counter(launch.record.status.value for launch in launches if launch.record.status is not usual)
    if not others:
        return ()
    counts = ", ".join(f"{status} in {number}" for status, number in sorted(others.items()))
    return (f"{counts} of {len(launches)} launches of the {name}",)


MIN_SIZE_CHANGE_PCT = 1.0
"""A file that grows by less is no regression: names and versions inside it take a few bytes."""

T = TypeVar("T", bound=Hashable)


def compare_exact(pair: Pair) -> Iterator[Row]:
    """Yield the rows of size and coverage, if both base and head have them.

    Where launches of one commit differ their values form a range, and base and head differ when their ranges do not
    overlap. Nothing is a regression on another machine, where a runtime may build another engine.
    """
    common, same_machine = select_common_machines(pair)
    sizes = _both(common, lambda record: record.resources.size_mb if record.resources else None)
    shares = _both(common, lambda record: record.coverage.pct if record.coverage else None)
    of_both = [(row_for, *values) for row_for, values in ((_size, sizes), (_coverage, shares)) if all(values)]
    for row_for, base, head in of_both:
        row = row_for(common, base, head)
        if row.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT) and not same_machine:
            outcome = choose_outcome(row.outcome is Outcome.REGRESSION, proven=False)
            row = replace(row, outcome=outcome, notes=(*row.notes, "other machine, so it does not gate"))
        yield row


def _size(pair: Pair, base: list[float], head: list[float]) -> Row:
    was, now = base[-1], head[-1]
    change = 100.0 * (now / was - 1.0) if was > 0.0 else None
    row = replace(row_of(pair, "size", was, now, "MB", "lower"), change=change, notes=_find_varying(base, head))
    # A few bytes more are no change that its figures could show.
    if not _are_apart(base, head) or f"{was:.4g}" == f"{now:.4g}":
        return row
    is_material = min(was, now) <= 0.0 or abs(math.log(now / was)) >= math.log1p(MIN_SIZE_CHANGE_PCT / 100.0)
    return replace(row, outcome=choose_outcome(min(head) > max(base), proven=is_material))


def _coverage(pair: Pair, base: list[float], head: list[float]) -> Row:
    """Return the row of the coverage, whose nodes by operator type are neither better nor worse."""
    row = row_of(pair, "coverage", base[-1], head[-1], "%", "higher")
    row = replace(row, change=head[-1] - base[-1], notes=_find_varying(base, head))
    units = _both(pair, lambda record: record.coverage.unit if record.coverage else None)
    nodes = _both(pair, _count_by_op)
    if not set(nodes[0]) & set(nodes[1]):
        row = replace(row, outcome=Outcome.CHANGED, notes=(*row.notes, _nodes(nodes[0][-1], nodes[1][-1])))
    if set(units[0]) != set(units[1]):
        return replace(row, outcome=Outcome.CHANGED, notes=(*row.notes, "counted in other units: MACs against nodes"))
    if not _are_apart(base, head):
        return row
    return replace(row, outcome=choose_outcome(max(head) < min(base), proven=True))


_Ops = tuple[tuple[str, str], ...]


def _count_by_op(record: Record) -> _Ops | None:
    if record.coverage is None:
        return None
    return tuple(sorted((op.op_type, f"{op.quantized_nodes}/{op.nodes}") for op in record.coverage.by_op))


def _nodes(base: _Ops, head: _Ops) -> str:
    before, after = dict(base), dict(head)
    ops = [op for op in sorted({*before, *after}) if before.get(op) != after.get(op)]
    changes = ", ".join(f"{op} {before.get(op, '0/0')} -> {after.get(op, '0/0')}" for op in ops)
    return f"quantized of all nodes: {changes}"


def _both(pair: Pair, read: Callable[[Record], T | None]) -> tuple[list[T], list[T]]:
    """Return the values of all launches of base and head that have one, oldest first."""
    base, head = (
        [value for launch in side if (value := read(launch.record)) is not None] for side in (pair.base, pair.head)
    )
    return base, head


def _are_apart(base: list[float], head: list[float]) -> bool:
    return max(base) < min(head) or max(head) < min(base)


def _find_varying(base: list[T], head: list[T]) -> tuple[str, ...]:
    sides = (("base", base), ("head", head))
    return tuple(f"it varies between launches of the {name}" for name, values in sides if len(set(values)) > 1)
