"""Verdicts that depend on the processor: whether limits on accuracy hold on another kind, and the limit `cpus`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_quant.result import AccuracyResult, Portability, Status, Verdict
from pytest_quant.spec import LIMITS, Check, Limits
from pytest_quant.verdict.accuracy_limits import accuracy_verdicts

CPUS = "cpus"
"""The limit on the processors that a verdict holds on."""


def judge_elsewhere(
    limits: Limits, check: Check, here: AccuracyResult | None, there: AccuracyResult
) -> tuple[str | None, str]:
    """Return ``any`` where the limits on accuracy hold there too, ``vnni`` where they do not, else ``None``; and why.

    A limit that too few samples decide holds where its figure is no worse than here and the error is no larger. Without
    limits it holds where the error is no larger, and does not where it has doubled.

    Parameters
    ----------
    limits : those to judge, of the outputs and with the proof that `check` asks for.
    here, there : both over the same samples, here with VNNI and there without; ``None`` if nothing ran with it: then
        only limits that hold say something.
    """
    asked = check.confidence, check.output
    theirs = list(accuracy_verdicts(limits, there, *asked))
    if here is None:
        holds = theirs and all(verdict.status is Status.PASS for verdict in theirs)
        return ("any" if holds else None), "what has VNNI adds exactly, and did not run"
    ours = {verdict.limit: verdict for verdict in accuracy_verdicts(limits, here, *asked)}
    values = (here.agreement_pct, there.agreement_pct, here.sqnr_db, there.sqnr_db)
    numbers = ["-" if value is None else f"{value:.4g}" for value in values]
    changed = "agreement {} -> {} %, SQNR {} -> {} dB".format(*numbers)
    for verdict in theirs:
        before = ours.get(verdict.limit)
        if verdict.status is Status.FAIL and (before is None or before.status is not Status.FAIL):
            return "vnni", f"{verdict.limit} is broken there, {verdict.reason}"
    growth_db = _grows_by(here, there)
    # Kernels of two processors round differently; an error that has grown by 3 dB has doubled.
    is_close = growth_db <= 1.0
    if not theirs and (is_close or growth_db >= 3.0):
        return ("any" if is_close else "vnni"), changed
    if not theirs:
        return None, f"the error is larger there, and no limit says how large it may be: {changed}"
    for verdict in theirs:
        if verdict.status is not Status.PASS and not (is_close and _is_no_worse(ours.get(verdict.limit), verdict)):
            return None, f"these samples do not decide {verdict.limit} there: {changed}"
    return "any", changed


def _grows_by(here: AccuracyResult, there: AccuracyResult) -> float:
    """Return by how many dB the error against the reference grows; NaN for outputs that have none, such as texts."""
    if there.identical:
        return 0.0
    if here.sqnr_db is None or there.sqnr_db is None:
        return math.inf if here.identical else math.nan
    return here.sqnr_db - there.sqnr_db


def _is_no_worse(here: Verdict | None, there: Verdict) -> bool:
    if here is None or here.observed is None or there.observed is None:
        return False
    row = LIMITS.get(there.limit.partition("[")[0])
    # Of outputs that are broken the fewest are best.
    is_maximum = row is None or row.is_maximum
    return there.observed <= here.observed if is_maximum else there.observed >= here.observed


def processor_verdicts(check: Check, portability: Portability | None) -> Iterator[Verdict]:
    """Yield the verdict on the processors that the mark names; nothing where it names none."""
    cpus = check.candidate.cpus
    if not cpus:
        return
    if portability is None:
        why = check.portability_off or "it is no INT8 engine on the CPU"
        yield Verdict(CPUS, None, None, Status.INCONCLUSIVE, f"not measured: {why}")
        return
    status = {"any": Status.PASS, "vnni": Status.FAIL}.get(portability.holds or "", Status.INCONCLUSIVE)
    if cpus == "vnni" and "vnni" in (portability.holds, portability.kind):
        status = Status.PASS
    heads = {"any": "holds on any processor", "vnni": "holds only with VNNI, AMX or on ARM", None: "not known"}
    how = f", {portability.how}" if portability.how else ""
    yield Verdict(CPUS, None, None, status, f"{heads[portability.holds]}{how}: {portability.reason}")
