"""Accuracy: outputs of reference and candidate compared over one evaluation set. Measures, and never judges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_quant.backends import Outputs
from pytest_quant.measure.choices import Head, labels_of_head
from pytest_quant.metrics.channels import split
from pytest_quant.metrics.classes import IGNORED, ClassError, WordAgreement, are_probabilities, is_text, token_labels
from pytest_quant.metrics.drop import PairedStatistics
from pytest_quant.metrics.metric import Array, ResolvedMetric
from pytest_quant.metrics.parts import WHOLE, Parts, add_parts, part_score
from pytest_quant.metrics.tensor import (
    ConstantOutput,
    TensorError,
    answered_rows,
    check_reference,
    find_mismatch,
    find_unsound,
    sound_rows,
)
from pytest_quant.result import AccuracyResult, OutputError, OutputFault
from pytest_quant.spec import ChannelGroup


@dataclass(frozen=True, slots=True)
class OutputPair:
    """Outputs of both engines for `n` samples from index `start`, without padding."""

    reference: Outputs
    candidate: Outputs
    labels: Array | None
    start: int
    n: int


def evaluate(
    pairs: Iterable[OutputPair],
    metric: ResolvedMetric | None,
    *,
    output: tuple[str, ...],
    channels: Sequence[ChannelGroup] = (),
    margin: float | None = None,
    confidence: float = 0.95,
    n_different: int | None = None,
    parts: Parts = WHOLE,
    heads: Sequence[Head] = (),
) -> AccuracyResult:
    """Compare all outputs of `pairs`, and score those that `metric` reads.

    An output that cannot be compared becomes a fault in the result, and the other outputs are compared. A sample whose
    output is not finite never agrees and is never right, unless the largest score of its classes is finite; scores
    other than right or wrong, and KL, leave it out for both engines. Minus infinity is no fault of class scores where
    the reference has it for that sample.

    Parameters
    ----------
    pairs : outputs of all samples, in the order of the evaluation set.
    metric : ``None`` compares tensors only.
    output : names of the outputs, or of groups of `channels`, that the metric reads; empty for the first output, or
        all of them for a metric of all. Agreement, KL and worst class are of the first one. Where none is named,
        agreement is also that of each other output with classes: floats (n, k) with as many values as the first, or
        whose rows are probabilities of the reference. The lowest one counts. SQNR, cosine and largest error are the
        worst of all outputs, too, and those of the named ones where there are such.
    channels : groups that are compared separately, in place of the outputs they belong to.
    margin : limit on the drop in the metric's unit, for which the samples needed to decide it are computed.
    confidence : of the drop's interval, 0..1.
    n_different : samples that differ in their inputs, which are what intervals count; ``None`` for all of them.
    parts : labels and groups whose drop has a limit of its own.
    heads : outputs that are scored by a metric each, on labels by output.

    Raises
    ------
    ModelError : the reference gives NaN.
    UsageError : `channels` do not fit, or the metric is not defined for outputs and labels.
    """
    comparison = _Comparison(metric, output, channels, n_different, heads)
    for pair in pairs:
        comparison.add(pair)
        # Outputs may be large: these are gone when the next are made.
        del pair
    result = comparison.result()
    for head, scores in comparison.heads:
        own = scores.add_to(AccuracyResult(result.n, n_different=n_different), head.margin, confidence, parts.clusters)
        row = replace(part_score(own, head.name, head.margin), metric=head.metric.name, unit=head.metric.unit)
        note = " and ".join(filter(None, [result.note, own.note and f"output '{head.name}': {own.note}"]))
        result = replace(result, by_head=(*result.by_head, row), note=note)
    if comparison.scores is None:
        return result
    return add_parts(comparison.scores.add_to(result, margin, confidence, parts.clusters), comparison.scores, parts)


_Sides = tuple[Array, Array, Array]
"""One output of reference and candidate, and the mask (n,) of the samples where both are finite."""


@dataclass(eq=False)
class _Comparison:
    """Accumulates the figures over the pairs: a few numbers of each sample, never its outputs."""

    metric: ResolvedMetric | None
    named: tuple[str, ...]
    channels: Sequence[ChannelGroup]
    n_different: int | None
    scored: Sequence[Head]
    first: str = ""
    n: int = 0
    faults: dict[tuple[str, str], OutputFault] = field(default_factory=dict)
    compared: dict[str, _Compared] = field(default_factory=dict)
    classes: dict[str, ClassError] = field(default_factory=dict)
    no_classes: set[str] = field(default_factory=set)
    words: WordAgreement | None = None

    def __post_init__(self) -> None:
        self.scores = None if self.metric is None else PairedStatistics(self.metric)
        self.heads = [(head, PairedStatistics(head.metric)) for head in self.scored]

    def add(self, pair: OutputPair) -> None:
        """Add a pair: every output of the reference is compared with the candidate's."""
        self.first = (*self.named, *pair.reference)[0]
        self.n += pair.n
        read = self.named or (tuple(pair.reference) if self.metric and self.metric.outputs == "all" else (self.first,))
        sides: dict[str, _Sides] = {}
        for name, reference in pair.reference.items():
            sides.update(self._compare(name, reference, pair.candidate.get(name), pair))
        if self.scores is not None and sides.keys() >= {*read}:
            self._add(self.scores, {name: sides[name] for name in read}, pair, pair.labels)
        for head, scores in self.heads:
            if head.name in sides:
                alone = len(self.heads) == 1
                labels = None if pair.labels is None else labels_of_head(pair.labels, head.name, alone=alone)
                self._add(scores, {head.name: sides[head.name]}, pair, labels)

    def _compare(
        self, name: str, reference: Array, candidate: Array | None, pair: OutputPair
    ) -> Iterator[tuple[str, _Sides]]:
        """Compare an output; yield it, and its groups of channels, as metrics read them, if it can be compared."""
        check_reference(name, reference, pair.start)
        self._note(find_mismatch(name, reference, candidate, pair.start))
        if candidate is None or candidate.shape != reference.shape:
            return
        sound = sound_rows(reference, candidate)
        masked = sound
        if name == self.first:
            masked = self._see_first(reference, candidate, sound, pair.labels)
        elif not self.named:
            self._see_classes(name, reference, candidate, sound, pair.labels)
        self._note(find_unsound(name, candidate, masked, pair.start))
        yield name, (reference, candidate, sound)
        groups = [group for group in self.channels if group.output == name]
        if not groups:
            self.compared.setdefault(name, _Compared(name)).add(reference, candidate, pair.start)
            return
        for (group, ours), (_, theirs) in zip(split(reference, groups), split(candidate, groups), strict=True):
            self.compared.setdefault(group.name, _Compared(group.name, name)).add(ours, theirs, pair.start)
            sound = sound_rows(ours, theirs)
            if group.name == self.first:
                self._see_first(ours, theirs, sound, pair.labels)
            yield group.name, (ours, theirs, sound)

    def _add(
        self, scores: PairedStatistics, read: Mapping[str, _Sides], pair: OutputPair, labels: Array | None
    ) -> None:
        """Score what a metric reads, all samples that are finite in each output."""
        (ours, theirs, _), *_ = read.values()
        sound = np.logical_and.reduce([sound for _, _, sound in read.values()])
        metric = scores.metric
        if metric.reads_classes and not sound.all():
            sound |= answered_rows(ours, theirs)
        sides: Any = (ours, theirs)
        if metric.outputs == "all" or len(read) > 1:
            sides = [{name: both[side] for name, both in read.items()} for side in (0, 1)]
        given = sides[0] if metric.against_reference else labels
        if given is not None:
            scores.add(sides[0], sides[1], given, sound, pair.start)

    def _note(self, fault: OutputFault | None) -> None:
        if fault is not None:
            self.faults.setdefault((fault.output, fault.kind), fault)

    def _see_classes(self, name: str, reference: Array, candidate: Array, sound: Array, labels: Any) -> None:
        """Add an output that the metric does not read, unless one of its chunks shows that it has no classes."""
        first = self.classes.get(self.first)
        may_be = name not in self.no_classes and _may_be_classes(reference, labels)
        if may_be and ((first and first.classes == reference.shape[1]) or are_probabilities(reference)):
            self.classes.setdefault(name, ClassError(reference.shape[1], self.n_different)).add(
                reference, candidate, None, sound
            )
        else:
            self.no_classes.add(name)
            self.classes.pop(name, None)

    def _see_first(self, reference: Array, candidate: Array, sound: Array, labels: Array | None) -> Array:
        """Add what is answered; return `sound`, with the samples whose reference masks other classes by design."""
        answered = masked = sound
        if _may_be_classes(reference, labels, "fiu" if self.metric and self.metric.reads_classes else "f"):
            if not sound.all():
                answered = sound | answered_rows(reference, candidate)
                masked = sound | (answered & np.isneginf(reference).any(axis=1))
            classes = self.classes.setdefault(self.first, ClassError(reference.shape[1], self.n_different))
            classes.add(reference, candidate, _indices(labels), answered)
        elif is_text(reference) and is_text(candidate):
            self.words = self.words or WordAgreement()
            self.words.add(reference, candidate)
        elif (tokens := token_labels(reference, labels)) is not None:
            self._add_tokens(reference, candidate, tokens)
        return masked

    def _add_tokens(self, reference: Array, candidate: Array, labels: Array) -> None:
        """Add scores (n, tokens, vocabulary), a sample at a time: of a chunk they may take gigabytes."""
        for ours, theirs, counted in zip(reference, candidate, labels != IGNORED, strict=True):
            if counted.any():
                classes = self.classes.setdefault(self.first, ClassError(reference.shape[2]))
                r, c = ours[counted], theirs[counted]
                classes.add(r, c, None, sound_rows(r, c))

    def result(self) -> AccuracyResult:
        """Return everything but the scores."""
        compared = tuple(output.figures() for output in self.compared.values() if output.error.equal is not None)
        for output in self.compared.values():
            self._note(output.constant.fault(output.name))
        # As limits on tensors do: a mark that names an output says that the others do not matter.
        judged = [each for each in compared if not self.named or {each.name, each.group_of} & {*self.named}]
        # Outputs of text have no figures, and identical ones are never the worst.
        apart = [each for each in judged if each.max_abs_error is not None and not each.identical] or judged
        nothing = OutputError("", identical=True)
        worst = min(apart, key=lambda output: _sort_key(output.sqnr_db), default=nothing)
        farthest = max(apart, key=lambda output: _sort_key(output.max_abs_error), default=nothing)
        shares = {name: classes.agreement_pct for name, classes in self.classes.items()}
        if self.words is not None:
            shares[self.first] = self.words.agreement_pct
        agreeing = tuple(sorted(shares, key=shares.__getitem__))
        decides = self.classes.get(agreeing[0]) if agreeing else None
        classes = self.classes.get(self.first, ClassError(1))
        # Of another metric the share of right first guesses is no part of the score.
        guesses = self.metric and self.metric.answers
        chances = [classes.chance(guesses, side) if guesses else None for side in (0, 1)]
        return AccuracyResult(
            n=self.n,
            n_different=self.n_different,
            sqnr_db=worst.sqnr_db,
            cosine=min((error.cosine for error in apart), key=_sort_key, default=None),
            max_abs_error=farthest.max_abs_error,
            max_abs_error_sample=farthest.sample,
            by_output=compared,
            worst_output=None if worst.identical else worst.name,
            faults=tuple(self.faults.values()),
            identical=bool(judged) and all(output.identical for output in judged) and not self.faults,
            agreement_pct=shares[agreeing[0]] if agreeing else None,
            agreement_outputs=agreeing,
            agreement_chance=None if decides is None else decides.agreement_chance,
            commonest_pct=None if decides is None else decides.commonest_pct,
            kl=classes.kl,
            chance=chances[0],
            candidate_chance=chances[1],
            skill_lost=classes.skill_lost,
            worst_class=classes.worst_class,
            by_class=classes.by_class if guesses == 1 else (),
            changed=classes.changed,
        )


