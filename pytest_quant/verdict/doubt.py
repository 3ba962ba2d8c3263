"""Doubts about verdicts on accuracy: worthless engines, evaluations that differ, missing samples and placeholders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, SelfDifference, Status, Verdict
from pytest_quant.spec import PARTS, Dataset, Limits, limits_on
from pytest_quant.verdict.rules import OUTPUTS, mark_unmeasured, withdraw, withdraw_pass


def reference_doubts(accuracy: AccuracyResult, output: tuple[str, ...]) -> tuple[str, ...]:
    """Return why the reference cannot separate good candidates from bad, as ends of sentences; empty if it can.

    `output` names those that the metric reads, empty for the first.
    """
    names = output or [error.name for error in accuracy.by_output[:1]]
    no_skill = _explain_no_skill("reference", accuracy.reference, accuracy.chance, accuracy)
    return tuple(filter(None, [*(_explain_constant(name, accuracy) for name in names), no_skill]))


def _explain_constant(name: str, accuracy: AccuracyResult) -> str:
    """Return that the reference's output of that name never varies; empty if it does."""
    # An output that a mark cuts into groups of channels is compared as these, each named output.group.
    parts = [error for error in accuracy.by_output if error.name == name or error.name.startswith(f"{name}.")]
    is_constant = bool(parts) and all(error.reference_constant for error in parts)
    return f"the reference gives every sample the same '{name}'" if is_constant else ""


def _explain_no_skill(engine: str, score: float | None, chance: float | None, accuracy: AccuracyResult) -> str:
    """Return that a score is no better than answers without a look at the samples reach; empty if it is better."""
    if accuracy.better != "higher" or score is None:
        return ""
    unit = f" {accuracy.unit}" if accuracy.unit else ""
    text = f"the {engine} itself scores {score:.4g}{unit}"
    if chance is not None and score <= chance:
        return f"{text}, and answers score up to {chance:.4g}{unit} without a look at the samples"
    return text if accuracy.unit == "%" and score == 0.0 else ""


