"""What a comparison comes to: one word, and the exit code that always agrees with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_quant.history.compare.comparison import Comparison, Listed, Outcome

OK, REGRESSION, INCONCLUSIVE, NO_BASELINE = 0, 1, 3, 4


class Word(StrEnum):
    """The result of a comparison: `regression` with exit code 1 only, `ok` with 0 only, `inconclusive` with 3 only.

    ``no_baseline`` and ``nothing_to_compare`` have 4 under strict and else 0.
    """

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no_baseline"
    NOTHING = "nothing_to_compare"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The word of a comparison, its exit code, and the removed tests that make it a regression."""

    word: Word
    code: int
    missing: tuple[Listed, ...] = ()


def rule(comparison: Comparison, *, strict: bool = False, full_suite: bool = False) -> Ruling:
    """Return what a comparison comes to: a regression, or under `strict` what cannot be decided, or neither.

    Parameters
    ----------
    comparison : of two commits.
    strict : ``inconclusive`` where a quantity could not be judged, with too few launches for example, or where a test
        fails in some launches of the head and in none of the base; ``no_baseline`` where there is no base at all, or
        the base does not have a quantity, a machine or a version of the data. An added test is none of these.
    full_suite : base and head ran every test, so that a missing one was removed, which is a regression unless the
        removal was accepted.
    """
    missing = tuple(one for one in comparison.removed if not one.accepted) if full_suite else ()
    if missing or comparison.having(Outcome.REGRESSION):
        return Ruling(Word.REGRESSION, REGRESSION, missing)
    no_base = NO_BASELINE if strict else OK
    if not comparison.head.checks:
        return Ruling(Word.NOTHING, OK if comparison.base.checks else no_base)
    if not comparison.base.checks:
        return Ruling(Word.NO_BASELINE, no_base)
    if strict and _undecided(comparison):
        return Ruling(Word.INCONCLUSIVE, INCONCLUSIVE)
    if strict and (comparison.having(Outcome.NO_BASELINE) or comparison.reversioned):
        return Ruling(Word.NO_BASELINE, NO_BASELINE)
    return Ruling(Word.OK, OK)


def _undecided(comparison: Comparison) -> bool:
    return any(row.advisory for row in comparison.rows) or bool(comparison.having(Outcome.INCONCLUSIVE))
