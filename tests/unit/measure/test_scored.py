"""Scores that were given are judged as those of engines are, with the noise between runs and all tasks together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.cache import Cache
from pytest_quant.errors import DataError
from pytest_quant.measure.build import Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.scored import ALL, measure_scores
from pytest_quant.metrics.answers import answers_of
from pytest_quant.result import Baseline, Measured, Status
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model, Scores
from pytest_quant.stats.paired import mcnemar_p, tango_interval
from pytest_quant.stats.runs import add_run_noise, run_noise, tango_of_runs
from tests.support.measuring import QuietSteps
from tests.unit.data.test_score_pairs import sample, samples
from tests.unit.record.examples import verdicts_on

Answers = NDArray[np.float64]


def answers(runs: int, n: int, share: float, seed: int, flips: float = 0.02) -> Answers:
    """Right and wrong answers (runs, n) to questions of which `share` are easy; each run answers some the other way."""
    easy = np.random.default_rng(1).random(n) < share
    flipped = np.random.default_rng(seed).random((runs, n)) < flips
    return (easy ^ flipped).astype(np.float64)


def measured(
    scores: Scores, baseline: Baseline | str | None = None, confidence: float | None = None, **limits: Any
) -> Measured:
    """Measure scores in a folder of their own that nothing is kept in."""
    spec = EngineSpec("scores", "", None, Model("gsm8k"))
    check = Check(
        "test.py::test", "test.py::test", spec, spec, Dataset("arrays", None), Limits(**limits), latency=None,
        scores=scores, confidence=confidence,
    )  # fmt: skip
    steps = QuietSteps()
    tools = Tools(Cache(Path("unused")), steps, DeviceLocks(steps.notify, 1.0))
    return measure_scores(check, scores, lambda _: baseline, tools)


def statuses(result: Measured, baseline: Baseline | str | None = None) -> list[Status]:
    """The status of each limit."""
    return [verdict.status for verdict in verdicts_on(result, baseline)]


def base(accuracy: Any, drop: float | None = None, **more: Any) -> Baseline:
    """A baseline of a commit with the scores of a record."""
    return Baseline("abc", drop, accuracy=accuracy, **more)


def test_a_single_pair_has_mcnemars_test_and_tangos_interval() -> None:
    """One run a side of right and wrong answers: the same figures as the counts give."""
    reference, candidate = answers(1, 400, 0.8, 2)[0], answers(1, 400, 0.8, 3)[0]
    accuracy = measured(Scores.from_arrays(reference, candidate), max_drop=1.0).accuracy
    lost = int(np.sum((reference == 1) & (candidate == 0)))
    won = int(np.sum((reference == 0) & (candidate == 1)))
    low, high = tango_interval(lost, won, 400)
    assert accuracy.drop_ci is not None
    assert list(accuracy.drop_ci) == pytest.approx([100 * low, 100 * high])
    assert accuracy.p_value == pytest.approx(mcnemar_p(lost, won))
    assert accuracy.drop == pytest.approx(100 * (reference.mean() - candidate.mean()))


def test_several_runs_widen_the_interval_by_their_noise() -> None:
    """The interval is Tango's of the shares, and what runs of the sides shift apart is added in squares."""
    reference, candidate = answers(3, 300, 0.8, 2), answers(4, 300, 0.8, 3)
    candidate[0, :30] = 0.0
    accuracy = measured(Scores.from_arrays(reference, candidate), max_drop=1.0).accuracy
    noise = run_noise(100 * reference, 100 * candidate)
    ends = tuple(100 * end for end in tango_of_runs(reference, candidate))
    low, high = add_run_noise(accuracy.drop or 0.0, (ends[0], ends[1]), noise)
    assert noise.variance > 0.0
    assert accuracy.drop_ci is not None
    assert list(accuracy.drop_ci) == pytest.approx([low, high])
    assert (accuracy.reference_runs, accuracy.candidate_runs) == (3, 4)
    assert accuracy.run_sd == pytest.approx(noise.run_sd)


def test_lower_is_better_turns_the_sides_and_nothing_else() -> None:
    """The wrong answers as an error rate: drop and interval are those of the right answers."""
    reference, candidate = answers(3, 300, 0.8, 2), answers(3, 300, 0.7, 3)
    right = measured(Scores.from_arrays(reference, candidate)).accuracy
    wrong = measured(Scores.from_arrays(1 - reference, 1 - candidate, better="lower")).accuracy
    assert wrong.drop == pytest.approx(right.drop)
    assert right.drop_ci is not None
    assert wrong.drop_ci is not None
    assert list(wrong.drop_ci) == pytest.approx(list(right.drop_ci))


