"""A group of lm-eval has one score, weighed as the harness weighs its tasks, which are listed and not judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.measure.scored import ALL
from pytest_quant.result import Status
from pytest_quant.spec import Scores
from tests.unit.data.test_lm_eval import MONDAY
from tests.unit.data.test_score_pairs import refused, sample, samples
from tests.unit.measure.test_scored import measured, statuses

SIZES = {"mmlu_law": 300, "mmlu_art": 100, "mmlu_virology": 50}
SUBTASKS = {"mmlu": ["mmlu_humanities", "mmlu_virology"], "mmlu_humanities": ["mmlu_law", "mmlu_art"], "mmlu_art": []}
"""As lm-eval 0.4.13 has them, a group of a group and a task."""


def log(folder: Path, right: dict[str, int], score: float | str | None, more: Sequence[str] = ()) -> Path:
    """Write a run of the group, in which the first answers are right, with the results that lm-eval writes."""
    results: dict[str, Any] = {"mmlu": {"alias": "mmlu", "exact_match,none": score}, "mmlu_humanities": {" ": " "}}
    for task in [*SIZES, *more]:
        n = SIZES.get(task, 20)
        samples(folder, [sample(place, int(place < right.get(task, n))) for place in range(n)], task=task, time=MONDAY)
        results[task] = {"alias": f" - {task}", "exact_match,none": right.get(task, n) / n}
    document = {
        "results": results,
        "groups": {"mmlu": results["mmlu"]},
        "group_subtasks": SUBTASKS,
        "n-samples": {task: {"original": n, "effective": n} for task, n in SIZES.items()},
    }
    (folder / "model" / f"results_{MONDAY}.json").write_text(json.dumps(document))
    return folder


RIGHT = {"mmlu_law": 270, "mmlu_art": 60, "mmlu_virology": 20}
BY_SIZE, BY_TASK = 350 / 450, (0.9 + 0.6 + 0.4) / 3


@pytest.mark.parametrize("score", [BY_SIZE, BY_TASK])
def test_the_score_of_a_group_is_that_of_the_harness(tmp_path: Path, score: float) -> None:
    """350 of 450 right answers, or the mean of 90, 60 and 40 %: the figure in the results tells which."""
    folder = log(tmp_path / "r", RIGHT, score)
    accuracy = measured(Scores.from_lm_eval(folder, log(tmp_path / "c", RIGHT, score), task="mmlu")).accuracy
    assert (accuracy.reference, accuracy.candidate) == pytest.approx((100.0 * score, 100.0 * score))
    assert accuracy.n == 450
    assert {task.name: task.reference for task in accuracy.by_task} == pytest.approx(
        {"mmlu_law": 90.0, "mmlu_art": 60.0, "mmlu_virology": 40.0}
    )


def test_the_group_is_judged_and_its_tasks_are_not(tmp_path: Path) -> None:
    """A task of 50 questions loses 10 points, and all 450 lose 1.1: a limit of 4 points holds for the group."""
    reference = log(tmp_path / "r", RIGHT, BY_SIZE)
    candidate = log(tmp_path / "c", {**RIGHT, "mmlu_virology": 15}, 345 / 450)
    named = ["mmlu_law", "mmlu_art", "mmlu_virology"]
    for task, status in (("mmlu", Status.PASS), (named, Status.FAIL)):
        result = measured(Scores.from_lm_eval(reference, candidate, task=task, deterministic=True), max_drop=4.0)
        assert statuses(result) == [status]
    grouped = measured(Scores.from_lm_eval(reference, candidate, task="mmlu"), max_drop=4.0).accuracy
    assert grouped.drop == pytest.approx(100.0 * 5 / 450)
    assert [(task.name, task.p) for task in grouped.by_task] == [(name, None) for name in named]
    assert grouped.p_value is not None


def test_a_group_beside_a_task_is_one_of_the_family(tmp_path: Path) -> None:
    """The rows are the group, the task and all samples, each judged."""
    reference, candidate = (log(tmp_path / side, RIGHT, BY_TASK, ["gsm8k"]) for side in "rc")
    rows = measured(Scores.from_lm_eval(reference, candidate, task=["mmlu", "gsm8k"]), max_drop=5.0).accuracy.by_task
    assert [(row.name, row.n) for row in rows] == [("mmlu", 450), ("gsm8k", 20), (ALL, 470)]
    assert rows[0].reference == pytest.approx(100.0 * BY_TASK)
    assert rows[2].reference == pytest.approx(100.0 * (450 * BY_TASK + 20) / 470)


def test_the_interval_of_tasks_that_weigh_alike_is_that_of_their_mean(tmp_path: Path) -> None:
    """Where a small task loses most, the mean of the tasks is the less certain one: its interval is wider."""
    widths = []
    for score, lost in ((BY_SIZE, 345 / 450), (BY_TASK, (0.9 + 0.6 + 0.3) / 3)):
        reference = log(tmp_path / f"r{score}", RIGHT, score)
        candidate = log(tmp_path / f"c{score}", {**RIGHT, "mmlu_virology": 15}, lost)
        interval = measured(Scores.from_lm_eval(reference, candidate, task="mmlu")).accuracy.drop_ci
        assert interval is not None
        widths.append(interval.high - interval.low)
    # The five answers have the variance w^2 x 5 / n^2, w = 3 being the weight of a question of the small task.
    assert widths[1] / widths[0] == pytest.approx(450 / 3 / 50, rel=0.2)


@pytest.mark.parametrize(
    ("score", "task", "words"),
    [
        (0.5, "mmlu", ["how lm-eval weighs the tasks of 'mmlu'", "exact_match,none 0.5", "task=['mmlu_law'"]),
        ("N/A", "mmlu", ["how lm-eval weighs", "N/A"]),
        (BY_SIZE, "mmlu_humanities", ["how lm-eval weighs the tasks of 'mmlu_humanities'", "None"]),
        (BY_SIZE, ["mmlu", "mmlu_art"], ["the task 'mmlu_art' is named twice", "mmlu, mmlu_art"]),
        (BY_SIZE, ["mmlu_humanities", "mmlu"], ["the task 'mmlu_law' is named twice"]),
        (BY_SIZE, "mmlu_arts", ["no samples of task 'mmlu_arts'", "did you mean 'mmlu_art'?"]),
    ],
)
def test_a_group_whose_score_cannot_be_known_is_refused(
    tmp_path: Path, score: float | str, task: Any, words: list[str]
) -> None:
    """Another figure, none, a group that lm-eval gives none, and what is named twice or is not there."""
    message = refused(Scores.from_lm_eval(None, log(tmp_path, RIGHT, score), task=task))
    assert [word for word in words if word not in message] == []


def test_a_task_of_the_group_without_samples_is_named(tmp_path: Path) -> None:
    """A file that was lost would leave its questions out of the score."""
    folder = log(tmp_path, RIGHT, BY_SIZE)
    (folder / "model" / f"samples_mmlu_art_{MONDAY}.jsonl").unlink()
    assert "there are no samples of task 'mmlu_art'" in refused(Scores.from_lm_eval(None, folder, task="mmlu"))


def test_without_names_all_tasks_are_a_family(tmp_path: Path) -> None:
    """Nobody asked for the group: each task is one by itself, as before."""
    paired = read_scores(Scores.from_lm_eval(None, log(tmp_path, RIGHT, BY_SIZE)))
    assert [(task.task, task.group) for task in paired] == [(name, "") for name in sorted(SIZES)]
    assert np.concatenate([task.candidate[0] for task in paired]).mean() == pytest.approx(BY_SIZE)
