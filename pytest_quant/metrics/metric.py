"""A metric, as a user gives it and as the evaluation uses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from pytest_quant.errors import UsageError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of your own, with what is needed to read its numbers.

    Parameters
    ----------
    fn : a callable ``(outputs, labels) -> one score per sample``, with outputs (n, ...) and labels (n, ...);
        or a torchmetrics metric object; or a function of ``sklearn.metrics``.
    better : ``"higher"`` or ``"lower"``; a drop is always how much worse the candidate is.
    unit : what a score counts after scaling, ``"%"`` for shares.
    scale : a score times `scale` is in `unit`; 100 turns a share into percent.
    name : what tables call it; the name of `fn` by default.

    Raises
    ------
    UsageError : `better` is neither word, or `scale` is not a positive number.
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
        if isinstance(self.scale, bool) or not (math.isfinite(self.scale) and self.scale > 0):
            raise UsageError(
                "Metric: scale must be a positive number", value=repr(self.scale), fix="scale=1, unit='' keeps scores"
            )
        if not self.name:
            object.__setattr__(self, "name", getattr(self.fn, "__name__", type(self.fn).__name__))


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """A metric ready to score chunks of outputs.

    Attributes
    ----------
    statistics : (outputs, labels) of one chunk -> what is kept of each sample, an array (n,) or (n, k).
    aggregate : the statistics of any samples -> their score in `unit`.
    binary : statistics are right or wrong, so that McNemar's test and score intervals hold.
    reads_classes : labels are indices of the output's classes.
    costly : aggregating calls a third party over all samples, so that it is resampled less often.
    """

    name: str
    better: str
    unit: str
    statistics: Callable[[Array, Array], Array]
    aggregate: Callable[[Array], float]
    binary: bool = False
    reads_classes: bool = False
    costly: bool = False
