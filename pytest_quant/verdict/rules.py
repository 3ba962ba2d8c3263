"""The comparison of one figure with one limit, in the direction that the limit's row names."""

from __future__ import annotations

import math

from pytest_quant.result import Status, Verdict
from pytest_quant.spec import Limit

_REL_TOL = 1e-9
"""A drop of 100 * (b - c) / n carries rounding of a few ulps; a limit hit exactly must pass."""


def written(limit: float) -> str:
    """Return a limit as its mark has it: 0.9999999 is not 1, and 1 is 1.0 only where the mark says so."""
    return repr(limit)


def apart(observed: float, allowed: float, digits: int = 6) -> str:
    """Return a figure as text that lies on the same side of the limit as the figure itself.

    Parameters
    ----------
    observed, allowed : the figure and its limit, in one unit.
    digits : significant digits to begin with; more are used where the text would equal or pass the limit.
    """
    texts = (f"{observed:.{more}g}" for more in range(digits, 17))
    sides = (observed > allowed, observed < allowed)
    return next((text for text in texts if (float(text) > allowed, float(text) < allowed) == sides), repr(observed))


def not_measured(limit: str, allowed: float, why: str) -> Verdict:
    """Return INCONCLUSIVE for a limit whose figure is not known.

    Parameters
    ----------
    limit : name of the limit.
    allowed : its value.
    why : reason why there is no figure, for the reader.
    """
    return Verdict(limit, allowed, None, Status.INCONCLUSIVE, f"not measured: {why}")


def at_most(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """Return PASS when `observed` <= `allowed`, up to rounding, else FAIL.

    Parameters
    ----------
    limit : name of the limit.
    allowed, observed : the limit and the figure, in one unit.
    unit : text to append to both in the reason, with its space.
    """
    if observed <= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} is within {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is above {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def at_least(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """Return PASS when `observed` >= `allowed`, up to rounding, else FAIL; parameters as in `at_most`."""
    if observed >= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} reaches {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is below {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def judged(limit: Limit, allowed: float, observed: float | None) -> Verdict:
    """Return the verdict on one figure.

    Parameters
    ----------
    limit : the row of the table of limits, which names direction and unit.
    allowed : value of the limit.
    observed : the figure; ``None`` when it was not measured, which is INCONCLUSIVE.
    """
    if observed is None:
        return not_measured(limit.name, allowed, limit.missing)
    return compared(limit, limit.name, allowed, observed)


def compared(limit: Limit, name: str, allowed: float, observed: float) -> Verdict:
    """Return PASS or FAIL in the direction of the limit's row.

    Parameters
    ----------
    limit : the row of the table of limits.
    name : name of the limit in the verdict, with the output where the limit is for one.
    allowed, observed : the limit and the figure, in the row's unit.
    """
    compare = at_most if limit.is_maximum else at_least
    return compare(name, allowed, observed, limit.suffix)
