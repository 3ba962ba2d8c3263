"""A metric, as a user gives it and as the evaluation uses it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

from numpy.typing import NDArray

from pytest_quant.errors import UsageError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of your own, with what is needed to read its numbers.

    Parameters
    ----------
    fn : a callable ``(outputs, labels) -> one score per sample`` of some consecutive samples, with outputs (n, ...).
        Labels that are numbers of one shape come as int64 or float64 (n, ...). Any others come as an object array
        (n,) that holds what the data gave: texts, lists, dicts, arrays of different shapes. It is read as a list is:
        ``zip(outputs, labels)``;
        or a torchmetrics metric object; or a function of ``sklearn.metrics``, also in a ``functools.partial``.
        The last two are defined on the whole set, so that outputs and labels of all samples are kept for them.
    better : ``"higher"`` or ``"lower"``; a drop is always how much worse the candidate is.
    unit : what a score counts after scaling, ``"%"`` for shares.
    scale : a score times `scale` is in `unit`; 100 turns a share into percent.
    name : what tables call it; the name of `fn` by default.

    Raises
    ------
    UsageError : `better` is neither word, `fn` cannot be called, or `scale` is not a positive number.
    """

    fn: Callable[..., object]
    better: Literal["higher", "lower"] = "higher"
    unit: str = "%"
    scale: float = 100.0
    name: str = field(default="")

    def __post_init__(self) -> None:
        """Check the declaration and find a name."""
        if self.better not in ("higher", "lower"):
            raise UsageError("Metric: better tells the direction", value=repr(self.better), allowed="higher, lower")
        if not callable(self.fn):
            raise UsageError("Metric: fn must be callable", value=repr(self.fn), fix="Metric(fn, better='higher')")
        if isinstance(self.fn, type):
            raise UsageError("Metric: fn is a class", value=repr(self.fn), fix=f"give an object, {self.fn.__name__}()")
        if not isinstance(self.unit, str):
            raise UsageError("Metric: unit must be text", value=repr(self.unit), fix="unit='' for a plain number")
        if not _is_positive(self.scale):
            raise UsageError(
                "Metric: scale must be a positive number", value=repr(self.scale), fix="scale=1, unit='' keeps scores"
            )
        object.__setattr__(self, "scale", float(self.scale))
        if not self.name:
            inner = innermost(self.fn)
            object.__setattr__(self, "name", getattr(inner, "__name__", type(inner).__name__))


def _is_positive(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < math.inf


def innermost(fn: Callable[..., object]) -> Callable[..., object]:
    """Return the function that ``functools.partial`` was put around."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """A metric ready to score chunks of outputs.

    Attributes
    ----------
    statistics : (outputs, labels) of one chunk -> what is kept of each sample, an array of n rows.
    aggregate : the statistics of any samples -> their score in `unit`.
    rate : a score is `rate` times the mean of one number per sample, so that where each number is 0 or 1
        McNemar's test and score intervals hold; ``None`` for any other score.
    reads_classes : labels are indices of the output's classes.
    reads_objects : labels of any type, where otherwise they must be numbers of one shape.
    answers : classes that may hold the right one, so that a guess is right in `answers` of all classes; ``None``
        where a guess has no score of its own.
    fewest_classes : with fewer classes no answer could be wrong.
    costly : aggregating calls a third party over all samples, so that it is resampled less often.
    """

    name: str
    better: str
    unit: str
    statistics: Callable[[Array, Array], Array]
    aggregate: Callable[[Array], float]
    rate: float | None = None
    reads_classes: bool = False
    answers: int | None = None
    reads_objects: bool = False
    fewest_classes: int = 2
    costly: bool = False