def test_scores_that_vary_are_judged_on_the_interval_and_others_are_facts() -> None:
    """A drop right below the limit passes only where a run would give the same scores again."""
    reference = np.ones(200)
    candidate = np.concatenate([np.zeros(2), np.ones(198)])
    varies = measured(Scores.from_arrays(reference, candidate), max_drop=1.5)
    fixed = measured(Scores.from_arrays(reference, candidate, deterministic=True), max_drop=1.5)
    assert (statuses(varies), statuses(fixed)) == ([Status.INCONCLUSIVE], [Status.PASS])
    assert any("one run of the reference and of the candidate" in note for note in varies.notes)
    assert not any("one run" in note for note in fixed.notes)


def test_few_samples_that_vary_are_told_how_many_their_interval_needs() -> None:
    """One of 30 weighs 3.3 points, which 50 samples would put right for facts, and nothing does for an interval."""
    scores = Scores.from_arrays(np.ones(30), np.concatenate([np.zeros(1), np.ones(29)]))
    result = measured(scores, max_drop=2.0, min_ratio=0.98, min_accuracy=98.0, min_reference_accuracy=98.0)
    verdicts = {verdict.limit: verdict for verdict in verdicts_on(result, None)}
    assert {verdict.status for verdict in verdicts.values()} == {Status.INCONCLUSIVE}
    more = f"with 30 samples; about {result.accuracy.n_to_resolve} samples would decide; lost 1, won 0"
    assert verdicts["max_drop"].reason.endswith(more)
    assert [limit for limit, verdict in verdicts.items() if "would do" in verdict.reason] == []


def test_noise_of_earlier_runs_opens_a_limit_that_single_runs_would_decide() -> None:
    """A drop of 8 pp is above 5 pp by itself, and not beside runs that differ by 3 pp."""
    reference = np.ones(1000)
    candidate = np.concatenate([np.zeros(80), np.ones(920)])
    scores = Scores.from_arrays(reference, candidate)
    assert statuses(measured(scores, max_drop=5.0)) == [Status.FAIL]
    noisy = measured(scores, base(None, 0.0, run_sd=3.0, run_freedom=6), max_drop=5.0)
    assert statuses(noisy) == [Status.INCONCLUSIVE]
    assert any("is taken from 7 earlier ones" in note for note in noisy.notes)


def test_a_candidate_alone_is_compared_with_the_scores_of_its_baseline() -> None:
    """Without one both limits have NO_BASELINE; the figures of its record then are the reference of the next."""
    first = answers(1, 1000, 0.9, 2, flips=0.0)
    alone = measured(Scores.from_arrays(None, first), "there is none", max_drop=2.0, max_drop_increase=2.0)
    assert statuses(alone, "there is none") == [Status.NO_BASELINE] * 2
    assert (alone.accuracy.drop, alone.accuracy.reference) == (None, None)
    kept = answers_of(alone.accuracy).candidate
    assert kept is not None
    in_order_of_ids = first[0][sorted(range(1000), key=str)]
    assert kept.tolist() == in_order_of_ids.astype(bool).tolist()
    before = base(alone.accuracy)
    worse = first.copy()
    worse[0, np.flatnonzero(first[0])[:80]] = 0.0
    for scores, status in ((first, Status.PASS), (worse, Status.FAIL)):
        later = measured(Scores.from_arrays(None, scores), before, max_drop=2.0, max_drop_increase=2.0)
        assert statuses(later, before) == [status] * 2
        assert later.accuracy.reference == pytest.approx(100 * first.mean())


def test_a_candidate_alone_has_a_score_of_its_own_without_a_baseline() -> None:
    """92 % of 1000 samples are judged on their interval, since a run would give others: 90 holds, 91 and 95 do not."""
    first = answers(1, 1000, 0.92, 2, flips=0.0)
    for least, status in ((85, Status.PASS), (92, Status.INCONCLUSIVE), (97, Status.FAIL)):
        alone = measured(Scores.from_arrays(None, first), "there is none", max_drop=2.0, min_accuracy=least)
        assert statuses(alone, "there is none") == [Status.NO_BASELINE, status]


@pytest.mark.parametrize("change", [{"n": 999}, {"candidate_correct": None}])
def test_a_baseline_without_scores_of_these_samples_is_none(change: dict[str, Any]) -> None:
    """Another number of samples, and a record without scores of single samples."""
    first = answers(1, 1000, 0.9, 2)
    alone = measured(Scores.from_arrays(None, first), "there is none", max_drop=2.0)
    before = base(replace(alone.accuracy, **change))
    assert statuses(measured(Scores.from_arrays(None, first), before, max_drop=2.0), before) == [Status.NO_BASELINE]