def note_unread_outputs(limits: Limits, accuracy: AccuracyResult, output: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note on outputs that differ and that no limit reads; empty too if no limit is on accuracy.

    `output` names those of the mark, empty for the first.
    """
    about = limits_on("score", "reference", "accuracy", "output")
    plain = {limit for limit in about if getattr(limits, limit) is not None} - {limit for limit, _ in limits.by_output}
    plain |= {"max_drop"} if limits.drops.keys() & {*PARTS} else set()
    read = {name for _, name in limits.by_output}
    if not (plain or read) or (not output and plain & {*limits_on("output")}):
        return ()
    if plain - {"min_agreement"}:
        read.update(output or [error.group_of or error.name for error in accuracy.by_output[:1]])
    if "min_agreement" in plain:
        read.update(accuracy.agreement_outputs)
    unread = [each for each in accuracy.by_output if not each.identical and not read & {each.name, each.group_of}]
    if not unread:
        return ()
    worst = min(unread, key=lambda error: math.inf if error.sqnr_db is None else error.sqnr_db)
    sqnr = "" if worst.sqnr_db is None else f" (SQNR {worst.sqnr_db:.4g} dB)"
    more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    return (f"no limit reads output '{worst.name}'{sqnr}{more}",)


_OTHER_LABELS = "give more samples, of several classes, with their own labels"


def doubt_worthless_scores(
    verdicts: Iterable[Verdict], accuracy: AccuracyResult, output: tuple[str, ...]
) -> Iterator[Verdict]:
    """Yield `verdicts`; a PASS of a limit on a score is INCONCLUSIVE if the score of an engine is worthless.

    That of the candidate says nothing about a limit on the reference's, and neither about the metric of another output.

    Parameters
    ----------
    verdicts : those on accuracy.
    accuracy : what they were judged on, with both scores.
    output : the outputs that the metric reads; empty for the first.
    """
    of_reference = " and ".join(reference_doubts(accuracy, output))
    of_candidate = _explain_no_skill("candidate", accuracy.candidate, accuracy.candidate_chance, accuracy)
    if accuracy.skill_lost and not of_candidate:
        of_candidate = "the candidate's classes have no more to do with the labels than by luck"
    about = dict.fromkeys(limits_on("score"), of_reference or of_candidate)
    about |= dict.fromkeys(limits_on("reference"), of_reference)
    for verdict in verdicts:
        limit, _, part = verdict.limit.rstrip("]").partition("[")
        doubt = about.get(limit, "")
        if part and part not in PARTS:
            doubt = _explain_constant(part, accuracy) if limit in limits_on("score") else ""
        yield withdraw_pass(verdict, doubt and f"{doubt}, so that a PASS would mean nothing; {_OTHER_LABELS}")


def require_agreement(first: Iterable[Verdict], again: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts on one evaluation; those that a second one does not confirm are INCONCLUSIVE.

    Engines that differ from themselves are evaluated twice. A verdict stands where both evaluations have it, and the
    limit is further from both figures than three times their difference.
    """
    others = {verdict.limit: verdict for verdict in again}
    for verdict in first:
        other = others.get(verdict.limit)
        is_confirmed = other is not None and not _could_flip(verdict, other)
        figure = "nothing" if other is None or other.observed is None else f"{other.observed:.6g}"
        why = f"a second evaluation of the same data gives {figure}: an engine is nondeterministic"
        yield verdict if is_confirmed else withdraw(verdict, why)


def _could_flip(verdict: Verdict, other: Verdict) -> bool:
    if verdict.status is not other.status:
        return True
    if verdict.observed is None or other.observed is None or verdict.allowed is None:
        return verdict.observed != other.observed
    spread = abs(verdict.observed - other.observed)
    nearest = min(abs(verdict.observed - verdict.allowed), abs(other.observed - verdict.allowed))
    return spread > 0.0 and nearest <= 3.0 * spread


def inconclusive_if_classes_change(
    verdicts: Iterable[Verdict], unsteady: Sequence[SelfDifference]
) -> Iterator[Verdict]:
    """Yield `verdicts`; agreement is INCONCLUSIVE if samples whose class changes from run to run decide it.

    `unsteady` are the engines that differ from themselves. Each such sample may agree in the next run, or not.
    """
    changing = sum(engine.top1_pct or 0.0 for engine in unsteady)
    names = " and ".join(dict.fromkeys(engine.engine for engine in unsteady))
    why = f"from run to run {names} change the class of {changing:.3g} % of the samples"
    for verdict in verdicts:
        observed, allowed = verdict.observed, verdict.allowed
        decides = observed is not None and allowed is not None and abs(observed - allowed) <= changing
        is_open = verdict.limit == "min_agreement" and verdict.status is not Status.INCONCLUSIVE
        yield withdraw(verdict, why) if is_open and changing and decides else verdict


def allow_for_missing(verdicts: Iterable[Verdict], at_worst: Iterable[Verdict], lacking: int) -> Iterator[Verdict]:
    """Yield `verdicts`; a PASS is INCONCLUSIVE if samples that the candidate lacks could break the limit.

    Parameters
    ----------
    verdicts : on the samples that both sides have.
    at_worst : with the candidate's worst score in the samples that it lacks; empty where nothing bounds its score.
    lacking : how many these are.
    """
    others = {verdict.limit: verdict for verdict in at_worst}
    for verdict in verdicts:
        other = others.get(verdict.limit)
        holds = verdict.limit in limits_on("reference") or (other is not None and other.status is Status.PASS)
        could = "nothing bounds what it lost" if other is None else f"with its worst score there {other.reason}"
        why = f"samples are missing in the candidate ({lacking}): {could}; write a row with a score for each"
        yield withdraw_pass(verdict, "" if holds else why)


def is_on_accuracy(limit: str) -> bool:
    """Whether the limit of a verdict is on a figure of accuracy, with or without the name of an output."""
    return limit.partition("[")[0] in (OUTPUTS, *limits_on("score", "reference", "accuracy", "output"))


def accuracy_left_out(verdicts: Iterable[Verdict], why: str) -> Iterator[Verdict]:
    """Yield `verdicts`, those on accuracy as not measured for the reason `why`."""
    for verdict in verdicts:
        left_out = replace(verdict, observed=None, status=Status.INCONCLUSIVE, reason=f"not measured: {why}")
        yield left_out if is_on_accuracy(verdict.limit) else verdict


def inconclusive_if_placeholder(verdicts: Iterable[Verdict], dataset: Dataset) -> Iterator[Verdict]:
    """Yield `verdicts`, those on accuracy as not measured, because the samples only stand in for real ones.

    Where no limit is on accuracy there is one verdict that says so, because a check that passes counts as judged.

    Parameters
    ----------
    verdicts : all those of a check.
    dataset : the placeholder, see `Dataset.placeholder`.
    """
    why = (
        f"{dataset.name} is a placeholder, whose samples say nothing about accuracy; "
        "next: return real ones there, Dataset.from_arrays(inputs, labels, calibration=100)"
    )
    verdicts = tuple(verdicts)
    yield from accuracy_left_out(verdicts, why)
    if not any(is_on_accuracy(verdict.limit) for verdict in verdicts):
        yield replace(mark_unmeasured(OUTPUTS, 0.0, why), implicit=True)
