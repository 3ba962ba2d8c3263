"""A task metric: the user's callable, a metric of scikit-learn or torchmetrics, or a built-in one."""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import UsageError
from pytest_quant.result import Better

Array = NDArray[Any]

Outputs = Array | dict[str, Array]
"""Outputs (n, ...) that a metric reads: a single one, or several by name."""

_UNSAID: Any = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A user-defined metric: a function, and the direction and unit of its scores.

    Parameters
    ----------
    fn : a callable ``(outputs, labels) -> one score per sample`` of some consecutive samples, with outputs (n, ...).
        For a ratio of sums, as errors by words, it returns ``{"numerator": (n,), "denominator": (n,)}``, and the score
        is the sum of the one by the sum of the other; `better` has to be given then.
        Labels that are numbers of one shape are passed as int64 or float64 (n, ...), all others as an object array (n,)
        of the labels in the data: texts, lists, dicts, arrays of different shapes. Iterate it as a list:
        ``zip(outputs, labels)``. Both are copies, which `fn` may write into;
        or a torchmetrics metric object; or a function of ``sklearn.metrics``, also in a ``functools.partial``.
        The last two are defined on the whole set, so that outputs and labels of all samples are kept for them.
    better : ``"higher"``, the default, or ``"lower"``; a positive drop always means that the candidate is worse.
    unit : of a score after scaling, by default ``"%"``, for shares. A function that is named as an error, a loss or a
        deviance has no default for `better` and `unit`: most are in the unit of what they measure, some are shares.
    scale : a score times `scale` is in `unit`; by default 100 for ``"%"``, which converts a share, else 1.
    name : of the metric in tables; by default the name of `fn`.
    outputs : ``"named"``, the default: `fn` gets the output that the mark names, else the first one, as an array; of
        several that it names, a dict of arrays (n, ...) by name. ``"all"``: always a dict, of all outputs of the model
        where the mark names none.
    has_direction : whether `better` was given.

    Raises
    ------
    UsageError : `better` or `outputs` is neither word, `fn` cannot be called, `scale` is not a positive number, or the
        direction or the unit of an error is not given.
    """

    fn: Callable[..., object]
    better: Better = _UNSAID
    unit: str = _UNSAID
    scale: float = _UNSAID
    name: str = field(default="")
    outputs: Literal["named", "all"] = "named"
    has_direction: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration, and find what is not given: direction, unit, scale and name."""
        if not callable(self.fn):
            raise UsageError("Metric: fn must be callable", value=repr(self.fn), fix="Metric(fn, better='higher')")
        if isinstance(self.fn, type):
            raise UsageError("Metric: fn is a class", value=repr(self.fn), fix=f"give an object, {self.fn.__name__}()")
        unsaid = [option for option in ("better", "unit") if getattr(self, option) is _UNSAID]
        object.__setattr__(self, "has_direction", "better" not in unsaid)
        if unsaid and is_of_errors(self.fn):
            what = f"Metric: {_name(self.fn)} is an error by its name, which gives no direction and no unit"
            raise UsageError(what, value=f"no {' and no '.join(unsaid)}", fix=f"write {OF_ERRORS}")
        shares = self.unit in (_UNSAID, "%")
        for option, value in (("better", "higher"), ("unit", "%"), ("scale", 100.0 if shares else 1.0)):
            if getattr(self, option) is _UNSAID:
                object.__setattr__(self, option, value)
        _check_word("better gives the direction", self.better, "higher", "lower")
        _check_word("outputs says which ones fn reads", self.outputs, "named", "all")
        if not isinstance(self.unit, str):
            raise UsageError("Metric: unit must be text", value=repr(self.unit), fix="unit='' for a plain number")
        is_number = isinstance(self.scale, Real) and not isinstance(self.scale, bool)
        if not is_number or not 0.0 < float(self.scale) < math.inf:
            raise UsageError(
                "Metric: scale must be a positive number", value=repr(self.scale), fix="scale=1, unit='' keeps scores"
            )
        object.__setattr__(self, "scale", float(self.scale))
        if not self.name:
            object.__setattr__(self, "name", _name(self.fn))


def _check_word(what: str, value: str, *allowed: str) -> None:
    if value not in allowed:
        raise UsageError(f"Metric: {what}", value=repr(value), allowed=", ".join(allowed))


OF_ERRORS = "Metric(fn, better='lower', unit='', scale=1) for a quantity, or unit='%', scale=100 for a share"
"""How a function that is named as an error may be wrapped."""


def is_of_errors(fn: Callable[..., object]) -> bool:
    """Whether `fn` is an error, loss or deviance by its name, which libraries give to shares and quantities alike."""
    return _name(fn).lower().endswith(("error", "loss", "deviance", "deviancescore"))


def _name(fn: Callable[..., object]) -> str:
    inner = innermost(fn)
    return getattr(inner, "__name__", type(inner).__name__)