def test_an_increase_of_the_drop_has_the_noise_of_both_drops() -> None:
    """A drop of 6 pp after one of 0: beyond 1 pp where both intervals are narrow, and open where one is wide."""
    reference = np.ones(4000)
    candidate = np.concatenate([np.zeros(240), np.ones(3760)])
    before = measured(Scores.from_arrays(reference, reference)).accuracy
    result = measured(Scores.from_arrays(reference, candidate), max_drop_increase=1.0)
    assert statuses(result, base(before, 0.0)) == [Status.FAIL]
    few = measured(Scores.from_arrays(np.ones(40), np.ones(40))).accuracy
    assert statuses(result, base(few, 0.0)) == [Status.INCONCLUSIVE]


def family(folder: Path, drops: Sequence[float], n: int = 400, *, deterministic: bool = False) -> Scores:
    """Tasks whose candidate gets that share less right; the reference gets all of them."""
    for task, drop in enumerate(drops):
        wrong = round(drop * n)
        for side, scores in (("r", [1] * n), ("c", [0] * wrong + [1] * (n - wrong))):
            samples(folder / side, [sample(place, score) for place, score in enumerate(scores)], task=f"t{task}")
    return Scores.from_lm_eval(folder / "r", folder / "c", deterministic=deterministic)


def test_tasks_are_judged_together_and_the_worst_is_named(tmp_path: Path) -> None:
    """One of eight that lost 10 pp fails; the record has each task and all samples of all."""
    result = measured(family(tmp_path, [0.0] * 7 + [0.1]), max_drop=1.0)
    (verdict,) = verdicts_on(result)
    assert verdict.status is Status.FAIL
    assert verdict.reason.startswith("t7 10 pp is above 1.0 pp (p ")
    assert "after Holm over 9" in verdict.reason
    assert [task.name for task in result.accuracy.by_task] == [*(f"t{place}" for place in range(8)), ALL]
    assert result.accuracy.drop == pytest.approx(10.0 / 8)


def test_a_task_that_fails_alone_may_be_luck_among_many(tmp_path: Path) -> None:
    """5 pp of 400 samples break a limit of 1 pp alone, and are open among 33 tasks: one in 40 does so by chance."""
    alone = measured(family(tmp_path / "one", [0.05]), max_drop=1.0)
    many = measured(family(tmp_path / "many", [0.05] + [0.0] * 32), max_drop=1.0)
    assert statuses(alone) == [Status.FAIL]
    assert statuses(many) == [Status.INCONCLUSIVE]


def test_tasks_that_all_move_at_once_have_a_note(tmp_path: Path) -> None:
    """Six of six in one direction: a cause that they share; five say nothing."""
    for count, noted in ((6, True), (5, False)):
        notes = measured(family(tmp_path / str(count), [0.01] * count), max_drop=5.0).notes
        assert any(f"all {count} tasks are worse" in note for note in notes) == noted


def test_tasks_with_other_units_are_not_judged_together(tmp_path: Path) -> None:
    """A task in percent and one in a number of its own: the message says to write two tests."""
    for side in ("r", "c"):
        samples(tmp_path / side, [sample(0, 1), sample(1, 0)], task="a")
        samples(tmp_path / side, [sample(0, 7), sample(1, 9)], task="b")
    with pytest.raises(DataError, match=r"tasks 'a' and 'b' cannot be judged together"):
        measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c"))


def test_proof_is_asked_for_with_the_confidence_of_the_run() -> None:
    """The interval has the level that --quant-confidence names."""
    reference, candidate = answers(1, 400, 0.8, 2), answers(1, 400, 0.8, 3)
    narrow, wide = (
        measured(Scores.from_arrays(reference, candidate), confidence=level).accuracy for level in (0.8, 0.99)
    )
    assert narrow.drop_ci is not None
    assert wide.drop_ci is not None
    assert wide.drop_ci.low < narrow.drop_ci.low < narrow.drop_ci.high < wide.drop_ci.high


def test_a_task_whose_runs_are_the_same_is_judged_beside_others(tmp_path: Path) -> None:
    """Choices do not vary with the seed, as texts do: two files of one task are one run, those of the other two."""
    for side in ("r", "c"):
        for second in range(2):
            time = f"2026-11-26T21-24-0{second}"
            samples(tmp_path / side, [sample(place, 1, resps=["A"]) for place in range(50)], task="choice", time=time)
            varying = [sample(place, int(place != second), resps=[f"{second}"]) for place in range(50)]
            samples(tmp_path / side, varying, task="text", time=time)
    accuracy = measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c"), max_drop=1.0).accuracy
    assert (accuracy.reference_runs, accuracy.candidate_runs, accuracy.n) == (2, 2, 100)
    assert accuracy.reference == pytest.approx(99.0)
    assert [(task.name, task.n) for task in accuracy.by_task] == [("choice", 50), ("text", 50), (ALL, 100)]
    choice = measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c", task="choice")).accuracy
    assert (choice.reference_runs, choice.candidate_runs, choice.run_sd) == (1, 1, None)


