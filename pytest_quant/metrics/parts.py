"""Parts of an evaluation set that are judged together: the row of each label, group, task or output."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from pytest_quant.errors import UsageError
from pytest_quant.metrics.builtin import BUILTIN
from pytest_quant.metrics.drop import PairedStatistics, Sides, add_drop
from pytest_quant.metrics.metric import Array, ResolvedMetric
from pytest_quant.result import AccuracyResult, TaskScore
from pytest_quant.stats.paired import drop_tail
from pytest_quant.stats.runs import NO_NOISE_KNOWN, RunNoise, tail_beyond


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of an evaluation set of n samples that have a limit of their own.

    Attributes
    ----------
    label, group : the largest drop of each label and of each group, in the metric's unit; ``None`` without a limit.
    groups : name of each sample's group (n,); ``None`` without groups.
    inputs : hash of each sample's inputs (n,), since samples with equal inputs count once; ``None`` where not known.
    """

    label: float | None = None
    group: float | None = None
    groups: Array | None = None
    inputs: Array | None = None

    @property
    def clusters(self) -> Array | None:
        """Number of each sample's group (n,), where groups are not judged but depend on each other; else ``None``."""
        if self.groups is None or self.group is not None:
            return None
        return np.unique(self.groups, return_inverse=True)[1]


WHOLE = Parts()
"""No part has a limit."""


def add_parts(result: AccuracyResult, scored: PairedStatistics, parts: Parts) -> AccuracyResult:
    """Return `result` with a row for each label and each group that has a limit.

    The samples of one label have no F1 of their own: a metric in percent that is defined on the whole set only, and
    better when higher, gives way to the share of right answers (top1) there.
    """
    if result.drop is None or (parts.label is None and parts.group is None):
        return result
    sides, places, metric = scored.sides, scored.samples, scored.metric
    clusters, inputs = (None if each is None else each[places] for each in (parts.clusters, parts.inputs))
    if parts.label is not None and scored.labels is not None:
        own, answers = _of_single_samples(metric, sides)
        rows = score_parts(result, own, answers, scored.labels, parts.label, clusters, inputs)
        if own is not metric:
            rows = tuple(replace(row, metric=own.name, unit=own.unit) for row in rows)
        result = replace(result, by_label=rows)
    if parts.group is not None and parts.groups is not None:
        rows = score_parts(result, metric, sides, parts.groups[places], parts.group, None, inputs)
        result = replace(result, by_group=rows)
    return result


def _of_single_samples(metric: ResolvedMetric, sides: Sides) -> tuple[ResolvedMetric, Sides]:
    """Return a metric that samples of one label have, and its statistics."""
    rows = sides[0]
    if metric.rate is not None or metric.is_ratio or (metric.unit, metric.better) != ("%", "higher"):
        return metric, sides
    if rows.dtype.names and rows["output"].ndim == 2:
        first, second = (np.argmax(side["output"], axis=1) == side["label"].reshape(-1) for side in sides)
    elif metric.reads_classes:
        first, second = (side[:, 0] == side[:, 1] for side in sides)
    else:
        return metric, sides
    return BUILTIN["top1"], (first, second)


def score_parts(
    whole: AccuracyResult,
    metric: ResolvedMetric,
    sides: Sides,
    names: Array,
    margin: float,
    clusters: Array | None = None,
    inputs: Array | None = None,
) -> tuple[TaskScore, ...]:
    """Return a row for each part, and a last one, without a name, for all those together that are not within `margin`.

    Parameters
    ----------
    whole : of which the confidence of the intervals is taken.
    sides : of n samples.
    names : of each sample's part (n,); a row has it as text.
    margin : limit on the drop of each part, in the metric's unit.
    clusters, inputs : of each sample (n,), see `Parts`.
    """
    found, codes = np.unique(names, return_inverse=True)

    def row(name: str, chosen: Array) -> TaskScore:
        own = AccuracyResult(int(chosen.sum()), metric.name, metric.unit, metric.better, confidence=whole.confidence)
        own = own if inputs is None else replace(own, n_different=len(np.unique(inputs[chosen])))
        together = None if clusters is None else clusters[chosen]
        # A score of the whole set need not be defined for part of it: the AUC of one class, say.
        with suppress(UsageError):
            own = add_drop(own, sides[0][chosen], sides[1][chosen], metric, margin, together)
        return part_score(own, name, margin)

    # A third party's, about parts for which its score is not defined.
    with warnings.catch_warnings(action="ignore"):
        rows = [row(str(name), codes == code) for code, name in enumerate(found)]
        left_open = [code for code, each in enumerate(rows) if each.drop_ci is None or each.drop_ci.high > margin]
        if left_open:
            rows.append(row("", np.isin(codes, left_open)))
    return tuple(rows)


def part_score(own: AccuracyResult, name: str, margin: float | None, noise: RunNoise = NO_NOISE_KNOWN) -> TaskScore:
    """Return the row of a part from the scores of its samples.

    Parameters
    ----------
    own : of these samples alone.
    margin : limit on the drop of the part, in the metric's unit; ``None`` without one, and then there is no p.
    noise : between runs, that the p allows for.
    """
    score = TaskScore(name, own.n, own.reference, own.candidate, own.drop, own.drop_ci)
    if margin is None or own.drop is None or own.drop_ci is None:
        return score
    # Answers of clusters are not independent, and have no McNemar p.
    if own.p_value is None or own.lost is None or own.discordant is None or not own.sample_weight or noise.variance:
        return replace(score, p=tail_beyond(margin, own.drop, own.drop_ci.low, noise, own.confidence))
    different = own.n_different or own.n
    lost, won = (round(number * different / own.n) for number in (own.lost, own.discordant - own.lost))
    return replace(score, p=drop_tail(lost, won, different, margin / (own.sample_weight * different)))