def innermost(fn: Callable[..., object]) -> Callable[..., object]:
    """Return the function inside any nesting of ``functools.partial``."""
    while isinstance(fn, partial):
        fn = fn.func
    return fn


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """A metric ready to score chunks of outputs.

    Attributes
    ----------
    better : ``higher`` or ``lower``.
    statistics : (outputs, labels) of one chunk -> one row for each sample, with all that `aggregate` needs of it.
    outputs : ``one`` is read; or those that are ``named``, a dict of several; or a dict of them or of ``all``.
    against_reference : in place of labels `statistics` gets the outputs of the reference.
    aggregate : rows of any samples -> their score in `unit`.
    rate : a score is `rate` times the mean of one number per sample, so that McNemar's test and score intervals
        apply where each number is 0 or 1; ``None`` for any other score.
    reads_classes : labels are indices of the output's classes.
    reads_objects : labels may have any type; else they must be numbers of one shape.
    answers : number of guesses per sample, k of top-k, so that chance is `answers` / classes; ``None`` where chance has
        no fixed score.
    fewest_classes : smallest number of classes with which an answer can be wrong.
    costly : `aggregate` calls a third party over all samples, so that it is resampled less often.
    is_ratio : `aggregate` is of sums over the samples, as a ratio of two is, and no mean of their own scores.
    prepare : rows of all samples -> a function from the indices of any of them to their score, which costs less than
        `aggregate` at each resample; ``None`` where there is no quicker way.
    identity : names what `aggregate` calls, its version and options; empty where they cannot be known.
    progress : is called with how far a long computation is, for the user.
    kept : returns the text that an earlier run computed under an equal key, else, or where that is empty, computes it.
    """

    name: str
    better: Better
    unit: str
    statistics: Callable[[Any, Any], Array]
    aggregate: Callable[[Array], float]
    rate: float | None = None
    reads_classes: bool = False
    answers: int | None = None
    reads_objects: bool = False
    fewest_classes: int = 2
    costly: bool = False
    is_ratio: bool = False
    prepare: Callable[[Array], Callable[[Array], float]] | None = None
    identity: str = ""
    outputs: Literal["one", "named", "all"] = "one"
    against_reference: bool = False
    progress: Callable[[str], object] = str
    kept: Callable[[str, Callable[[], str]], str] = lambda _, compute: compute()


def ratio_metric(name: str, better: Better, statistics: Callable[[Array, Array], Array]) -> ResolvedMetric:
    """Return the metric ``100 * sum(numerator) / sum(denominator)`` in percent; NaN if the denominators are all 0.

    Parameters
    ----------
    statistics : (outputs, labels) of one chunk -> float64 (n, 2), numerator and denominator of each sample.
    """
    aggregate = partial(_ratio, scale=100.0)
    return ResolvedMetric(name, better, "%", statistics, aggregate, reads_objects=True, is_ratio=True)


def _ratio(rows: Array, scale: float) -> float:
    over, under = rows.sum(axis=0)
    return scale * float(over / under) if under else math.nan


def as_ratio(metric: ResolvedMetric) -> ResolvedMetric:
    """Return a metric of means, whose function turns out to give numerators and denominators, as one of ratios."""
    return replace(metric, aggregate=partial(_ratio, scale=metric.rate or 1.0), rate=None, is_ratio=True)


def resolve_wrapped(metric: Metric) -> ResolvedMetric:
    """Return `metric` ready to score chunks."""
    inner = innermost(metric.fn)
    if all(hasattr(inner, method) for method in ("update", "compute", "reset")):
        # torchmetrics takes tensors, which texts and dicts cannot become.
        return _keep_whole_set(metric, torchmetrics_score(inner))
    if (getattr(inner, "__module__", "") or "").startswith("sklearn."):
        whole = _keep_whole_set(metric, scikit_learn_score(metric.fn, inner))
        return replace(whole, reads_objects=True, identity=_identity(metric.fn, metric.scale))
    return ResolvedMetric(
        metric.name,
        metric.better,
        metric.unit,
        statistics=lambda outputs, labels: _scores(metric, outputs, labels),
        aggregate=lambda scores: metric.scale * float(np.mean(scores)),
        rate=metric.scale,
        reads_objects=True,
        outputs=metric.outputs,
    )


def _identity(fn: Callable[..., object], *options: object) -> str:
    """Return what distinguishes a function of scikit-learn and its options from others; empty if unknown."""
    if isinstance(fn, partial):
        return _identity(fn.func, *options, fn.args, fn.keywords)
    # A function around one of scikit-learn's may have taken its name.
    name = getattr(fn, "__name__", "")
    is_theirs = getattr(sys.modules.get(fn.__module__), name, None) is fn
    try:
        return json.dumps([name, version("scikit-learn"), options], sort_keys=True) if is_theirs else ""
    except TypeError:
        return ""