def test_runs_that_are_copies_in_every_task_are_one_run_of_all(tmp_path: Path) -> None:
    """Two files of two tasks with the same answers: their equal scores do not show that runs never differ."""
    for side, task, second in product("rc", "ab", range(2)):
        rows = [sample(place, int(place > 3), resps=["A"]) for place in range(50)]
        samples(tmp_path / side, rows, task=task, time=f"2026-11-26T21-24-0{second}")
    accuracy = measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c"), max_drop=1.0).accuracy
    assert (accuracy.reference_runs, accuracy.candidate_runs, accuracy.run_sd) == (1, 1, None)
    assert accuracy.assumed_run_sd is not None


@pytest.mark.parametrize("runs", [(3, 2), (1, 3), (2, 2)])
def test_all_samples_together_have_the_mean_of_each_task(tmp_path: Path, runs: tuple[int, int]) -> None:
    """Tasks with other numbers of runs: each run weighs alike in its task, and each sample in the whole."""
    random = np.random.default_rng(4)
    right = [random.random((number, 40)) < 0.7 for number in runs]
    for task, scores in enumerate(right):
        for second, run in enumerate(scores):
            rows = [sample(place, int(score), resps=[f"{second}"]) for place, score in enumerate(run)]
            samples(tmp_path / "c", rows, task=f"t{task}", time=f"2026-11-26T21-24-0{second}")
        samples(tmp_path / "r", [sample(place, 1) for place in range(40)], task=f"t{task}")
    accuracy = measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c"), max_drop=1.0).accuracy
    assert accuracy.candidate == pytest.approx(100 * np.mean([scores.mean() for scores in right]))
    assert accuracy.candidate_runs == max(runs)


def test_runs_of_few_outcomes_keep_their_weight() -> None:
    """Nine of twelve runs lose the same 15 of 500 questions: the drop is 2.1 points, which 2 points do not allow."""
    reference, candidate = np.ones((2, 12, 500))
    candidate[:9, :15] = 0.0
    for run in range(12):
        reference[run, 499 - run] = 0.0
        candidate[run, 499 - run] *= run < 9
    accuracy = measured(Scores.from_arrays(reference, candidate), max_drop=2.0).accuracy
    assert accuracy.drop == pytest.approx(100 * (reference.mean() - candidate.mean())) == pytest.approx(2.1)
    assert (accuracy.reference_runs, accuracy.candidate_runs) == (12, 12)
    assert statuses(measured(Scores.from_arrays(reference, candidate), max_drop=2.0)) == [Status.INCONCLUSIVE]


def test_a_copy_keeps_its_weight_and_shows_no_noise(tmp_path: Path) -> None:
    """Of four logs two are copies: the mean is that of four, and the noise that of three runs with these weights."""
    runs = answers(3, 200, 0.8, 5)[[0, 1, 0, 2]]
    for second, run in enumerate(runs):
        rows = [sample(place, score, resps=[str(run.tolist())]) for place, score in enumerate(run)]
        samples(tmp_path / "c", rows, time=f"2026-11-26T21-24-0{second}")
        samples(tmp_path / "r", [sample(place, 1) for place in range(200)])
    result = measured(Scores.from_lm_eval(tmp_path / "r", tmp_path / "c"))
    assert result.accuracy.candidate == pytest.approx(100 * runs.mean())
    assert result.accuracy.candidate_runs == 3
    assert result.accuracy.run_sd == pytest.approx(100 * float(np.std(runs[[0, 1, 3]].mean(axis=1), ddof=1)))
    assert [note for note in result.notes if "is a copy of" in note and "24-02" in note and "24-00" in note]


