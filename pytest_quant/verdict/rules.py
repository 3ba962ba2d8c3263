"""The two comparisons every point limit comes down to, and the one that its row asks for."""

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
    """Return a figure with so many significant digits, or more, that it lies on its own side of the limit."""
    texts = (f"{observed:.{more}g}" for more in range(digits, 17))
    sides = (observed > allowed, observed < allowed)
    return next((text for text in texts if (float(text) > allowed, float(text) < allowed) == sides), repr(observed))


def not_measured(limit: str, allowed: float, why: str) -> Verdict:
    """A limit that nothing was found for: never PASS."""
    return Verdict(limit, allowed, None, Status.INCONCLUSIVE, f"not measured: {why}")


def at_most(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """PASS when `observed` <= `allowed`."""
    if observed <= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} is within {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is above {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def at_least(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """PASS when `observed` >= `allowed`."""
    if observed >= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        reason = f"{observed:.6g}{unit} reaches {written(allowed)}{unit}"
        return Verdict(limit, allowed, observed, Status.PASS, reason)
    reason = f"{apart(observed, allowed)}{unit} is below {written(allowed)}{unit}"
    return Verdict(limit, allowed, observed, Status.FAIL, reason)


def judged(limit: Limit, allowed: float, observed: float | None) -> Verdict:
    """Judge one figure by its row; ``None`` is not measured."""
    if observed is None:
        return not_measured(limit.name, allowed, limit.missing)
    return compared(limit, limit.name, allowed, observed)


def compared(limit: Limit, name: str, allowed: float, observed: float) -> Verdict:
    """Compare in the direction of the row; `name` is what the verdict calls the limit."""
    compare = at_most if limit.is_maximum else at_least
    return compare(name, allowed, observed, limit.suffix)
