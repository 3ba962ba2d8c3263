"""Commits measured in two passes: accuracy on any machine, latency on runners of its own, and one record of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_quant.history.rows import StoredCheck, describe_identity, group_items, is_second_pass
from pytest_quant.result import Status, Verdict
from pytest_quant.spec import limits_on
from pytest_quant.verdict import worst
from pytest_quant.verdict.doubt import is_on_accuracy


def join_passes(checks: Sequence[StoredCheck]) -> list[StoredCheck]:
    """Return `checks` with the records of both passes over one commit, series and digests as one, see `join`.

    Each record of latency gets the last one of accuracy, which then stands for all that are equal to it. Where digests
    differ, as those of an engine that was built for another instruction set, both stay, with a note that names them.

    Parameters
    ----------
    checks : of runs with a clean tree, oldest first.
    """
    firsts = group_items(filter(_is_first, checks), _subject)
    seconds = group_items((check for check in checks if is_second_pass(check.record)), _subject)
    result = []
    for check in checks:
        of_accuracy, of_latency = firsts.get(_subject(check), []), seconds.get(_subject(check), [])
        first = _last_alike(check, of_accuracy)
        if is_second_pass(check.record):
            result.append(_explain_separation(check, of_accuracy) if first is None else join(first, check))
        elif not _is_first(check) or first is None:
            result.append(check)
        elif _last_alike(check, of_latency) is None:
            result.append(_explain_separation(check, of_latency))
        elif check.record.accuracy != first.record.accuracy:
            result.append(check)
    return result


def join(first: StoredCheck, second: StoredCheck) -> StoredCheck:
    """Return one record of both passes, as a launch on the machine of the second.

    Each verdict is that of the pass that measured its figure, and that on coverage, which both read back, the worse
    one. The status is the worst of them.

    Parameters
    ----------
    first : with accuracy and coverage.
    second : of the same series and digests, with latency and what the engine takes.
    """
    accuracy, latency = first.record, second.record
    verdicts = _verdicts(accuracy.verdicts or (), latency.verdicts or ())
    record = replace(
        latency,
        status=worst(verdicts),
        verdicts=verdicts,
        accuracy_off="",
        cache={**(accuracy.cache or {}), **(latency.cache or {})},
        notes=tuple(dict.fromkeys((*accuracy.notes, *latency.notes))),
        hints=tuple(dict.fromkeys((*accuracy.hints, *latency.hints))),
        expected=accuracy.expected or latency.expected,
        **{name: getattr(accuracy, name) for name in ("metric", "accuracy", "coverage", "confidence", "isa")},
    )
    return _add_note(StoredCheck(second.run, record, first), _machines(first, second))


def _verdicts(first: Iterable[Verdict], second: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return a verdict for each limit of either pass; a mark may set some on one machine only."""
    verdicts = {verdict.limit: verdict for verdict in first}
    order = list(Status)
    for verdict in second:
        before = verdicts.get(verdict.limit, verdict)
        if verdict.limit in limits_on("coverage"):
            verdicts[verdict.limit] = min(before, verdict, key=lambda each: order.index(each.status))
        else:
            verdicts[verdict.limit] = before if is_on_accuracy(verdict.limit) else verdict
    return tuple(verdicts.values())


def _is_first(check: StoredCheck) -> bool:
    return check.record.accuracy is not None and check.record.latency is None and bool(check.record.latency_off)


def _subject(check: StoredCheck) -> tuple[str | None, str]:
    return check.run.commit, check.record.series


def _last_alike(check: StoredCheck, others: Sequence[StoredCheck]) -> StoredCheck | None:
    return next((other for other in reversed(others) if other.record.digests == check.record.digests), None)


def _explain_separation(check: StoredCheck, others: Sequence[StoredCheck]) -> StoredCheck:
    """Return a record of one pass with the reason why it is not joined with the other pass, if there is a reason."""
    if not others:
        return check
    mine, its = check.record.digests, others[-1].record.digests
    names = ", ".join(name.replace("_", " ") for name in {**mine, **its} if mine.get(name) != its.get(name))
    first, second = (check, others[-1]) if _is_first(check) else (others[-1], check)
    return _add_note(check, f"not joined, for other digests of: {names} ({_machines(first, second)})")


def _add_note(check: StoredCheck, note: str) -> StoredCheck:
    passes = f"two passes, {note}"
    return replace(check, record=replace(check.record, notes=(passes, *check.record.notes)), passes=passes)


def _machines(first: StoredCheck, second: StoredCheck) -> str:
    machines = [", ".join(describe_identity(check.run.environment.identity)) for check in (first, second)]
    return f"accuracy: {machines[0]}; latency: {machines[1]}"
