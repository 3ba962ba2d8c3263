"""Verdicts on limits of scores and output tensors. Each output is judged by itself, and the worst decides.

Accuracy on a fixed set is a fact, so a limit is judged on the point estimate, unless proof is asked for, or one sample
weighs more than the limit leaves: then the interval decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_quant.result import AccuracyResult, OutputError, Status, Verdict
from pytest_quant.spec import LIMITS, Limit, Limits, OutputLimit, limits_on
from pytest_quant.stats.paired import wilson_interval
from pytest_quant.verdict.rules import at_least, at_most, compared, judged, not_measured, written


def tensor_verdicts(limits: Limits, accuracy: AccuracyResult, output: str | None = None) -> Iterator[Verdict]:
    """Yield one verdict for a limit on all outputs, and one for each output where a limit names them.

    Parameters
    ----------
    output : the only one to judge where a limit names none; ``None`` judges all of them.
    """
    for limit in limits_on("output"):
        asked: OutputLimit | None = getattr(limits, limit)
        if isinstance(asked, tuple):
            for name, allowed in asked:
                yield _judge(f"{limit}[{name}]", allowed, LIMITS[limit], accuracy, name)
        elif asked is not None:
            yield _judge(limit, asked, LIMITS[limit], accuracy, output)


def _judge(name: str, allowed: float, limit: Limit, accuracy: AccuracyResult, output: str | None) -> Verdict:
    """Judge the worst of the outputs called `output`, or of its groups of channels; of all outputs for ``None``."""
    chosen = [found for found in accuracy.by_output if output is None or output in (found.name, found.group_of)]
    if not chosen:
        missing = "no output" if output is None else f"no output '{output}'"
        return not_measured(name, allowed, f"{missing} could be compared")
    known: dict[str, float | None] = {
        found.name: limit.equal if found.identical else getattr(found, limit.attribute) for found in chosen
    }
    measured = {one: value for one, value in known.items() if value is not None}
    unmeasured = next((one for one in known if one not in measured), None)
    if measured:
        observed = (max if limit.is_maximum else min)(measured.values())
        verdict = compared(limit, name, allowed, observed)
        if verdict.status is Status.FAIL or unmeasured is None:
            worst = next(one for one, value in measured.items() if value == observed)
            reason = verdict.reason + _where(worst, len(chosen), len(accuracy.by_output))
            doubt = _says_little(limit, name, allowed, chosen) if accuracy.n > 1 else ""
            if verdict.status is Status.PASS and doubt:
                return replace(verdict, status=Status.INCONCLUSIVE, reason=f"{reason}, but {doubt}")
            return replace(verdict, reason=reason)
    return not_measured(name, allowed, f"output '{unmeasured}' {limit.missing}")


def _says_little(limit: Limit, name: str, allowed: float, chosen: Sequence[OutputError]) -> str:
    """Return why a figure within its limit says little: the reference never varies, or an offset carries the figure."""
    if all(one.reference_constant for one in chosen):
        return f"the reference gives every sample the same '{chosen[0].name}': evaluate samples that it tells apart"
    for one in chosen:
        centred: float | None = getattr(one, f"centred_{limit.attribute}", None)
        if centred is not None and compared(limit, name, allowed, centred).status is Status.FAIL:
            varies = f"what varies over the samples has {centred:.4g}{limit.suffix}"
            return f"an offset of '{one.name}' carries it: {varies}; set a limit that this holds, or max_abs_error"
    return ""


def _where(name: str, judged: int, outputs: int) -> str:
    """Name the output, unless there is no other."""
    if outputs == 1:
        return ""
    return f" in output '{name}'" + (f", the worst of {judged}" if judged > 1 else "")


def accuracy_verdicts(
    limits: Limits, accuracy: AccuracyResult, confidence: float | None, output: str | None = None
) -> Iterator[Verdict]:
    """Yield one verdict for every limit on accuracy, and a FAIL for outputs that are broken whatever the limits.

    Parameters
    ----------
    limits : those of the check.
    accuracy : scores, agreement and the figures of each output.
    confidence : level of proof for `max_drop`, between 0 and 1; ``None`` judges the measured drop.
    output : the output that the mark names, the only one for limits on tensors; ``None`` judges all.
    """
    if accuracy.faults:
        yield _outputs(accuracy)
    if limits.max_drop is not None:
        yield _drop(limits.max_drop, accuracy, confidence)
    if limits.min_ratio is not None:
        yield _ratio(limits.min_ratio, accuracy)
    if limits.min_accuracy is not None:
        yield _reference_score(limits.min_accuracy, accuracy)
    if limits.min_agreement is not None:
        yield _agreement(limits.min_agreement, accuracy)
    yield from tensor_verdicts(limits, accuracy, output)


def _outputs(accuracy: AccuracyResult) -> Verdict:
    first = accuracy.faults[0]
    more = f" (and {len(accuracy.faults) - 1} more)" if len(accuracy.faults) > 1 else ""
    where = "" if first.kind == "constant" else f" at sample {first.sample}"
    reason = f"output '{first.output}'{where}: {first.kind}, {first.detail}{more}"
    return Verdict("outputs", 0.0, float(len(accuracy.faults)), Status.FAIL, reason, implicit=True)


def _drop(allowed: float, accuracy: AccuracyResult, confidence: float | None) -> Verdict:
    if accuracy.drop is None:
        return not_measured("max_drop", allowed, "no metric could be computed")
    unit = _unit(accuracy)
    few = _too_few(accuracy, allowed, unit)
    as_measured = at_most("max_drop", allowed, accuracy.drop, unit)
    if confidence is None and not _needs_interval(as_measured, few, allowed):
        return as_measured
    if accuracy.drop_ci is None and confidence is not None:
        return not_measured("max_drop", allowed, f"{_samples(accuracy.n)} cannot give an interval")
    need = few or (f"about {accuracy.n_to_resolve} samples would tell" if accuracy.n_to_resolve else "")
    level = accuracy.confidence if confidence is None else confidence
    status, reason = _by_interval(accuracy, level, allowed, f"{written(allowed)}{unit}", need)
    return Verdict("max_drop", allowed, accuracy.drop, status, reason)


def _unit(accuracy: AccuracyResult) -> str:
    return " pp" if accuracy.unit == "%" else f" {accuracy.unit}".rstrip()


def _by_interval(
    accuracy: AccuracyResult, confidence: float, allowed: float, shown: str, need: str
) -> tuple[Status, str]:
    """Judge the paired interval of the drop.

    Parameters
    ----------
    accuracy : with the interval; without one nothing is told.
    confidence : of that interval, 0..1.
    allowed, shown : the largest drop that passes, and how it is called.
    need : what would tell where the interval does not.

    Returns
    -------
    Status and reason.
    """
    need = f"; {need}" if need else ""
    if accuracy.drop_ci is None:
        return Status.INCONCLUSIVE, f"the drop has no interval with {_samples(accuracy.n)}{need}"
    low, high = accuracy.drop_ci.low, accuracy.drop_ci.high
    span = f"the {confidence:.0%} interval [{low:.4g}, {high:.4g}]{_unit(accuracy)}"
    if low > allowed:
        return Status.FAIL, f"{span} lies above {shown}"
    if high <= allowed:
        return Status.PASS, f"{span} lies within {shown}"
    return Status.INCONCLUSIVE, f"{span} encloses {shown} with {_samples(accuracy.n)}{need}"


def _too_few(accuracy: AccuracyResult, room: float, unit: str) -> str:
    """Return why so few samples carry no verdict on the score itself; empty when they do.

    A score over n samples moves in steps of what one of them weighs. Where that is more than the `room` of the limit,
    one sample more or less decides, and only the interval can tell. A limit without room is about these samples, and
    takes a hundred of them.
    """
    return _steps(accuracy.n, accuracy.sample_weight, room, unit) or (_ONE_SAMPLE if accuracy.n == 1 else "")


_WHOLE_PCT = 100.0
_ROUNDED = 1e-9
_LEAST_SAMPLES = 100
"""Of a set that a limit without room is judged on."""

_ONE_SAMPLE = "one sample tells nothing about others"


def _steps(n: int, weight: float | None, room: float, unit: str) -> str:
    if weight is None or weight <= room or math.isclose(weight, room) or (room <= 0.0 and n >= _LEAST_SAMPLES):
        return ""
    enough = math.ceil(n * weight / room - _ROUNDED) if room > 0.0 else _LEAST_SAMPLES
    one = "the only sample" if n == 1 else f"one of {n} samples"
    return f"{one} weighs {weight:.4g}{unit}, more than the limit leaves; {enough} samples would do"


def _samples(n: int) -> str:
    return "1 sample" if n == 1 else f"{n} samples"


def _needs_interval(as_measured: Verdict, few: str, room: float) -> bool:
    """Whether the score does not carry its verdict; one that breaks a limit without room is broken on these samples."""
    return bool(few) and not (room <= 0.0 and as_measured.status is Status.FAIL)


def _ratio(allowed: float, accuracy: AccuracyResult) -> Verdict:
    if accuracy.reference is None or accuracy.candidate is None:
        return not_measured("min_ratio", allowed, "no metric could be computed")
    over, under = accuracy.candidate, accuracy.reference
    if accuracy.better == "lower":
        over, under = under, over
    if under == 0.0:
        if over >= 0.0 and accuracy.drop is not None and accuracy.drop <= 0.0:
            return Verdict("min_ratio", allowed, None, Status.PASS, "the ratio is infinite: nothing was lost")
        return not_measured("min_ratio", allowed, "the score to divide by is 0")
    verdict = at_least("min_ratio", allowed, over / under, "")
    # The drop that the ratio allows beside this reference.
    room = accuracy.reference * (1.0 / allowed - 1.0 if accuracy.better == "lower" else 1.0 - allowed)
    few = _too_few(accuracy, room, _unit(accuracy))
    if not _needs_interval(verdict, few, room):
        return verdict
    shown = f"the {room:.4g}{_unit(accuracy)} that it allows"
    status, reason = _by_interval(accuracy, accuracy.confidence, room, shown, few)
    return replace(verdict, status=status, reason=f"ratio {over / under:.4g}; of the drop {reason}")


def _reference_score(allowed: float, accuracy: AccuracyResult) -> Verdict:
    if accuracy.reference is None:
        return not_measured("min_accuracy", allowed, "no metric could be computed")
    unit = accuracy.unit or ""
    compare = at_most if accuracy.better == "lower" else at_least
    verdict = compare("min_accuracy", allowed, accuracy.reference, unit)
    if accuracy.unit != "%" or accuracy.better != "higher" or accuracy.sample_weight is None:
        return verdict
    return _on_share(verdict, accuracy, allowed, accuracy.reference)


def _agreement(allowed: float, accuracy: AccuracyResult) -> Verdict:
    verdict = judged(LIMITS["min_agreement"], allowed, accuracy.agreement_pct)
    if accuracy.agreement_pct is None:
        return verdict
    verdict = _on_share(verdict, accuracy, allowed, accuracy.agreement_pct)
    why = ""
    if accuracy.commonest_pct is not None and accuracy.commonest_pct >= allowed:
        why = f"the reference gives one answer to {accuracy.commonest_pct:.4g} % of the samples"
    elif accuracy.agreement_chance is not None and accuracy.agreement_pct <= accuracy.agreement_chance:
        why = f"answers in these shares agree on up to {accuracy.agreement_chance:.4g} % by luck"
    if verdict.status is not Status.PASS or not why:
        return verdict
    reason = f"{verdict.reason}, but {why}: an engine that knows nothing could too; {_OTHER_SAMPLES}"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=reason)


_OTHER_SAMPLES = "evaluate samples of more classes, or name the output with a score for each class, output='...'"


def _on_share(verdict: Verdict, accuracy: AccuracyResult, allowed: float, observed: float) -> Verdict:
    """Judge a share of all samples, in percent, on its interval where one sample weighs more than the limit leaves."""
    room = _WHOLE_PCT - allowed
    few = _steps(accuracy.n, _WHOLE_PCT / accuracy.n if accuracy.n else None, room, " pp")
    if not _needs_interval(verdict, few, room):
        return verdict
    ends = wilson_interval(round(observed / _WHOLE_PCT * accuracy.n), accuracy.n, confidence=accuracy.confidence)
    low, high = (_WHOLE_PCT * end for end in ends)
    span = f"the {accuracy.confidence:.0%} interval [{low:.4g}, {high:.4g}] %"
    if high < allowed:
        return replace(verdict, status=Status.FAIL, reason=f"{span} lies below {written(allowed)} %")
    if low >= allowed:
        return replace(verdict, status=Status.PASS, reason=f"{span} lies above {written(allowed)} %")
    return replace(verdict, status=Status.INCONCLUSIVE, reason=f"{span} encloses {written(allowed)} %; {few}")


def reference_doubts(accuracy: AccuracyResult, output: str | None) -> tuple[str, ...]:
    """Return why the reference cannot tell a good candidate from a bad one, as ends of sentences; empty when it can.

    `output` is the one that the metric reads, ``None`` for the first.
    """
    doubts = []
    name = output or next((one.name for one in accuracy.by_output), "")
    # An output that a mark cuts into groups of channels is compared as these, each named output.group.
    parts = [one for one in accuracy.by_output if one.name == name or one.name.startswith(f"{name}.")]
    if parts and all(one.reference_constant for one in parts):
        doubts.append(f"the reference gives every sample the same '{name}'")
    if accuracy.better == "higher" and accuracy.reference is not None:
        unit = f" {accuracy.unit}" if accuracy.unit else ""
        score = f"the reference itself scores {accuracy.reference:.4g}{unit}"
        if accuracy.chance is not None and accuracy.reference <= accuracy.chance:
            doubts.append(f"{score}, and answers score up to {accuracy.chance:.4g}{unit} without a look at the samples")
        elif accuracy.unit == "%" and accuracy.reference == 0.0:
            doubts.append(score)
    return tuple(doubts)


_OTHER_LABELS = "give more samples, of several classes, with their own labels"


def carried(verdicts: Iterable[Verdict], accuracy: AccuracyResult, output: str | None) -> Iterator[Verdict]:
    """Yield `verdicts`; a PASS of a limit on the score is INCONCLUSIVE where the reference's own score is worthless.

    Parameters
    ----------
    verdicts : those on accuracy.
    accuracy : what they were judged on, with the reference's score.
    output : the output that the metric reads; ``None`` for the first.
    """
    doubts = reference_doubts(accuracy, output)
    for verdict in verdicts:
        if doubts and verdict.status is Status.PASS and verdict.limit in limits_on("score", "reference"):
            reason = f"{verdict.reason}, but {' and '.join(doubts)}: there is nothing to lose; {_OTHER_LABELS}"
            yield replace(verdict, status=Status.INCONCLUSIVE, reason=reason)
        else:
            yield verdict
