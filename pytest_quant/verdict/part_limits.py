"""Verdicts on the drop of parts that are judged together: tasks, labels, groups, or outputs with a metric each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Status, TaskScore, Verdict
from pytest_quant.spec import Limits
from pytest_quant.stats.holm import holm
from pytest_quant.verdict.rules import drop_suffix, explain_coarseness, judge_by_value, mark_unmeasured

_MOST_NAMED = 4


def part_verdicts(limits: Limits, accuracy: AccuracyResult, confidence: float | None) -> Iterator[Verdict]:
    """Yield a verdict on the labels, on the groups, and on each output whose drop has a limit.

    Outputs are judged as the whole is, on the measured drop where it is a fact. Which of many labels or groups is the
    worst is a matter of luck as well, so that these are judged on their intervals.

    Parameters
    ----------
    confidence : level of proof that is asked for, 0..1; ``None`` without.
    """
    families = {"label": accuracy.by_label, "group": accuracy.by_group}
    heads = after_holm(row for row in accuracy.by_head if row.name in limits.drops)
    is_fact = confidence is None and not accuracy.varies
    for part, allowed in limits.drops.items():
        limit = f"max_drop[{part}]"
        if part in families:
            rows = after_holm(row for row in families[part] if row.name or confidence is None)
            yield judge_together(limit, allowed, rows, accuracy, f"{part} ", is_fact=False)
        elif part != "overall":
            rows = [row for row in heads if row.name == part]
            yield judge_together(limit, allowed, rows, accuracy, None, is_fact=is_fact)


def after_holm(rows: Iterable[TaskScore]) -> list[TaskScore]:
    """Return the rows with the p values that Holm adjusts; the row of several parts, which has no name, as it is."""
    rows = list(rows)
    named = [row for row in rows if row.name]
    p_values = holm([1.0 if row.p is None else row.p for row in named])
    adjusted = [replace(row, p=p) for row, p in zip(named, p_values, strict=True)]
    return adjusted + [row for row in rows if not row.name]


def judge_together(
    limit: str, allowed: float, rows: Sequence[TaskScore], accuracy: AccuracyResult, of: str | None, *, is_fact: bool
) -> Verdict:
    """Judge the drop of each of several parts, and name the worst.

    Each has a one-sided test that its drop is within the limit, and Holm's adjustment keeps any false FAIL among all of
    them at half of 1 - confidence. They PASS if the interval of each lies within the limit. Parts that this leaves open
    PASS if the interval of all their samples does, unless a drop above the limit is more than single samples.

    Parameters
    ----------
    rows : of the parts, with p as `after_holm` has it, and without a name that of the open ones together.
    of : stands before the name of a part; ``None`` for a part that the limit names.
    is_fact : judges a part by its drop, unless a single sample weighs more than the limit.
    """
    parts = [row for row in rows if row.name]
    if not parts:
        return mark_unmeasured(limit, allowed, accuracy.note or "no metric could be computed")
    unit = drop_suffix(parts[0].unit or accuracy.unit)
    bound = f"{allowed!r}{unit}"
    broken: list[tuple[TaskScore, str]] = []
    undecided: list[TaskScore] = []
    is_far = False
    for row in parts:
        is_few = bool(explain_coarseness(row.n, _weight(row, accuracy), allowed, unit))
        is_above = judge_by_value(limit, allowed, _drop_of(row), unit).status is Status.FAIL
        if is_fact and not is_few:
            broken += [(row, "")] if is_above else []
        elif row.p is not None and row.p <= (1.0 - accuracy.confidence) / 2.0:
            over = f" after Holm over {len(parts)}" if len(parts) > 1 else ""
            broken.append((row, f"p {row.p:.2g}{over}, "))
        elif row.drop_ci is None or row.drop_ci.high > allowed:
            undecided.append(row)
            is_far = is_far or (is_above and not is_few)

    def told(row: TaskScore) -> str:
        name = "" if of is None else f"{of}{row.name} " if row.name else "together "
        ends = "" if row.drop_ci is None else f" [{row.drop_ci.low:.4g}, {row.drop_ci.high:.4g}]"
        return f"{name}{'no score' if row.drop is None else f'{row.drop:.4g}{ends}{unit}'}"

    if broken:
        worst, p_text = max(broken, key=lambda pair: _drop_of(pair[0]))
        more = f", the worst of {len(broken)}" if len(broken) > 1 else ""
        figure = told(replace(worst, drop_ci=None))
        reason = f"{figure} is above {bound}{more} ({p_text}n {worst.n})"
        return Verdict(limit, allowed, worst.drop, Status.FAIL, reason)
    worst = max(undecided or parts, key=_drop_of)
    if not undecided:
        return Verdict(limit, allowed, worst.drop, Status.PASS, f"{told(worst)} is within {bound} (n {worst.n})")
    whole = next((row for row in rows if not row.name), None)
    if whole is None or whole.drop_ci is None or whole.drop_ci.high > allowed or is_far:
        which = f"{len(undecided)} of {len(parts)} intervals are" if len(parts) > 1 else "the interval is"
        reason = f"{which} not within {bound}, as of {told(worst)} (n {worst.n}); more samples would decide"
        return Verdict(limit, allowed, worst.drop, Status.INCONCLUSIVE, reason)
    few = sorted(undecided, key=lambda row: row.n)
    named = ", ".join(f"{of}{row.name} (n {row.n})" for row in few[:_MOST_NAMED])
    more = f" and {len(few) - _MOST_NAMED} more" if len(few) > _MOST_NAMED else ""
    reason = f"{told(whole)} is within {bound} for {named}{more}, which are too few samples each"
    return Verdict(limit, allowed, worst.drop, Status.PASS, reason)


def _drop_of(row: TaskScore) -> float:
    return -math.inf if row.drop is None else row.drop


def _weight(row: TaskScore, accuracy: AccuracyResult) -> float | None:
    """Return the most that one sample of a part can change its score; ``None`` for a score without bounds."""
    if row.unit or accuracy.sample_weight is None:
        return 100.0 / row.n if row.unit == "%" else None
    return accuracy.sample_weight * accuracy.n / row.n