def _scores(metric: Metric, outputs: Outputs, labels: Array) -> Array:
    """Return the scores of the user's function as float64 (n,), or bool if it returns bool.

    Whatever the function writes into, its arguments or later its result, are copies.
    """
    # Labels are views of the data, and some engines give one array twice: an order of reading does not protect them.
    given = metric.fn(*copy.deepcopy((outputs, labels)))
    if isinstance(given, Mapping):
        return _pairs_of_sums(metric, given, len(labels))
    scores = np.array(given)
    if scores.shape != (len(labels),) or scores.dtype.kind not in "biuf":
        raise UsageError(
            f"metric '{metric.name}' must give one score per sample",
            value=f"an array of shape {scores.shape} and dtype {scores.dtype} for {len(labels)} samples",
            allowed=f"numbers of shape ({len(labels)},)",
            fix="return one number for each row of outputs, not their mean",
        )
    return scores if scores.dtype.kind == "b" else scores.astype(np.float64)


RATIO_KEYS = ("numerator", "denominator")
"""Of what a ratio of sums is given as."""


def _pairs_of_sums(metric: Metric, given: Mapping[str, Any], n: int) -> Array:
    """Return numerators and denominators of n samples as float64 (n, 2)."""
    if not metric.has_direction:
        fix = "write better='lower' for errors, or better='higher'"
        raise UsageError(f"metric '{metric.name}' is a ratio, which gives no direction", fix=fix)
    if set(given) == set(RATIO_KEYS):
        columns = [np.asarray(given[key], dtype=np.float64) for key in RATIO_KEYS]
        if all(column.shape == (n,) for column in columns) and np.all(columns[1] >= 0.0):
            return np.stack(columns, axis=1)
    raise UsageError(
        f"metric '{metric.name}' must give a numerator and a denominator for each sample",
        value=", ".join(f"{key} {np.shape(value)}" for key, value in given.items()),
        allowed=f"{{'numerator': ({n},), 'denominator': ({n},)}}, no denominator below 0",
    )


def _keep_whole_set(metric: Metric, score: Score) -> ResolvedMetric:
    """Return a metric that keeps outputs and labels of all samples, because its score is defined on the whole set."""

    def aggregate(rows: Array) -> float:
        return metric.scale * score(rows["label"], rows["output"])

    return ResolvedMetric(metric.name, metric.better, metric.unit, _rows, aggregate, costly=True)


def _rows(outputs: Array, labels: Array) -> Array:
    """Return a structured array (n,), so that the output and label of a sample are resampled together."""
    labels = labels.astype(np.int64) if labels.dtype.kind in "iub" else labels
    sides = ("label", labels), ("output", outputs)
    rows = np.empty(len(outputs), dtype=[(name, side.dtype, side.shape[1:]) for name, side in sides])
    rows["label"], rows["output"] = labels, outputs
    return rows


Score = Callable[[Array, Array], float]
"""(labels, outputs) of any samples -> their score, before scaling."""

_TAKE_PROBABILITIES = frozenset({"brier_score_loss", "d2_brier_score", "d2_log_loss_score", "hinge_loss", "log_loss"})
"""Functions of scikit-learn's classification module that take the model's outputs, not the predicted class."""


def scikit_learn_score(fn: Callable[..., Any], inner: Callable[..., object]) -> Score:
    """Return a score by a function ``(labels, predictions)`` of scikit-learn; `inner` is `fn` without its partials.

    Classification metrics get the class with the largest output; ranking, regression and losses of probabilities get
    the outputs. For two classes ranking metrics get one number, the second output less the first.
    """
    name = getattr(inner, "__name__", "")
    module = inner.__module__ or ""
    takes_classes = module.endswith("_classification") and name not in _TAKE_PROBABILITIES
    ranks = module.endswith("_ranking") or name == "hinge_loss"

    def score(labels: Array, outputs: Array) -> float:
        outputs = _match_shape(labels, outputs)
        if labels.ndim == 1 and outputs.ndim == 2:
            if takes_classes:
                outputs = np.argmax(outputs, axis=1)
            elif ranks and outputs.shape[1] == 2:
                outputs = outputs[:, 1] - outputs[:, 0]
        return float(fn(labels, outputs))

    return score


def torchmetrics_score(metric: Any) -> Score:
    """Return a score by a torchmetrics object, on its own device."""
    torch: Any = sys.modules["torch"]

    def score(labels: Array, outputs: Array) -> float:
        device = getattr(metric, "device", "cpu")
        # Copies, also of one sample: an object may write into tensors.
        given = _match_shape(labels, outputs), labels
        tensors = (torch.from_numpy(np.array(each, order="C")).to(device) for each in given)
        metric.reset()
        metric.update(*tensors)
        value = float(metric.compute())
        metric.reset()
        return value

    return score


def _match_shape(labels: Array, outputs: Array) -> Array:
    """Return outputs in the shape of the labels if both have as many values: (n, 1) becomes (n,)."""
    return outputs.reshape(labels.shape) if outputs.size == labels.size else outputs