def test_means_of_a_baselines_runs_differ_by_less_than_single_runs() -> None:
    """Three runs against the mean of three: the noise between runs counts by a third on either side."""
    candidate = answers(3, 500, 0.8, 3)
    first = measured(Scores.from_arrays(None, answers(3, 500, 0.8, 2)), "there is none").accuracy
    result = measured(Scores.from_arrays(None, candidate), base(first, run_sd=2.0, run_freedom=4)).accuracy
    kept = answers_of(first).scores
    assert kept is not None
    in_order_of_ids = candidate[:, sorted(range(500), key=str)]
    noise = run_noise(kept[None], 100 * in_order_of_ids, 2.0, 4)
    noise = replace(noise, variance=noise.variance / (1 + 1 / 3) * (1 / 3 + 1 / 3))
    low, high = (100 * end for end in tango_of_runs(kept[None] / 100, in_order_of_ids))
    assert result.drop_ci is not None
    assert list(result.drop_ci) == pytest.approx(list(add_run_noise(result.drop or 0.0, (low, high), noise)))


@pytest.mark.parametrize(
    ("drops", "n", "status"),
    [
        ([0.0, 0.005], 400, Status.PASS),
        ([0.0, 0.02], 400, Status.FAIL),
        ([0.0, 0.0], 40, Status.INCONCLUSIVE),
        ([0.5, 0.0], 40, Status.FAIL),
    ],
)
def test_tasks_of_repeatable_scores_are_facts_unless_they_are_small(
    tmp_path: Path, drops: list[float], n: int, status: Status
) -> None:
    """A limit of 1 pp on 40 samples, of which each weighs 2.5 pp, is judged on the interval of each task."""
    result = measured(family(tmp_path, drops, n, deterministic=True), max_drop=1.0)
    assert statuses(result) == [status]


def test_the_samples_that_lost_most_are_named() -> None:
    """By their ids, the worst first; nothing where none lost."""
    reference, candidate = np.ones((2, 100)), np.ones((2, 100))
    candidate[:, 40], candidate[0, 7] = 0.0, 0.0
    ids = [f"q{place}" for place in range(100)]
    notes = measured(Scores.from_arrays(reference, candidate, ids)).notes
    assert "2 samples lost, most of all q40, q7" in notes
    assert not any("lost" in note for note in measured(Scores.from_arrays(reference, reference, ids)).notes)


def test_single_runs_fail_only_beyond_the_noise_that_runs_usually_have() -> None:
    """3 pp of 4000 samples lie above 1 pp on their interval, and could be the runs: several runs, or proof, decide."""
    reference = np.ones((2, 4000))
    candidate = np.ones((2, 4000))
    candidate[:, :120] = 0.0
    reference[1, 4], candidate[1, 4] = 0.0, 1.0
    single = measured(Scores.from_arrays(reference[0], candidate[0]), max_drop=1.0, max_drop_increase=1.0)
    before = base(measured(Scores.from_arrays(reference[0], reference[0])).accuracy, 0.0)
    for verdict in verdicts_on(single, before):
        assert verdict.status is Status.INCONCLUSIVE
        assert "but not beside 0.7 pp of noise between runs" in verdict.reason
    assert statuses(measured(Scores.from_arrays(reference, candidate), max_drop=1.0)) == [Status.FAIL]
    fixed = measured(Scores.from_arrays(reference[0], candidate[0], deterministic=True), max_drop=1.0)
    assert statuses(fixed) == [Status.FAIL]
    in_mm = Scores.from_arrays(100 - reference[0], 100 - candidate[0], better="lower", unit="mm", scale=1)
    assert measured(in_mm, max_drop=0.01).accuracy.assumed_run_sd is None


def test_an_interval_in_percent_ends_where_all_samples_are_lost() -> None:
    """Two runs against one say little of the noise between runs: the interval is wide, and not beyond 100 pp."""
    reference, candidate = np.ones((2, 60)), np.ones((1, 60))
    reference[1, :30], candidate[0, :50] = 0.0, 0.0
    result = measured(Scores.from_arrays(reference, candidate), max_drop=1.0)
    accuracy = result.accuracy
    assert accuracy.drop_ci is not None
    assert list(accuracy.drop_ci) == [-100.0, 100.0]
    (verdict,) = verdicts_on(result)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason.endswith("more runs of each side would narrow it")


def test_a_first_record_keeps_the_noise_between_its_runs() -> None:
    """Three runs of a candidate alone show it, of one it is assumed, and of one that repeats itself there is none."""
    runs = answers(3, 400, 0.8, 2)
    several, single, fixed = (
        measured(Scores.from_arrays(None, scores, deterministic=deterministic), "there is none").accuracy
        for scores, deterministic in ((runs, False), (runs[:1], False), (runs[:1], True))
    )
    assert several.run_sd == pytest.approx(100 * float(np.std(runs.mean(axis=1), ddof=1)))
    assert (several.assumed_run_sd, single.run_sd, single.assumed_run_sd) == (None, None, 0.7)
    assert (fixed.run_sd, fixed.assumed_run_sd) == (None, None)