@dataclass(frozen=True, slots=True)
class _Compared:
    """What accumulates of one output, or of a group of channels of the output `group_of`."""

    name: str
    group_of: str | None = None
    error: TensorError = field(default_factory=TensorError)
    constant: ConstantOutput = field(default_factory=ConstantOutput)

    def add(self, reference: Array, candidate: Array, start: int) -> None:
        """Add outputs (n, ...) of one shape; `start` is the index of the first sample."""
        self.error.add(reference, candidate, start)
        self.constant.add(reference, candidate)

    def figures(self) -> OutputError:
        """Return the error over all samples so far."""
        error, is_constant = self.error, self.constant.reference_constant
        centred = (None, None) if is_constant else (error.centred_sqnr_db, error.centred_cosine)
        largest = error.max_abs_error, error.sample, error.equal is True
        return OutputError(self.name, error.sqnr_db, error.cosine, *largest, is_constant, self.group_of, *centred)


def _sort_key(figure: float | None) -> float:
    """Return a sort key that places a missing figure before all others."""
    return -math.inf if figure is None else figure


def _may_be_classes(outputs: Array, labels: Array | None, kinds: str = "f") -> bool:
    """Whether `outputs` are (n, classes) of these kinds, and labels, if there are any, may be indices of classes."""
    may_be_indices = labels is None or labels.dtype.kind == "O" or _indices(labels) is not None
    return outputs.ndim == 2 and outputs.shape[1] > 1 and outputs.dtype.kind in kinds and may_be_indices


def _indices(labels: Array | None) -> Array | None:
    """Return integer labels (n,) or (n, 1) as (n,); ``None`` if a label has several values, or is no integer."""
    if labels is None or labels.dtype.kind not in "iub" or labels.size != len(labels):
        return None
    return labels.reshape(-1).astype(np.int64)
