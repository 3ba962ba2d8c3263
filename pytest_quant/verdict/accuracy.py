"""Limits on accuracy and on output tensors.

Accuracy on a fixed set is a fact, so a limit is judged on the point estimate, unless proof is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.result import AccuracyResult, Status, Verdict
from pytest_quant.spec import Limits
from pytest_quant.verdict.rules import at_least, at_most, not_measured, written
from pytest_quant.verdict.tensors import tensor_verdicts


def accuracy_verdicts(
    limits: Limits, accuracy: AccuracyResult, confidence: float | None, output: str | None = None
) -> Iterator[Verdict]:
    """Yield one verdict for every limit on accuracy, and a FAIL for outputs that are broken whatever the limits.

    `output` is the one that the mark names, which limits on tensors are then for.
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


def _agreement(allowed: float, accuracy: AccuracyResult) -> Verdict:
    if accuracy.agreement_pct is None:
        return not_measured("min_agreement", allowed, "no output is (n, classes)")
    return at_least("min_agreement", allowed, accuracy.agreement_pct, "%")


def _drop(allowed: float, accuracy: AccuracyResult, confidence: float | None) -> Verdict:
    if accuracy.drop is None:
        return not_measured("max_drop", allowed, "no metric could be computed")
    unit = " pp" if accuracy.unit == "%" else f" {accuracy.unit}".rstrip()
    if confidence is None:
        return at_most("max_drop", allowed, accuracy.drop, unit)
    if accuracy.drop_ci is None:
        return not_measured("max_drop", allowed, f"{accuracy.n} samples give no interval")
    low, high = accuracy.drop_ci.low, accuracy.drop_ci.high
    span = f"the {confidence:.0%} interval [{low:.4g}, {high:.4g}]{unit}"
    if low > allowed:
        return Verdict("max_drop", allowed, accuracy.drop, Status.FAIL, f"{span} lies above {written(allowed)}{unit}")
    if high <= allowed:
        return Verdict("max_drop", allowed, accuracy.drop, Status.PASS, f"{span} lies within {written(allowed)}{unit}")
    need = f"; about {accuracy.n_to_resolve} samples would tell" if accuracy.n_to_resolve else ""
    reason = f"{span} encloses {written(allowed)}{unit} with {accuracy.n} samples{need}"
    return Verdict("max_drop", allowed, accuracy.drop, Status.INCONCLUSIVE, reason)


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
    return at_least("min_ratio", allowed, over / under, "")


def _reference_score(allowed: float, accuracy: AccuracyResult) -> Verdict:
    if accuracy.reference is None:
        return not_measured("min_accuracy", allowed, "no metric could be computed")
    unit = accuracy.unit or ""
    compare = at_most if accuracy.better == "lower" else at_least
    return compare("min_accuracy", allowed, accuracy.reference, unit)
