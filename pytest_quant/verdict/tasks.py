"""Verdicts on scores that were given: several tasks together, runs of which nothing is known, missing samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_quant.result import AccuracyResult, Status, TaskScore, Verdict
from pytest_quant.spec import limits_on
from pytest_quant.stats.holm import holm
from pytest_quant.stats.runs import assumed_noise, with_run_noise
from pytest_quant.verdict.rules import too_coarse, written


def drop_of_tasks(allowed: float, accuracy: AccuracyResult, unit: str) -> Verdict:
    """Judge the drop of each of several tasks, and of all samples together.

    Each has a one-sided test that its drop is within the limit, and Holm's adjustment keeps any false FAIL among all of
    them at half of 1 - confidence. They PASS together where the interval of each lies within the limit. Scores that a
    repeated run would give again are facts, as those of engines are, unless a task has too few samples for one.
    """
    rows, bound = accuracy.by_task, f"{written(allowed)}{unit}"
    p_values = holm([1.0 if row.p is None else row.p for row in rows])
    broken: list[tuple[TaskScore, str]] = []
    undecided: list[TaskScore] = []
    for row, p in zip(rows, p_values, strict=True):
        weight = None if accuracy.sample_weight is None else accuracy.sample_weight * accuracy.n / row.n
        is_fact = not accuracy.varies and not too_coarse(row.n, weight, allowed, unit)
        if is_fact and row.drop > allowed:
            broken.append((row, ""))
        elif not is_fact and p <= (1.0 - accuracy.confidence) / 2.0:
            broken.append((row, f" (p {p:.2g} after Holm over {len(rows)})"))
        elif not is_fact and (row.drop_ci is None or row.drop_ci.high > allowed):
            undecided.append(row)
    if broken:
        worst, p_text = max(broken, key=lambda pair: pair[0].drop)
        more = f", the worst of {len(broken)}" if len(broken) > 1 else ""
        reason = f"{worst.name} {worst.drop:.4g}{unit} is above {bound}{more}{p_text}"
        return Verdict("max_drop", allowed, worst.drop, Status.FAIL, reason)
    worst = max(undecided or rows, key=lambda row: row.drop)
    ends = "" if worst.drop_ci is None else f" [{worst.drop_ci.low:.4g}, {worst.drop_ci.high:.4g}]"
    figure = f"{worst.name} {worst.drop:.4g}{ends}{unit}"
    if undecided:
        which = f"{len(undecided)} of {len(rows)} intervals are not within {bound}"
        reason = f"{which}, as of {figure}; more samples would tell"
        return Verdict("max_drop", allowed, worst.drop, Status.INCONCLUSIVE, reason)
    return Verdict("max_drop", allowed, worst.drop, Status.PASS, f"{figure} is within {bound}")


def beside_unknown_runs(verdict: Verdict, accuracy: AccuracyResult, low: float) -> Verdict:
    """Return a FAIL on the drop as INCONCLUSIVE where runs whose noise nothing shows could differ by as much.

    `low` is the lower end of the interval that it was judged on.
    """
    if verdict.status is not Status.FAIL or accuracy.assumed_run_sd is None or verdict.observed is None:
        return verdict
    noise = assumed_noise(accuracy.assumed_run_sd, accuracy.reference_runs or 1, accuracy.candidate_runs or 1)
    ends = with_run_noise(verdict.observed, (low, verdict.observed), noise, accuracy.confidence)
    if verdict.allowed is None or ends[0] > verdict.allowed:
        return verdict
    usual = f"{accuracy.assumed_run_sd:g} pp of noise between runs, which single runs do not show"
    why = f"{verdict.reason}, but not beside {usual}: give several of each side, or say deterministic=True"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=why)


def beside_missing(verdicts: Iterable[Verdict], at_worst: Iterable[Verdict], lacking: int) -> Iterator[Verdict]:
    """Yield `verdicts`; a PASS is INCONCLUSIVE where what the candidate lacks could break the limit.

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
        if verdict.status is not Status.PASS or holds:
            yield verdict
        else:
            could = "nothing bounds what it lost" if other is None else f"with its worst score there {other.reason}"
            why = f"{verdict.reason}, but samples are missing in the candidate ({lacking}): {could}"
            yield replace(verdict, status=Status.INCONCLUSIVE, reason=f"{why}; write a row with a score for each")
