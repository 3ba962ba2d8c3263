"""Files of scores as spreadsheets and harnesses write them, and sides whose runs and samples differ."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.errors import DataError
from pytest_quant.result import Status
from pytest_quant.spec import Scores
from tests.unit.measure.test_scored import measured, statuses

RIGHT = np.random.default_rng(2).random(1000) < 0.9


@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_booleans_of_a_table_are_right_and_wrong(tmp_path: Path, yes: str, no: str) -> None:
    """As pandas, other programs and spreadsheets write them into a CSV: a ninth is wrong on both sides."""
    for side in ("fp16", "int4"):
        rows = (f"{place},{no if place % 9 == 0 else yes}\n" for place in range(198))
        (tmp_path / f"{side}.csv").write_text("id,right\n" + "".join(rows))
    scores = Scores.from_files(tmp_path / "fp16.csv", tmp_path / "int4.csv", score="right", deterministic=True)
    result = measured(scores, max_drop=3.0)
    assert result.accuracy.candidate == pytest.approx(100 * 8 / 9)
    assert statuses(result) == [Status.PASS]


def test_an_error_rate_may_exceed_one_hundred_percent() -> None:
    """A reference of no word and an answer of two (jitsi/jiwer#108): one of 500 at 200 % adds 1.9 / 500."""
    before = np.full(500, 0.1)
    after = before.copy()
    after[0] = 2.0
    scores = Scores.from_arrays(before, after, better="lower", name="wer", deterministic=True)
    result = measured(scores, max_drop=1.0)
    assert result.accuracy.drop == pytest.approx(100 * 1.9 / 500)
    assert statuses(result) == [Status.PASS]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("within", [None, "samples"])
def test_one_json_document_is_read_as_its_list(tmp_path: Path, indent: int | None, within: str | None) -> None:
    """A list, or an object that has it, in one line or many."""
    rows = [{"id": place, "score": float(place % 5 > 0)} for place in range(300)]
    for side in "ab":
        (tmp_path / f"{side}.json").write_text(json.dumps({within: rows} if within else rows, indent=indent))
    result = measured(Scores.from_files(tmp_path / "a.json", tmp_path / "b.json", deterministic=True), max_drop=3.0)
    assert (result.accuracy.n, result.accuracy.candidate, statuses(result)) == (300, 80.0, [Status.PASS])


def _log(folder: Path, time: str, rows: Iterable[dict[str, object]], results: dict[str, object] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"samples_gsm8k_{time}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    if results is not None:
        (folder / f"results_{time}.json").write_text(json.dumps(results))
    return folder


OLD: list[dict[str, object]] = [
    {"doc_id": place, "exact_match": float(place % 5 > turn)} for turn in (0, 1) for place in range(300)
]
"""A row for each document and filter without the name of the filter (EleutherAI/lm-evaluation-harness#2025)."""


@pytest.mark.parametrize("metric", ["exact_match", "exact_match,strict-match"])
def test_rows_without_their_filter_are_said_to_be_that(tmp_path: Path, metric: str) -> None:
    """Nothing tells which rows are meant without results; the rows of one filter, as the message says, are read."""
    sides = [_log(tmp_path / side, "2024-06-26T10-00-00.000001", OLD) for side in "ab"]
    with pytest.raises(DataError) as error:
        measured(Scores.from_lm_eval(*sides, task="gsm8k", metric=metric), max_drop=3.0)
    assert "does not name the filters of its rows" in str(error.value)
    assert "keep the rows of one filter in the file, and write metric='exact_match'" in str(error.value)
    for side in sides:
        _log(side, "2024-06-26T10-00-00.000001", OLD[300:])
    result = measured(Scores.from_lm_eval(*sides, task="gsm8k", metric="exact_match"), max_drop=3.0)
    assert result.accuracy.candidate == 60.0


def test_equal_runs_keep_their_weight_in_the_mean() -> None:
    """Nine of twelve runs lose the same 15 of 500 questions, the others one each: 138 of 6000 answers."""
    broken = np.ones((12, 500))
    broken[:9, :15] = 0.0
    broken[range(9, 12), range(-12, -9)] = 0.0
    result = measured(Scores.from_arrays(np.ones((12, 500)), broken), max_drop=2.0)
    assert result.accuracy.drop == pytest.approx(100 * 138 / 6000)
    assert Status.PASS not in statuses(result)


def test_a_run_of_other_model_arguments_is_no_run_of_this_model(tmp_path: Path) -> None:
    """lm-eval names the folder by the model alone, and keeps old files (EleutherAI/lm-evaluation-harness#1918)."""
    rows = [
        {"doc_id": place, "acc": float(right), "metrics": ["acc"], "filter": "none"}
        for place, right in enumerate(RIGHT)
    ]
    for time, more in (("2026-01-04T10-00-00.000001", ""), ("2026-01-06T10-00-00.000001", ",load_in_4bit=True")):
        _log(tmp_path, time, rows, {"config": {"model": "hf", "model_args": f"pretrained=m{more}"}})
    with pytest.raises(DataError, match="different model_args"):
        measured(Scores.from_lm_eval(None, tmp_path, task="gsm8k", metric="acc", deterministic=True), max_drop=4.0)


def test_answers_that_never_came_are_no_pass(tmp_path: Path) -> None:
    """Ten of 1000, all right before (UKGovernmentBEIS/inspect_ai#3707): the drop may be 1 pp, and 0.5 are allowed."""
    lost = set(np.flatnonzero(RIGHT)[:10].tolist())
    for name, left_out in (("a", set()), ("b", lost)):
        rows = ({"id": place, "score": float(RIGHT[place])} for place in range(1000) if place not in left_out)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = measured(Scores.from_files(tmp_path / "a.jsonl", tmp_path / "b.jsonl", deterministic=True), max_drop=0.5)
    assert statuses(result) == [Status.INCONCLUSIVE]
