"""What a comparison means to the job that asked for it."""

from __future__ import annotations

from collections.abc import Collection

from pytest_quant.history.compare.comparison import Comparison, Listed, Outcome

OK, REGRESSION, INCONCLUSIVE, NO_BASELINE = 0, 1, 3, 4


def exit_code(
    comparison: Comparison, *, strict: bool = False, full_suite: bool = False, accepted: Collection[str] = ()
) -> int:
    """Return 0 when all is well, 1 for a regression, and under `strict` 3 or 4 when that could not be told.

    Parameters
    ----------
    strict : 3 where a quantity could not be judged, with too few launches for example; 4 where there is no base
        at all, or a quantity, a machine or a version of the data that the base does not know. An added test is
        none of these.
    full_suite : base and head ran every test, so that one that is gone was removed, which is a regression too.
    accepted : keys of series whose removal was accepted.
    """
    if comparison.having(Outcome.REGRESSION) or (full_suite and unaccepted(comparison, accepted)):
        return REGRESSION
    if not strict:
        return OK
    if comparison.having(Outcome.INCONCLUSIVE) or any(row.advisory for row in comparison.rows):
        return INCONCLUSIVE
    if not comparison.base.checks or comparison.having(Outcome.NO_BASELINE) or comparison.reversioned:
        return NO_BASELINE
    return OK


def unaccepted(comparison: Comparison, accepted: Collection[str]) -> tuple[Listed, ...]:
    """Return the removed series whose removal nobody accepted."""
    return tuple(one for one in comparison.removed if one.series not in accepted)
