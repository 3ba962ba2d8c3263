"""Words and numbers that results are made of."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, TypeAlias


class Status(StrEnum):
    """The one word of a verdict, worst first."""

    ERROR = "ERROR"
    """The runtime does not load, or the model, the engine or the data is broken; an error of the test's set-up."""

    FAIL = "FAIL"
    """A limit is broken; the test fails."""

    UNAVAILABLE = "UNAVAILABLE"
    """The runtime is not installed or too old, or its device is not in this machine; the test is skipped, and fails
    with ``--quant-require=NAME``."""

    INCONCLUSIVE = "INCONCLUSIVE"
    """Too noisy or too few samples, or a limit that could not be measured here; the test passes with a warning, and
    fails with ``--quant-strict``."""

    NO_BASELINE = "NO_BASELINE"
    """A limit against a baseline, and nothing to compare with; the test passes with a note, and fails with
    ``--quant-strict``."""

    PASS = "PASS"  # nosec B105 # noqa: S105 - a status, not a secret
    """Within every limit; the test passes."""


Better: TypeAlias = Literal["higher", "lower"]
"""Which way a metric is better."""


Count: TypeAlias = Annotated[int, ("minimum", 0)]
"""A number of things. What this and the next types say beyond their type are words of JSON Schema."""


Positive: TypeAlias = Annotated[int, ("minimum", 1)]
"""A number of things of which there is one at least."""


Percent: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 100)]
"""A share in points of a hundred."""


Probability: TypeAlias = Annotated[float, ("minimum", 0), ("maximum", 1)]


class Interval(NamedTuple):
    """A two-sided confidence interval in the unit of what it encloses. In a document, a list of the two numbers.

    Attributes
    ----------
    low : its lower end.
    high : its upper end.
    """

    low: float
    high: float
