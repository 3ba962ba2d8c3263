"""Verdicts on limits of scores and output tensors. Each output is judged by itself, and the worst decides.

Accuracy on a fixed set is a fact, so a limit is judged on the point estimate, unless proof is asked for, or one sample
weighs more than the limit leaves: then the interval decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Interval, OutputError, Status, Verdict
from pytest_quant.spec import LIMITS, OWN_SCORES, Limit, Limits, OutputLimit, limits_on
from pytest_quant.stats.paired import wilson_interval
from pytest_quant.stats.runs import add_run_noise, assume_noise
from pytest_quant.verdict.part_limits import after_holm, judge_together, part_verdicts
from pytest_quant.verdict.rules import (
    OUTPUTS,
    drop_suffix,
    explain_coarseness,
    judge_by_interval,
    judge_by_value,
    mark_unmeasured,
    withdraw,
    withdraw_pass,
)


def accuracy_verdicts(
    limits: Limits, accuracy: AccuracyResult, confidence: float | None, output: tuple[str, ...] = ()
) -> Iterator[Verdict]:
    """Yield one verdict for every limit on accuracy, and a FAIL for outputs that are broken whatever the limits.

    Parameters
    ----------
    limits : those of the check.
    accuracy : scores, agreement and the figures of each output.
    confidence : level of proof for `max_drop`, between 0 and 1; ``None`` judges the measured drop.
    output : the outputs that the mark names, the only ones that limits on tensors judge; a limit that names outputs
        judges those. Empty judges all.
    """
    if accuracy.faults:
        yield _outputs(accuracy)
    if limits.margin is not None:
        yield _drop(limits.margin, accuracy, confidence)
    yield from part_verdicts(limits, accuracy, confidence)
    if limits.min_ratio is not None:
        yield _ratio(limits.min_ratio, accuracy)
    yield from _own_scores(limits, accuracy, confidence is not None)
    if limits.min_agreement is not None:
        yield _agreement(limits.min_agreement, accuracy)
    for limit in limits_on("output"):
        value: OutputLimit | None = getattr(limits, limit)
        if isinstance(value, tuple):
            for name, allowed in value:
                yield _worst_output(f"{limit}[{name}]", allowed, LIMITS[limit], accuracy, (name,))
        elif value is not None:
            yield _worst_output(limit, value, LIMITS[limit], accuracy, output)


def _worst_output(name: str, allowed: float, limit: Limit, accuracy: AccuracyResult, named: tuple[str, ...]) -> Verdict:
    """Judge the worst of the outputs that are `named`, or of their groups of channels; of all if none is."""
    outputs = [error for error in accuracy.by_output if not named or {error.name, error.group_of} & {*named}]
    if not outputs:
        missing = f"no output '{named[0]}'" if named else "no output"
        return mark_unmeasured(name, allowed, f"{missing} could be compared")
    figures: dict[str, float | None] = {
        error.name: limit.equal if error.identical else getattr(error, limit.attribute) for error in outputs
    }
    measured = {key: figure for key, figure in figures.items() if figure is not None}
    unmeasured = next((key for key in figures if key not in measured), None)
    if measured:
        worst = (max if limit.is_maximum else min)(measured, key=measured.__getitem__)
        verdict = judge_by_value(name, allowed, measured[worst], limit.suffix)
        if verdict.status is Status.FAIL or unmeasured is None:
            several = f", the worst of {len(outputs)}" if len(outputs) > 1 else ""
            where = f" in output '{worst}'{several}" if len(accuracy.by_output) > 1 else ""
            verdict = replace(verdict, reason=verdict.reason + where)
            doubt = _says_little(limit, name, allowed, outputs) if accuracy.n > 1 else ""
            return withdraw_pass(verdict, doubt)
    return mark_unmeasured(name, allowed, f"output '{unmeasured}' {limit.missing}")


def _says_little(limit: Limit, name: str, allowed: float, outputs: Sequence[OutputError]) -> str:
    """Return why a figure within its limit says little: the reference never varies, or an offset carries the figure."""
    if all(error.reference_constant for error in outputs):
        return f"the reference gives every sample the same '{outputs[0].name}': evaluate samples that it distinguishes"
    for error in outputs:
        centred: float | None = getattr(error, f"centred_{limit.attribute}", None)
        if centred is not None and judge_by_value(name, allowed, centred, limit.suffix).status is Status.FAIL:
            varies = f"what varies over the samples has {centred:.4g}{limit.suffix}"
            return f"an offset of '{error.name}' carries it: {varies}; set a limit that this holds, or max_abs_error"
    return ""


def _outputs(accuracy: AccuracyResult) -> Verdict:
    first = accuracy.faults[0]
    more = f" (and {len(accuracy.faults) - 1} more)" if len(accuracy.faults) > 1 else ""
    where = "" if first.kind == "constant" else f" at sample {first.sample}"
    reason = f"output '{first.output}'{where}: {first.kind}, {first.detail}{more}"
    return Verdict(OUTPUTS, 0.0, float(len(accuracy.faults)), Status.FAIL, reason, implicit=True)


def _drop(allowed: float, accuracy: AccuracyResult, confidence: float | None) -> Verdict:
    if accuracy.drop is None:
        return mark_unmeasured("max_drop", allowed, accuracy.note or "no metric could be computed")
    unit = drop_suffix(accuracy.unit)
    if any(row.p is not None for row in accuracy.by_task):
        is_fact = confidence is None and not accuracy.varies
        return judge_together("max_drop", allowed, after_holm(accuracy.by_task), accuracy, "", is_fact=is_fact)
    few = _explain_too_few(accuracy, allowed, unit)
    verdict = judge_by_value("max_drop", allowed, accuracy.drop, unit)
    if confidence is None and not accuracy.varies and not _needs_interval(verdict, few, allowed):
        return _say_for_others(verdict, accuracy)
    need = few or (f"about {accuracy.n_to_resolve} samples would decide" if accuracy.n_to_resolve else "")
    if not need and max(accuracy.reference_runs or 1, accuracy.candidate_runs or 1) > 1:
        need = "more runs of each side would narrow it"
    bound = f"{allowed!r}{unit}"
    verdict = _drop_interval(accuracy, confidence or accuracy.confidence, allowed, bound, need)
    return _say_for_others(verdict, replace(accuracy, confidence=confidence or accuracy.confidence))


def _say_for_others(verdict: Verdict, accuracy: AccuracyResult) -> Verdict:
    """Add the answers that were lost and won, and say of a PASS what it means for other samples of the same kind.

    The upper end of a two-sided interval of 95 % is passed with 2.5 %: "95 % sure" is the weaker claim of the one-sided
    test of non-inferiority (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680).
    """
    reason, ends, unit = verdict.reason, accuracy.drop_ci, drop_suffix(accuracy.unit)
    # Noise that single runs do not show is not in the interval.
    is_known = accuracy.assumed_run_sd is None
    if verdict.status is Status.PASS and is_known and ends is not None and verdict.allowed is not None:
        if ends.high <= verdict.allowed:
            sure = f"at most {verdict.allowed!r}{unit} worse, {100 * accuracy.confidence:g} % sure"
            reason = f"{sure}: {accuracy.drop:.4g} [{ends.low:.4g}, {ends.high:.4g}]{unit}"
        elif accuracy.n_to_resolve:
            reason += f"; about {accuracy.n_to_resolve} samples would decide for others"
    return replace(verdict, reason="; ".join(filter(None, (reason, accuracy.flips))))


def _drop_interval(accuracy: AccuracyResult, confidence: float, allowed: float, bound: str, need: str) -> Verdict:
    """Judge the drop on its paired interval.

    Parameters
    ----------
    confidence : of that interval, 0..1.
    allowed, bound : the largest drop that passes, as a number and in words.
    need : what would decide where the interval does not.
    """
    samples = "1 sample" if accuracy.n == 1 else f"{accuracy.n} samples"
    samples += f", {_different(accuracy)} of them different" if _different(accuracy) < accuracy.n else ""
    samples += f"; {need}" if need else ""
    if accuracy.drop_ci is None:
        reason = f"the drop has no interval with {samples}" + (f": {accuracy.note}" if accuracy.note else "")
        return Verdict("max_drop", allowed, accuracy.drop, Status.INCONCLUSIVE, reason)
    low, high = accuracy.drop_ci
    figure = f"the {confidence:.0%} interval [{low:.4g}, {high:.4g}]{drop_suffix(accuracy.unit)}"
    given = "max_drop", allowed, accuracy.drop, (low, high)
    verdict = judge_by_interval(*given, figure=figure, bound=bound, if_open=f" with {samples}")
    return allow_for_run_noise(verdict, accuracy, low)


def allow_for_run_noise(verdict: Verdict, accuracy: AccuracyResult, low: float) -> Verdict:
    """Turn a FAIL into INCONCLUSIVE if unmeasured run-to-run noise could explain the drop.

    `low` is the lower end of the interval that it was judged on.
    """
    if verdict.status is not Status.FAIL or accuracy.assumed_run_sd is None or verdict.observed is None:
        return verdict
    noise = assume_noise(accuracy.assumed_run_sd, accuracy.reference_runs or 1, accuracy.candidate_runs or 1)
    ends = add_run_noise(verdict.observed, (low, verdict.observed), noise, accuracy.confidence)
    if verdict.allowed is None or ends[0] > verdict.allowed:
        return verdict
    usual = f"{accuracy.assumed_run_sd:g} pp of noise between runs, which single runs do not show"
    return withdraw(verdict, f"not beside {usual}: give several of each side, or say deterministic=True")


def _explain_too_few(accuracy: AccuracyResult, room: float, unit: str) -> str:
    """Return why so few samples carry no verdict on the score itself; empty when they do.

    A score over n samples moves in steps of what one of them weighs. Where that is more than the `room` of the limit,
    one sample more or less decides, and only the interval can tell. A limit without room is about these samples, and
    takes a hundred of them.
    """
    # Scores that vary are judged on the interval, however little one sample weighs.
    weight = None if accuracy.varies else accuracy.sample_weight
    n = _different(accuracy)
    return explain_coarseness(n, weight, room, unit, accuracy.n_to_resolve) or (_ONE_SAMPLE if n == 1 else "")


def _different(accuracy: AccuracyResult) -> int:
    """Return the number of samples that are no copies of others."""
    return accuracy.n_different or accuracy.n


_ONE_SAMPLE = "a single sample says nothing about others"


def _needs_interval(verdict: Verdict, few: str, room: float) -> bool:
    """Whether the score does not carry its verdict; one that breaks a limit without room is broken on these samples."""
    return bool(few) and not (room <= 0.0 and verdict.status is Status.FAIL)


def _ratio(allowed: float, accuracy: AccuracyResult) -> Verdict:
    if accuracy.reference is None or accuracy.candidate is None:
        return mark_unmeasured("min_ratio", allowed, accuracy.note or "no metric could be computed")
    over, under = accuracy.candidate, accuracy.reference
    if accuracy.better == "lower":
        over, under = under, over
    if under == 0.0:
        if over >= 0.0 and accuracy.drop is not None and accuracy.drop <= 0.0:
            return Verdict("min_ratio", allowed, None, Status.PASS, "the ratio is infinite: nothing was lost")
        return mark_unmeasured("min_ratio", allowed, "the score to divide by is 0")
    verdict = judge_by_value("min_ratio", allowed, over / under, "")
    # The drop that the ratio allows beside this reference.
    room = accuracy.reference * (1.0 / allowed - 1.0 if accuracy.better == "lower" else 1.0 - allowed)
    few = _explain_too_few(accuracy, room, drop_suffix(accuracy.unit))
    if not accuracy.varies and not _needs_interval(verdict, few, room):
        return verdict
    bound = f"the {room:.4g}{drop_suffix(accuracy.unit)} that it allows"
    drop = _drop_interval(accuracy, accuracy.confidence, room, bound, few)
    return replace(verdict, status=drop.status, reason=f"ratio {over / under:.4g}; of the drop {drop.reason}")


def _own_scores(limits: Limits, accuracy: AccuracyResult, is_proof: bool) -> Iterator[Verdict]:
    """Judge the score of each engine: a lower limit unless less is better. That of the candidate may be proven."""
    whole = accuracy.sample_weight and accuracy.sample_weight * _different(accuracy)
    sides = (accuracy.candidate, accuracy.candidate_ci, is_proof), (accuracy.reference, None, False)
    for limit, (score, ends, is_proven) in zip(OWN_SCORES, sides, strict=True):
        allowed: float | None = getattr(limits, limit)
        if allowed is not None and score is None:
            yield mark_unmeasured(limit, allowed, accuracy.note or "no metric could be computed")
        elif allowed is not None and score is not None:
            verdict = judge_by_value(limit, allowed, score, accuracy.unit or "", is_least=accuracy.better != "lower")
            yield _judge_on_interval(verdict, accuracy, whole, ends, is_proven)


def reference_falls_short(verdict: Verdict, accuracy: AccuracyResult) -> bool:
    """Tell whether `verdict` is on the candidate's own score, and the reference would break that limit too."""
    limits = Limits(min_accuracy=verdict.allowed if verdict.limit == OWN_SCORES[0] else None)
    own = _own_scores(limits, replace(accuracy, candidate=accuracy.reference, candidate_ci=None), False)
    return any(each.status is Status.FAIL for each in own)


