"""Words and numbers that results are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias


class Status(StrEnum):
    """The one word of a verdict, worst first."""

    ERROR = "ERROR"
    FAIL = "FAIL"
    UNAVAILABLE = "UNAVAILABLE"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    PASS = "PASS"  # nosec B105 # noqa: S105 - a status, not a secret


Better: TypeAlias = Literal["higher", "lower"]
"""Which way a metric is better."""


Count: TypeAlias = Annotated[int, ("minimum", 0)]
"""A number of things. What this and the next types say beyond their type are words of JSON Schema."""


Positive: TypeAlias = Annotated[int, ("minimum", 1)]
"""A number of things of which there is one at least."""


Percent: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 100)]
"""A share in points of a hundred."""


Probability: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 1)]


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval in the unit of what it encloses."""

    low: float
    high: float
