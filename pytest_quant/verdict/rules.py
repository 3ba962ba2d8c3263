"""The two comparisons every point limit comes down to."""

from __future__ import annotations

import math

from pytest_quant.result import Status, Verdict

_REL_TOL = 1e-9
"""A drop of 100 * (b - c) / n carries rounding of a few ulps; a limit hit exactly must pass."""


def not_measured(limit: str, allowed: float, why: str) -> Verdict:
    """A limit that nothing was found for: never PASS."""
    return Verdict(limit, allowed, None, Status.INCONCLUSIVE, f"not measured: {why}")


def at_most(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """PASS when `observed` <= `allowed`."""
    if observed <= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        return Verdict(limit, allowed, observed, Status.PASS, f"{observed:.6g}{unit} is within {allowed:g}{unit}")
    return Verdict(limit, allowed, observed, Status.FAIL, f"{observed:.6g}{unit} is above {allowed:g}{unit}")


def at_least(limit: str, allowed: float, observed: float, unit: str) -> Verdict:
    """PASS when `observed` >= `allowed`."""
    if observed >= allowed or math.isclose(observed, allowed, rel_tol=_REL_TOL, abs_tol=_REL_TOL):
        return Verdict(limit, allowed, observed, Status.PASS, f"{observed:.6g}{unit} reaches {allowed:g}{unit}")
    return Verdict(limit, allowed, observed, Status.FAIL, f"{observed:.6g}{unit} is below {allowed:g}{unit}")
