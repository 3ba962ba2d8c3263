"""How a benchmark is judged: by its interval where it has one."""

from __future__ import annotations

import warnings

from pytest_quant.stats.ratio import Estimate


class BeyondLimitError(AssertionError):
    """A figure is beyond its limit."""


class OpenLimitWarning(UserWarning):
    """A figure whose interval covers its limit."""


def at_most(found: float | Estimate, limit: float, what: str) -> None:
    """Raise when `found` is above `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (found.low, found.high) if isinstance(found, Estimate) else (found, found)
    _judge(low > limit, high > limit, f"{what}: {_shown(found)}, at most {limit:g} is allowed")


def at_least(found: float | Estimate, limit: float, what: str) -> None:
    """Raise when `found` is below `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (found.low, found.high) if isinstance(found, Estimate) else (found, found)
    _judge(high < limit, low < limit, f"{what}: {_shown(found)}, at least {limit:g} is asked for")


def _judge(beyond: bool, covered: bool, message: str) -> None:
    if beyond:
        raise BeyondLimitError(message)
    if covered:
        warnings.warn(f"inconclusive: {message}", OpenLimitWarning, stacklevel=3)


def _shown(found: float | Estimate) -> str:
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]" if isinstance(found, Estimate) else f"{found:.4g}"
