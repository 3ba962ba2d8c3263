"""How a benchmark is judged: by its interval where it has one."""

from __future__ import annotations

import warnings

from pytest_quant.stats.ratio import Estimate


class BeyondLimitError(AssertionError):
    """A figure is beyond its limit."""


class OpenLimitWarning(UserWarning):
    """A figure whose interval covers its limit."""


def at_most(figure: float | Estimate, limit: float, what: str) -> None:
    """Raise when `figure` is above `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (figure.low, figure.high) if isinstance(figure, Estimate) else (figure, figure)
    _judge(low > limit, high > limit, f"{what}: {_shown(figure)}, at most {limit:g} is allowed")


def at_least(figure: float | Estimate, limit: float, what: str) -> None:
    """Raise when `figure` is below `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (figure.low, figure.high) if isinstance(figure, Estimate) else (figure, figure)
    _judge(high < limit, low < limit, f"{what}: {_shown(figure)}, at least {limit:g} is asked for")


def _judge(beyond: bool, covered: bool, message: str) -> None:
    if beyond:
        raise BeyondLimitError(message)
    if covered:
        warnings.warn(f"inconclusive: {message}", OpenLimitWarning, stacklevel=3)


def _shown(figure: float | Estimate) -> str:
    if isinstance(figure, Estimate):
        return f"{figure.value:.4g} [{figure.low:.4g}, {figure.high:.4g}]"
    return f"{figure:.4g}"