def _agreement(allowed: float, accuracy: AccuracyResult) -> Verdict:
    limit, agreement = LIMITS["min_agreement"], accuracy.agreement_pct
    if agreement is None:
        return mark_unmeasured(limit.name, allowed, limit.missing)
    verdict = _judge_on_interval(judge_by_value(limit.name, allowed, agreement, limit.suffix), accuracy, 100.0)
    names = accuracy.agreement_outputs
    worst = f"; output '{names[0]}' is the worst of {len(names)}" if len(names) > 1 else ""
    verdict = replace(verdict, reason=verdict.reason + worst)
    why = ""
    if accuracy.commonest_pct is not None and accuracy.commonest_pct >= allowed:
        why = f"the reference gives one answer to {accuracy.commonest_pct:.4g} % of the samples"
    elif accuracy.agreement_chance is not None and agreement <= accuracy.agreement_chance:
        why = f"answers in these shares agree on up to {accuracy.agreement_chance:.4g} % by luck"
    return withdraw_pass(verdict, why and f"{why}: an engine that knows nothing could too; {_OTHER_SAMPLES}")


_OTHER_SAMPLES = "evaluate samples of more classes, or name the output with a score for each class, output='...'"


def _judge_on_interval(
    verdict: Verdict,
    accuracy: AccuracyResult,
    whole: float | None,
    ends: Interval | None = None,
    is_proof: bool = False,
) -> Verdict:
    """Judge a mean over the samples on its interval if a single sample weighs more than the limit leaves.

    Parameters
    ----------
    verdict : on its value.
    whole : the most that it can be, ``None`` for what has no bounds.
    ends : its interval; ``None`` takes that of a share of `whole`.
    is_proof : judges the interval in any case.
    """
    allowed, observed, n = verdict.allowed or 0.0, verdict.observed or 0.0, _different(accuracy)
    of_score = verdict.limit in OWN_SCORES
    is_least = not of_score or accuracy.better != "lower"
    unit = f" {accuracy.unit or ''}".rstrip() if of_score else " %"
    room = math.inf if whole is None else whole - allowed if is_least else allowed
    weight = whole / n if whole and n and not accuracy.varies else None
    few = explain_coarseness(n, weight, room, " pp" if unit == " %" else unit) or (_ONE_SAMPLE if n == 1 else "")
    if not is_proof and not accuracy.varies and not _needs_interval(verdict, few, room):
        return verdict
    if ends is None and whole and 0.0 <= observed <= whole + 1e-9:
        share = wilson_interval(round(observed / whole * n), n, confidence=accuracy.confidence)
        ends = Interval(whole * share[0], whole * share[1])
    if ends is None:
        return withdraw(verdict, f"the score has no interval{f': {few}' if few else ''}")
    sd = accuracy.run_sd or (accuracy.assumed_run_sd if verdict.status is Status.FAIL else None) or 0.0
    noise = assume_noise(sd, min(accuracy.candidate_runs or 1, accuracy.reference_runs or 1))
    low, high = add_run_noise(observed, (ends.low, ends.high), noise, accuracy.confidence)
    figure = f"the {accuracy.confidence:.0%} interval [{low:.4g}, {high:.4g}]{unit}"
    bound, if_open = f"{allowed!r}{unit}", f"; {few}" if few else ""
    given = verdict.limit, allowed, observed, (low, high)
    return judge_by_interval(*given, figure=figure, bound=bound, if_open=if_open, is_least=is_least)
